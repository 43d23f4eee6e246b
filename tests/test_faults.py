"""Every failure of a model's server, on one sample of twenty: a typed record, and 19 siblings."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fake_plan import Fault, FaultKind, Plan
from fake_process import ServerProcess, fake_process
from model_runs import (
    IMPATIENT,
    NO_SIGNALS,
    Ended,
    chats,
    endings,
    holds_key,
    journal,
    labels,
    result,
    run,
    tagged,
    turns,
)

ITEM = '{"sadness": {"evidence": "", "confidence": 0.9, "score": "2"}}'
CLINICAL = "Would you say that you are depressed, or have you thought of suicide?"
SHORT = (
    "experiment=hybrid", "samples=20", "orchestrator.max_messages=2", "tree.turns_max=1",
    "patient.call.timeout=3", NO_SIGNALS, *IMPATIENT,
)  # fmt: skip
"""Interviews of two turns: the tree asks once, the model once."""


class Case(NamedTuple):
    """A fault on every try of one role, and what must be recorded of it."""

    fault: FaultKind
    role: str
    kind: str
    cause: str
    """What every call's record and the failure's text say."""
    calls: int
    """Tries of a turn."""

    @property
    def transport(self) -> bool:
        """Whether the same command tries again."""
        return self.cause in {"rate_limited", "transport_failed"}


CASES = (
    Case("rate_limited", "patient", "rate_limited", "rate_limited", 2),
    Case("server_error", "interviewer", "interviewer_failed", "transport_failed", 2),
    Case("dropped", "scorer", "scorer_failed", "transport_failed", 2),
    Case("cut_body", "patient", "transport_failed", "transport_failed", 2),
    Case("broken_json", "patient", "transport_failed", "transport_failed", 2),
    Case("hang", "patient", "transport_failed", "transport_failed", 2),
    Case("empty", "patient", "empty", "empty", 2),
    Case("reasoned_away", "scorer", "scorer_failed", "budget_exhausted", 2),
    Case("in_reasoning", "interviewer", "interviewer_failed", "content_in_reasoning", 2),
    Case("refusal", "scorer", "scorer_failed", "refused", 2),
    Case("content_filter", "scorer", "scorer_failed", "content_filtered", 2),
    Case("invalid_prompt", "scorer", "scorer_failed", "prompt_refused", 2),
    Case("whitespace_loop", "scorer", "scorer_failed", "whitespace_loop", 2),
    Case("prose", "scorer", "scorer_failed", "unparseable", 2),
    Case("text", "scorer", "scorer_failed", "schema_violated", 2),
    Case("context_length", "patient", "context_exceeded", "context_exceeded", 1),
)
FLAGGED = "persona-20"
FLAGS: dict[int, tuple[Fault, tuple[int, str]]] = {
    1: (Fault(kind="header_leak", role="patient", turn=1), (1, "role_leak")),
    2: (Fault(kind="both_sides", role="patient", turn=2), (2, "both_sides")),
    3: (Fault(kind="role_reversal", role="patient", turn=1), (1, "role_reversal")),
    4: (Fault(kind="cut_off", role="patient", turn=2), (2, "truncated")),
    5: (Fault(kind="prose", role="scorer", turn=1), (1, "unscored")),
    6: (
        Fault(kind="text", text=CLINICAL, role="interviewer", turn=2, attempt=1),
        (2, "clinical_term"),
    ),
    7: (Fault(kind="text", text=CLINICAL, role="interviewer", turn=2), (2, "clinical_term")),
}
"""By sample of that persona: a fault after which the interview goes on, and its turn's flag."""
QUOTA = "persona-18"
EVERYONE = ",".join(map(str, (*range(1, len(CASES) + 1), 20)))


def name(number: int) -> str:
    return f"persona-{number:02d}"


