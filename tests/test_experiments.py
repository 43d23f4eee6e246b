"""Every experiment of conf/, end to end: it answers, and is held as its decisions say."""

import json
import re
import resource
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from decisions import DECISIONS, WITHOUT_A_VALUE, flat, promised
from fake_plan import DEFAULT_MODELS, Fault, Plan
from fake_process import ServerProcess, fake_process
from model_runs import (
    KEY,
    NO_SIGNALS,
    Ended,
    bodies,
    ended,
    endings,
    holds_key,
    manifest,
    result,
    run,
    start,
    tagged,
    turns,
)

from src import config
from src.interviewers.guard import Guard
from src.prompts import load_prompt
from src.records import Turn
from src.settings import RunSettings

CLINICAL = "Would you say that you are depressed? Are your symptoms getting worse?"
SAMPLES = {
    "hybrid": 8,
    "baseline": 3,
    "monolithic": 3,
    "local": 3,
    "hybrid_as_printed": 3,
    "baseline_as_printed": 3,
    "monolithic_as_printed": 3,
    "offline": 3,
}
"""Interviews of each experiment; experiment n plays persona n."""
SUBJECTS = {name: f"persona-{n:02d}" for n, name in enumerate(SAMPLES, 1)}
WITH_MODELS = [name for name in SAMPLES if name != "offline"]
GROWING = [name for name in WITH_MODELS if name not in {"hybrid_as_printed", "baseline_as_printed"}]
"""Those whose interviewer reads the guidance last."""
TOKENS, WINDOW, BUDGET = 200_000, 3.0, 5000
LIMITED = (
    "experiment=hybrid", "run=limited", "persona=20", "samples=30", "orchestrator.max_messages=4",
    f"scorer.call.max_tokens={BUDGET}", NO_SIGNALS,
    f"models.gpt5nano.rate={{requests: null, tokens: {TOKENS}, seconds: {WINDOW}}}",
)  # fmt: skip


# decisions ----------------------------------------------------------------------------------


def composed(experiment: str) -> dict[str, object]:
    settings = config.read_settings("config", RunSettings, [f"experiment={experiment}"])
    return flat(settings.model_dump(mode="json"))


@pytest.mark.parametrize("experiment", WITH_MODELS)
def test_an_experiment_has_the_value_of_every_decision(experiment: str) -> None:
    plain = composed(experiment)
    expected = promised(experiment)
    assert {key: plain[key] for key in expected} == expected


@pytest.mark.parametrize("system", DECISIONS)
def test_nothing_but_decisions_parts_the_decided_from_the_printed(system: str) -> None:
    decided, printed = composed(system), composed(f"{system}_as_printed")
    differing = {key for key in decided if decided[key] != printed.get(key)}
    listed = {key for _, key, one, other in DECISIONS[system] if one != other}
    assert differing - {"name"} == listed


def test_every_decision_is_in_the_table() -> None:
    numbers = {number for rows in DECISIONS.values() for number, *_ in rows}
    assert numbers | WITHOUT_A_VALUE == set(range(24))


# end to end ---------------------------------------------------------------------------------


def faults() -> tuple[Fault, ...]:
    """Return what makes the interviewers write clinical words now and then, some of them twice."""
    return tuple(
        Fault(
            kind="text", role="interviewer", subject=SUBJECTS[name], share=0.2,
            text=json.dumps({"message": CLINICAL, "done": False}) if "mono" in name else CLINICAL,
        )
        for name in WITH_MODELS
    )  # fmt: skip


@dataclass
class Experiments:
    """One command for each experiment, all against one server."""

    server: ServerProcess
    outputs: Path
    printed: dict[str, Ended] = field(default_factory=dict)

    def folder(self, name: str) -> Path:
        return self.outputs / name / SUBJECTS[name]


class Limited(NamedTuple):
    """A run at a token rate, which waits most of the time."""

    server: ServerProcess
    outputs: Path
    process: "subprocess.Popen[str]"


@pytest.fixture(scope="module")
def limited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limited]:
    models = tuple(
        model.model_copy(update={"tokens": TOKENS, "window": WINDOW})
        if model.name == "gpt-5-nano"
        else model
        for model in DEFAULT_MODELS
    )
    outputs = tmp_path_factory.mktemp("limited")
    with fake_process(Plan(models=models, keep_bodies=False)) as server:
        process = start(server.url, outputs, *LIMITED, limits=True)
        yield Limited(server, outputs, process)
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory, limited: Limited) -> Iterator[Experiments]:
    with fake_process(Plan(faults=faults())) as server:
        found = Experiments(server, tmp_path_factory.mktemp("experiments"))
        processes: dict[str, subprocess.Popen[str]] = {}
        for number, (name, samples) in enumerate(SAMPLES.items(), 1):
            arguments = (f"experiment={name}", f"persona={number}", f"samples={samples}")
            processes[name] = start(server.url, found.outputs, *arguments)
            if number % 2 == 0:  # two at a time
                found.printed |= {
                    n: ended(p) for n, p in processes.items() if n not in found.printed
                }
        yield found