def planned() -> tuple[Fault, ...]:
    """Return the faults: persona n has case n on its sample n."""
    ending = (
        Fault(kind=case.fault, role=case.role, subject=name(n), sample=n, text=text)
        for n, case in enumerate(CASES, 1)
        for text in [ITEM if case.fault == "text" else ""]
    )
    flagging = (
        fault.model_copy(update={"subject": FLAGGED, "sample": sample})
        for sample, (fault, _) in FLAGS.items()
    )
    return (*ending, *flagging)


@dataclass(frozen=True)
class Held:
    """One command with all the faults, and where it wrote."""

    server: ServerProcess
    outputs: Path
    printed: Ended

    def folder(self, subject: str) -> Path:
        return self.outputs / "hybrid" / subject


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    outputs = tmp_path_factory.mktemp("faults")
    with fake_process(Plan(faults=planned(), keep_bodies=False)) as server:
        printed = run(server.url, outputs, *SHORT, f"persona=[{EVERYONE}]")
        yield Held(server, outputs, printed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.fault}-{case.role}")
def test_a_fault_is_one_typed_record_while_19_siblings_finish(case: Case, held: Held) -> None:
    number = CASES.index(case) + 1
    folder = held.folder(name(number))
    ends = endings(folder)
    assert len(ends) == 20
    failed = {sample: end["failure"] for sample, end in ends.items() if end["failure"]}
    assert list(failed) == [number]
    failure = failed[number]
    assert (failure["kind"], failure["transport"]) == (case.kind, case.transport)
    if case.kind.endswith("_failed") and case.kind != "transport_failed":
        assert case.cause in failure["text"]
    assert len(failure["text"].splitlines()) == 1

    answer = result(folder)
    assert (answer["n_valid"], answer["n_planned"]) == (19, 20)
    assert [problem["sample"] for problem in answer["problems"]] == [number]
    assert number not in map(int, answer["result"]["totals"])


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.fault}-{case.role}")
def test_every_try_is_written_down_with_what_came_of_it(case: Case, held: Held) -> None:
    number = CASES.index(case) + 1
    calls = [
        line["call"] | {"turn": line["turn"]}
        for line in tagged(held.folder(name(number)), "call")
        if line["sample"] == number and line["call"]["role"] == case.role
    ]
    first = [call for call in calls if call["turn"] == calls[0]["turn"]]
    assert len(first) == case.calls
    read_later = {"unparseable", "schema_violated"}  # a delivered answer: what is in it comes after
    turned_away = case.fault in {"server_error", "unavailable"}
    told = "ok" if case.cause in read_later else "server_error" if turned_away else case.cause
    assert {call["outcome"] for call in calls} == {told}
    entries = [e for e in chats(held.server, name(number)) if e["sample"] == number]
    assert len(calls) == sum(entry["role"] == case.role for entry in entries)


def test_the_command_answers_and_names_each_failure_with_what_to_do(held: Held) -> None:
    assert held.printed.returncode == 0, held.printed.stderr
    assert "Traceback" not in held.printed.stdout + held.printed.stderr
    assert holds_key(held.outputs) == []
    for n, case in enumerate(CASES, 1):
        page = (held.folder(name(n)) / "summary.md").read_text(encoding="utf-8")
        _, _, wrong = page.partition("## What went wrong, and what to do")
        assert f"- Sample {n}: {case.kind}" in wrong
        way = "The same command tries again" if case.transport else "retry_failed=true"
        assert way in wrong


@pytest.mark.parametrize("sample", FLAGS)
def test_what_an_interview_survives_is_a_flag_on_its_turn(sample: int, held: Held) -> None:
    (number, flag) = FLAGS[sample][1]
    own = [turn for turn in turns(held.folder(FLAGGED)) if turn["sample"] == sample]
    seen = {
        (turn["number"], one)
        for turn in own
        for one in (*turn["flags"], *turn["answer"]["flags"], *turn["question"]["flags"])
    }
    assert (number, flag) in seen
    assert {n for n, _ in seen} == {number}
    assert endings(held.folder(FLAGGED))[sample]["failure"] is None


def test_all_twenty_interviews_with_flags_are_valid(held: Held) -> None:
    answer = result(held.folder(FLAGGED))
    assert (answer["n_valid"], answer["unscored_turns"]) == (20, 1)


def test_what_leaks_or_speaks_for_the_other_side_is_cut_and_kept_beside(held: Held) -> None:
    for sample, mark in ((1, "<|"), (2, "Interviewer:")):
        turn = flagged_turn(held, sample)
        assert mark not in turn["answer"]["text"]
        assert mark in turn["answer"]["raw"]


def test_a_refused_draft_is_written_anew_and_then_replaced_by_a_safe_line(held: Held) -> None:
    repaired, replaced = flagged_turn(held, 6)["question"], flagged_turn(held, 7)["question"]
    assert (repaired["source"], replaced["source"]) == ("model", "guard")
    assert "depress" not in repaired["text"] + replaced["text"]
    assert len(repaired["calls"]) == len(replaced["calls"]) == 2


def flagged_turn(held: Held, sample: int) -> dict[str, Any]:
    own = [turn for turn in turns(held.folder(FLAGGED)) if turn["sample"] == sample]
    return own[FLAGS[sample][1][0] - 1]


# once a fault is gone -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def healed(held: Held, tmp_path_factory: pytest.TempPathFactory) -> Held:
    """Return the same command again in a copy of the folder, with a server that is well."""
    outputs = tmp_path_factory.mktemp("healed") / "again"
    shutil.copytree(held.outputs, outputs)
    held.server.set_faults()
    printed = run(held.server.url, outputs, *SHORT, f"persona=[{EVERYONE}]")
    return Held(held.server, outputs, printed)


def test_the_same_command_finishes_what_a_way_to_a_server_cost(held: Held, healed: Held) -> None:
    assert healed.printed.returncode == 0, healed.printed.stderr
    for n, case in enumerate(CASES, 1):
        before, after = journal(held.folder(name(n))), journal(healed.folder(name(n)))
        assert after[: len(before)] == before
        new = labels([line for line in after[len(before) :] if line["tag"] == "asked"])
        assert {sample for sample, _, _ in new} == ({n} if case.transport else set())
        done = {line["turn"]["number"] for line in before if is_turn_of(line, n)}
        assert not {turn for _, turn, role in new if role != "scorer"} & done
        assert result(healed.folder(name(n)))["n_valid"] == (20 if case.transport else 19)


def is_turn_of(line: dict[str, Any], sample: int) -> bool:
    return bool(line["tag"] == "turn" and line["sample"] == sample)


def test_retry_failed_holds_the_others_again(healed: Held) -> None:
    lasting = [n for n, case in enumerate(CASES, 1) if not case.transport]
    again = run(
        healed.server.url, healed.outputs, *SHORT, f"persona={lasting}", "retry_failed=true"
    )
    assert again.returncode == 0, again.stderr
    for n in lasting:
        assert result(healed.folder(name(n)))["n_valid"] == 20


def test_an_empty_account_stops_the_whole_run_resumably(healed: Held) -> None:
    healed.server.set_faults(
        Fault(kind="insufficient_quota", subject=QUOTA, sample=3, turn=2, role="scorer")
    )
    arguments = (*SHORT, "persona=18")
    stopped = run(healed.server.url, healed.outputs, *arguments)
    assert stopped.returncode == 5
    assert stopped.stderr.count("\n") == 1
    assert "the same command goes on" in stopped.stderr
    folder = healed.folder(QUOTA)
    assert not (folder / "summary.md").exists()
    assert [c["call"]["outcome"] for c in tagged(folder, "call")].count("quota_exhausted") == 1
    done = {(turn["sample"], turn["number"]) for turn in turns(folder)}
    seen = len(chats(healed.server, QUOTA))

    healed.server.set_faults()
    finished = run(healed.server.url, healed.outputs, *arguments)
    assert finished.returncode == 0, finished.stderr
    assert result(folder)["n_valid"] == 20
    later = chats(healed.server, QUOTA)[seen:]
    assert not {(entry["sample"], entry["turn"]) for entry in later} & done