@pytest.mark.parametrize("experiment", SAMPLES)
def test_an_experiment_ends_with_an_answer(experiment: str, held: Experiments) -> None:
    printed = held.printed[experiment]
    assert printed.returncode == 0, printed.stderr
    answer = result(held.folder(experiment))
    assert answer["n_valid"] == answer["n_planned"] == SAMPLES[experiment]
    assert len(answer["result"]["profile"]["symptoms"]) == 21
    assert answer["unscored_turns"] == 0
    for part in ("BDI-II total", "Key symptoms", "Nearest runs", f"{SAMPLES[experiment]} valid"):
        assert part in printed.stdout


@pytest.mark.parametrize("experiment", WITH_MODELS)
def test_a_run_is_held_as_promised(experiment: str, held: Experiments) -> None:
    plain = flat(manifest(held.folder(experiment))["config"])
    expected = promised(experiment) | {"samples": SAMPLES[experiment]}
    assert {key: plain[key] for key in expected} == expected


@pytest.mark.parametrize("experiment", WITH_MODELS)
def test_a_goodbye_is_sent_as_printed_or_by_the_interviewers_own_choice(
    experiment: str, held: Experiments
) -> None:
    closed = [end["closing"] is not None for end in endings(held.folder(experiment)).values()]
    reasons = set(result(held.folder(experiment))["stops"])
    if reasons == {"done"}:  # the interviewer's own goodbye
        assert all(closed)
    else:
        assert set(closed) == {"as_printed" in experiment}


def test_most_turns_of_the_default_hybrid_are_the_models(held: Experiments) -> None:
    sources = Counter(
        turn["question"]["source"].partition(":")[0] for turn in turns(held.folder("hybrid"))
    )
    assert sources["model"] + sources["guard"] >= 0.6 * sources.total()
    assert 0 < sources["tree"] <= 3 * SAMPLES["hybrid"]
    assert len(result(held.folder("hybrid"))["stops"]) > 1
    tree = [t for t in turns(held.folder("hybrid_as_printed")) if "tree" in t["question"]["source"]]
    assert len(tree) > len(turns(held.folder("hybrid_as_printed"))) / 2


def test_the_monolith_is_scored_once_when_it_is_over(held: Experiments) -> None:
    for name in ("monolithic", "monolithic_as_printed"):
        calls = [line["call"]["role"] for line in tagged(held.folder(name), "call")]
        assert calls.count("scorer") == SAMPLES[name]
        assert all(turn["assessment"] is None for turn in turns(held.folder(name)))


# what leaves the house ----------------------------------------------------------------------


def test_no_clinical_term_leaves_the_house(
    held: Experiments, capsys: pytest.CaptureFixture[str]
) -> None:
    """The guard reads every message that was sent again; what it caught is printed."""
    guard = Guard(config.read_settings("config", RunSettings, []).guard)
    caught: Counter[str] = Counter()
    let_out: list[str] = []
    sent = safe = 0
    for name in WITH_MODELS:
        talks: dict[int, list[Turn]] = {n: [] for n in range(1, SAMPLES[name] + 1)}
        for line in tagged(held.folder(name), "turn"):
            turn, before = Turn.model_validate(line["turn"]), talks[line["sample"]]
            caught.update(turn.question.flags)
            sent, safe = sent + 1, safe + (turn.question.source == "guard")
            let_out += guard.check(turn.question.text, turns=before, closing=False)
            before.append(turn)
        for sample, end in endings(held.folder(name)).items():
            if end["closing"]:
                text = end["closing"]["text"]
                let_out += guard.check(text, turns=talks[sample], closing=True)
    with capsys.disabled():
        sys.stdout.write(
            f"\nguard: {dict(caught)} in drafts of {sent} messages, {safe} safe lines, "
            f"{len(let_out)} breaches let out\n"
        )
    assert caught["clinical_term"] > 10
    assert safe > 0
    assert let_out == []


def test_the_key_stands_in_no_file_and_no_output(held: Experiments) -> None:
    assert holds_key(held.outputs) == []
    for printed in held.printed.values():
        assert KEY not in printed.stdout + printed.stderr


# what is sent -------------------------------------------------------------------------------

NOTE = re.compile("^## (Focus now|Time to end)", re.MULTILINE)
"""How the orchestrator's guidance begins."""
Sent = list[tuple[dict[str, Any], dict[str, Any]]]


@pytest.fixture(scope="module")
def sent(held: Experiments) -> dict[str, Sent]:
    """Return by experiment every request with its body."""
    return {name: bodies(held.server, SUBJECTS[name]) for name in WITH_MODELS}


def history(body: dict[str, Any]) -> bytes:
    """Return a prompt as a server reads it."""
    return "".join(f"<{m['role']}>{m['content']}" for m in body["messages"]).encode()


def said(folder: Path) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for turn in turns(folder):
        found.setdefault(turn["sample"], []).append(turn)
    return found


@pytest.mark.parametrize("experiment", GROWING)
def test_consecutive_prompts_of_a_role_share_all_but_the_tail(
    experiment: str, held: Experiments, sent: dict[str, Sent]
) -> None:
    """What was said is the same bytes at the same place in the next prompt of that role."""
    talks, kickoff = said(held.folder(experiment)), load_prompt("prompts/kickoff.md").template
    prompts: dict[tuple[int, str], list[tuple[int, bytes]]] = {}
    for entry, body in sent[experiment]:
        key = (entry["sample"], entry["role"])
        prompts.setdefault(key, []).append((entry["turn"], history(body)))
    pairs = 0
    for (sample, role), own in prompts.items():
        for (turn, earlier), (_, later) in pairwise(own):
            end = len(earlier)
            if role == "interviewer":  # what follows the last answer is this turn's alone
                last = talks[sample][turn - 2]["answer"]["text"] if turn > 1 else kickoff.strip()
                end = earlier.rindex(last.encode()) + len(last.encode())
            assert shared(earlier[:end], later) >= 0.95 * end, (sample, role, turn)
            pairs += 1
    assert pairs > 3 * SAMPLES[experiment]


def shared(one: bytes, other: bytes) -> int:
    """Return how many bytes two prompts have in common at their beginning."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


@pytest.mark.parametrize("experiment", WITH_MODELS)
def test_roles_alternate_in_every_body(experiment: str, sent: dict[str, Sent]) -> None:
    for _, body in sent[experiment]:
        roles = "".join(message["role"][0] for message in body["messages"])
        assert re.fullmatch("s?(ua)*u", roles)
        assert {message["role"] for message in body["messages"]} <= {"system", "user", "assistant"}


@pytest.mark.parametrize("experiment", WITH_MODELS)
def test_sampling_is_sent_explicitly_and_nothing_outdated(
    experiment: str, sent: dict[str, Sent]
) -> None:
    for entry, body in sent[experiment]:
        given = set(body) - {"model", "messages", "response_format", "stop"}
        if entry["model"].startswith("gpt-"):
            assert given == {"max_completion_tokens", "reasoning_effort"}
            continue
        expected = {"max_tokens", "temperature", "top_p", "top_k", "seed"}
        expected |= {"stop_token_ids"} if entry["role"] == "patient" else set()
        assert given == expected
        assert body.get("stop") == (["\nInterviewer:"] if entry["role"] == "patient" else None)


def test_no_clock_and_no_name_of_a_run_is_sent(held: Experiments, sent: dict[str, Sent]) -> None:
    clock = re.compile(r"\b20\d\d\b|\b\d\d:\d\d\b|\b1[6-9]\d{8}\b")
    for name, own in sent.items():
        for _, body in own:
            text = history(body).decode()
            assert "guided_" not in json.dumps(body)
            assert not clock.search(text)
            assert str(held.outputs) not in text
            assert name not in text


def test_guidance_and_order_are_sent_as_decided(sent: dict[str, Sent]) -> None:
    for name in ("hybrid", "hybrid_as_printed", "baseline", "baseline_as_printed"):
        printed = "as_printed" in name
        for entry, body in sent[name]:
            first, last = body["messages"][0]["content"], body["messages"][-1]["content"]
            if entry["role"] == "interviewer":
                assert (bool(NOTE.search(first)), bool(NOTE.search(last))) == (printed, not printed)
            if entry["role"] == "scorer":
                schema = body["response_format"]["json_schema"]["schema"]
                fields = list(schema["properties"]["sadness"]["properties"])
                order = ["evidence", "confidence", "score"]
                assert fields == (order[::-1] if printed else order)


# a token rate -------------------------------------------------------------------------------


def test_30_samples_at_a_token_limit_finish_without_a_failure(limited: Limited) -> None:
    found = ended(limited.process)
    assert found.returncode == 0, found.stderr
    answer = result(limited.outputs / "limited" / "persona-20")
    assert (answer["n_valid"], answer["problems"]) == (30, [])
    nano = [entry for entry in limited.server.log() if entry["model"] == "gpt-5-nano"]
    assert sum(e["prompt_tokens"] + BUDGET for e in nano if e["answered"]) > 3 * TOKENS
    assert sum(entry["status"] == 429 for entry in nano) < 0.1 * len(nano)


def test_the_driver_takes_less_than_20_ms_of_the_processor_a_turn(tmp_path: Path) -> None:
    spent, turns_held = [], []
    with fake_process() as server:
        for samples in (3, 30):  # their difference leaves out the start of the program
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            name = f"run=of-{samples}"
            ended = run(server.url, tmp_path, "experiment=hybrid", f"samples={samples}", name)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            assert ended.returncode == 0, ended.stderr
            spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            turns_held.append(len(tagged(tmp_path / f"of-{samples}" / "persona-07", "turn")))
    overhead = (spent[1] - spent[0]) / (turns_held[1] - turns_held[0])
    sys.stdout.write(f"{1000 * overhead:.1f} ms of the processor a turn, {sum(turns_held)} turns\n")
    assert overhead < 0.020
