"""The evaluate command: tables, pages and refusals, over run folders made of records."""

import asyncio
import csv
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from judging import named
from terminal import ROOT, tacit

from src import evaluate
from src.config import read_settings
from src.diagnosing import CaseResult
from src.errors import InputError
from src.evaluation.view import HEADING
from src.interview.views import transcript
from src.llm.ledger import Ledger
from src.patients.cases import Case, Reference
from src.prompts import load_yaml
from src.records import (
    INTENDED_USE,
    Answer,
    Call,
    Interview,
    Question,
    SafetyEvent,
    StopReason,
    ToolUse,
    Turn,
    sha256_of,
)
from src.reports import Diagnosis, DirectReport, Findings
from src.settings.evaluate import EvaluateSettings
from src.store import Manifest, SubjectFolder

DIAGNOSIS, DIRECT = "diagnosis-0123abcd", "direct-4567cdef"
NOTES = "evidence:\nN001 sleeps badly <since May>\n\nplan:\nN002 ask about work"
Codes = Sequence[str]
Lists = dict[str, dict[str, Codes]]
"""By analyst and subject: the codes of a whole interview's report."""


def held_interview(
    subject: str, exchanges: int, *, sample: int = 1, stopped: bool = False
) -> Interview:
    turns = []
    for n in range(1, exchanges + 1):
        call = Call(
            role="interviewer", asked="gpt-5.6-terra", reported="gpt-5.6-terra", seconds=n / 10,
            input_tokens=1000, cached_tokens=500, output_tokens=100,
        )  # fmt: skip
        use = ToolUse(name="lookup_icd_disorder", arguments='{"code": "6A70"}', ok=True, output="…")
        model = Question(
            text=f"Question {n}?", source="model", calls=(call,), notes=NOTES,
            tools=(use,) if n == 2 else (), flags=("rounds_used_up", "tone") if n == 3 else (),
        )  # fmt: skip
        question = Question(text="Hello.", source="fixed") if n == 1 else model
        answer = Answer(text=f"Answer {n} of {subject}, & more.")
        turns.append(Turn(number=n, question=question, answer=answer))
    event = SafetyEvent(source="model", kind="self_harm", reason="said so") if stopped else None
    stop = StopReason.SAFETY if stopped else StopReason.MAX_MESSAGES
    about: dict[str, Any] = {"subject": subject, "sample": sample, "seed": 1}
    closing = Question(text="Thank you.", source="fixed", event=event)
    return Interview(**about, turns=tuple(turns), closing=closing, stop=stop)


def diagnosis(interview: Interview, codes: Codes, *, exchanges: int | None = None) -> Diagnosis:
    turns = interview.turns[:exchanges]
    hypotheses = tuple(named(code, rank) for rank, code in enumerate(codes, 1))
    report = DirectReport(final_hypotheses=())
    findings = Findings(report=report, hypotheses=hypotheses)
    read = {"exchanges": len(turns), "transcript": sha256_of(transcript(turns))}
    return Diagnosis.model_validate({"sample": interview.sample, **read, "findings": findings})


def case(subject: str, reference: str | None) -> Case:
    known = (Reference(code=reference, name="Some disorder"),) if reference else ()
    return Case(
        id=subject, source="invented", text="A text.", sex="female", age=34, references=known
    )


def result(
    run: str, subject: str, found: Sequence[Diagnosis], *, of: Case | None, **more: Any
) -> CaseResult:
    usual: dict[str, Any] = {
        "caution": None, "analyst": {"kind": "direct"}, "n_planned": 1, "n_held": 1, "stops": {},
        "flags": {}, "safety_present": False, "events": (), "hosts": (), "served": {},
        "diagnoser": "terra", "ledger": Ledger(), "problems": (),
    }  # fmt: skip
    return CaseResult(
        run=run, subject=subject, case=of, diagnoses=tuple(found), **{**usual, **more}
    )


def manifest(run: str, subject: str, config: dict[str, object]) -> Manifest:
    return Manifest(
        run=run, subject=subject, digest="0", identity={}, config=config, files={}, version="0",
        commit=None, dirty=None, python="3.11", created=datetime(2027, 1, 1, tzinfo=UTC),
    )  # fmt: skip


def write(
    root: Path,
    interviews: Sequence[Interview],
    results: dict[str, dict[str, CaseResult]],
    config: dict[str, object] | None = None,
) -> Path:
    """Write a run's folder; results by analyst and subject."""
    for interview in interviews:
        folder = SubjectFolder(root / interview.subject)
        folder.open(manifest(root.name, interview.subject, config or {}), {})
        asyncio.run(keep(folder, interview))
        folder.close()
        for analyst, by_subject in results.items():
            if one := by_subject.get(interview.subject):
                folder.write_result(analyst, one.model_dump(mode="json"))
    return root


async def keep(folder: SubjectFolder, interview: Interview) -> None:
    for turn in interview.turns:
        await folder.keep_turn(interview.sample, turn)
        for call in turn.question.calls:
            await folder.keep_call(interview.sample, turn.number, call)
    await folder.keep_end(interview)


async def keep_calls(folder: SubjectFolder, calls: Sequence[Call]) -> None:
    for call in calls:
        await folder.keep_call(1, 1, call)


REFERENCES = {"case-001": "6A70", "case-002": "6B00", "case-003": None}


def make(root: Path, lists: Lists, *, exchanges: int = 4, **more: Any) -> Path:
    """Write a run of three cases, the third without a disorder."""
    interviews = [held_interview(subject, exchanges) for subject in REFERENCES]
    results = {
        analyst: {
            i.subject: result(
                root.name,
                i.subject,
                [diagnosis(i, codes[i.subject])],
                of=case(i.subject, REFERENCES[i.subject]),
                **more,
            )
            for i in interviews
        }
        for analyst, codes in lists.items()
    }
    return write(root, interviews, results)


RIGHT: dict[str, Codes] = {"case-001": ["6A70.1"], "case-002": ["6B00"], "case-003": []}
LESS: dict[str, Codes] = {"case-001": ["6A71", "6A70"], "case-002": [], "case-003": ["6B43"]}


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with two runs of two analysts each."""
    outputs = tmp_path_factory.mktemp("outputs")
    make(outputs / "psycidra", {DIAGNOSIS: RIGHT, DIRECT: LESS})
    make(outputs / "direct", {DIAGNOSIS: LESS, DIRECT: LESS}, exchanges=3)
    return outputs


def evaluated(*runs: Path, out: Path | None = None, options: Sequence[str] = ()) -> None:
    folders = ",".join(map(str, runs))
    where = [f"out={out}"] if out else []
    evaluate.evaluate([f"runs=[{folders}]", *where, *options])


def table(out: Path, name: str) -> list[dict[str, str]]:
    with (out / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


# tables -------------------------------------------------------------------------------------


def test_each_analyst_of_each_run_is_a_condition_with_its_measures(
    grid: Path, tmp_path: Path
) -> None:
    evaluated(grid / "psycidra", grid / "direct", out=tmp_path / "out")
    rows = {row["condition"]: row for row in table(tmp_path / "out", "agreement")}
    assert list(rows) == [
        "psycidra/diagnosis", "psycidra/direct", "direct/diagnosis", "direct/direct",
    ]  # fmt: skip
    best, other = rows["psycidra/diagnosis"], rows["direct/direct"]
    assert (best["n"], best["r1"], best["coverage"], best["mrr"]) == ("2", "1.0", "1.0", "1.0")
    assert (other["r1"], other["coverage"], other["mrr"]) == ("0.0", "0.5", "0.25")
    decided = {row["condition"]: row for row in table(tmp_path / "out", "decisions")}
    assert decided["psycidra/diagnosis"]["agreement"] == "1.0"
    assert decided["direct/direct"]["agreement_hits"] == "1"
    raw = [row["raw"] for row in table(tmp_path / "out", "reports")]
    assert raw[0] == "6A70.1"


def test_all_pairs_of_a_two_by_two_are_compared_unless_two_are_named(
    grid: Path, tmp_path: Path
) -> None:
    runs = (grid / "psycidra", grid / "direct")
    evaluated(*runs, out=tmp_path / "all")
    assert len({(row["a"], row["b"]) for row in table(tmp_path / "all", "paired")}) == 6
    two = "compare=[direct/direct,psycidra/diagnosis]"
    evaluated(*runs, out=tmp_path / "two", options=[two])
    rows = {row["endpoint"]: row for row in table(tmp_path / "two", "paired")}
    columns = ("both", "a_only", "b_only", "neither")
    cells = {key: [row[column] for column in columns] for key, row in rows.items()}
    assert cells == {
        "decision": ["1", "0", "2", "0"],
        "rank 1": ["0", "0", "2", "0"],
        "coverage": ["1", "0", "1", "0"],
    }
    assert rows["rank 1"]["p"] == "0.5"


def test_tools_tokens_dollars_and_seconds_are_those_of_the_records(
    grid: Path, tmp_path: Path
) -> None:
    evaluated(grid / "psycidra", out=tmp_path / "out")
    (tool,) = table(tmp_path / "out", "tools")
    assert (tool["who"], tool["tool"], tool["calls"], tool["share"]) == (
        "psycidra", "lookup_icd_disorder", "3", "1.0",
    )  # fmt: skip
    (tokens,) = table(tmp_path / "out", "tokens")
    assert (tokens["input_tokens"], tokens["total_tokens"]) == ("3000.0", "3300.0")
    assert float(tokens["cost"]) == pytest.approx(3 * (500 * 2 + 500 * 0.2 + 100 * 12) / 1e6)
    (spent,) = table(tmp_path / "out", "spent")
    assert (spent["requests"], spent["input_tokens"]) == ("9", "9000")
    (seconds,) = table(tmp_path / "out", "latency")
    assert (seconds["median"], seconds["maximum"]) == ("0.3", "0.4")
    (capped,) = table(tmp_path / "out", "capped")
    assert capped["replies"] == "3"
    rows = [tuple(row.values()) for row in table(tmp_path / "out", "guard")]
    assert rows == [("psycidra", concern, "3", "3", "0", "0") for concern in ("any", "tone")]
    shares = {row["exchange"]: row["share"] for row in table(tmp_path / "out", "tool_exchanges")}
    assert shares == {"1": "1.0", "2": "0.0", "3": "0.0"}


def test_a_condition_takes_its_interviews_and_its_own_reports_in_all(tmp_path: Path) -> None:
    """By hand: 3 replies at 0.2 to 0.4 s, 4 answers of 2 s, reports of 10 s and of 5 and 6 s."""
    tokens = {"input_tokens": 1000, "cached_tokens": 500, "output_tokens": 100}
    answer = Call(role="patient", asked="google/gemma-3-27b-it", seconds=2.0, **tokens)
    whole = held_interview("case-001", 4)
    turns = [t.model_copy(update={"answer": Answer(text=t.answer.text, calls=(answer,))})
             for t in whole.turns]  # fmt: skip
    interview = whole.model_copy(update={"turns": tuple(turns)})

    def reported(asked: str, *seconds: float) -> Diagnosis:
        calls = tuple(Call(role="analyst", asked=asked, seconds=s, **tokens) for s in seconds)
        one = diagnosis(interview, [])
        assert one.findings
        found = one.findings.model_copy(update={"calls": calls})
        return one.model_copy(update={"findings": found})

    made = {DIAGNOSIS: reported("google/gemma-3-27b-it", 5.0, 6.0), DIRECT: reported("dark", 10.0)}
    results = {
        analyst: {"case-001": result("run", "case-001", [one], of=case("case-001", "6A70"))}
        for analyst, one in made.items()
    }
    models = {
        "gemma": {"name": "google/gemma-3-27b-it", "backend": "vllm"},
        "terra": {"name": "gpt-5.6-terra", "backend": "openai"},
        "dark": {"name": "dark", "backend": "compatible"},
    }
    root = write(tmp_path / "run", [interview], results, {"models": models})
    folder = SubjectFolder(root / "case-001")
    folder.open(manifest("run", "case-001", {"models": models}), {})
    failed = Call(role="analyst", asked="google/gemma-3-27b-it", seconds=99.0)
    analysts = [c for one in made.values() if one.findings for c in one.findings.calls]
    asyncio.run(keep_calls(folder, [*[answer] * 4, failed, *analysts]))
    folder.close()
    assumed = tmp_path / "assumed.yaml"
    text = (ROOT / "conf/estimate.yaml").read_text(encoding="utf-8")
    assumed.write_text(re.sub(r"(  gemma: .*cards: )\d+", r"\g<1>2", text), encoding="utf-8")
    evaluated(root, out=tmp_path / "out", options=[f"estimate={assumed}"])
    rows = {row["condition"]: row for row in table(tmp_path / "out", "totals")}
    dara, direct = rows["run/diagnosis"], rows["run/direct"]
    columns = ("requests", "input_tokens", "cached_tokens", "output_tokens", "total_tokens")
    assert [dara[c] for c in columns] == ["9", "9000", "4500", "900", "9900"]
    assert [direct[c] for c in columns] == ["8", "8000", "4000", "800", "8800"]
    assert float(dara["cost"]) == pytest.approx(3 * (500 * 2 + 500 * 0.2 + 100 * 12) / 1e6)
    assert (direct["cost"], direct["unpriced"], dara["unpriced"]) == ("", "1", "0")
    assert (dara["seconds"], direct["seconds"]) == ("19.9", "18.9")
    assert (dara["gpu_seconds"], direct["gpu_seconds"]) == ("38.0", "16.0")
    spent = {row["role"]: row["requests"] for row in table(tmp_path / "out", "spent")}
    assert spent == {
        "analyst": "1", "interviewer": "3", "patient": "4", "run/diagnosis": "2", "run/direct": "1",
    }  # fmt: skip


def test_every_written_column_is_explained_and_none_that_is_never_written(
    grid: Path, tmp_path: Path
) -> None:
    root = tmp_path / "prefixed"
    interview = held_interview("case-001", 8)
    found = [diagnosis(interview, [], exchanges=4), diagnosis(interview, ["6A70"])]
    one = result(root.name, "case-001", found, of=case("case-001", "6A70"))
    write(root, [interview], {DIRECT: {"case-001": one}})
    evaluated(grid / "psycidra", grid / "direct", root, out=tmp_path / "out")
    rows = table(tmp_path / "out", "columns")
    explained = {(row["table"], row["column"]) for row in rows}
    assert all(row["meaning"] for row in rows)
    files = [path.stem for path in (tmp_path / "out").glob("*.csv")]
    assert len(files) == 21
    for name in set(files) - {"columns"}:
        assert [c for c in table(tmp_path / "out", name)[0] if (name, c) not in explained] == []
    used = {column for _, column in explained}
    used |= {end for end in evaluate.COMPANIONS if any(c.endswith(end) for c in used)}
    assert load_yaml(evaluate.COLUMNS, evaluate.Columns).root.keys() <= used


def test_first_exchanges_have_a_row_each(tmp_path: Path) -> None:
    interview = held_interview("case-001", 8)
    found = [diagnosis(interview, [], exchanges=4), diagnosis(interview, ["6A70"])]
    one = result("run", "case-001", found, of=case("case-001", "6A70"))
    write(tmp_path / "run", [interview], {DIRECT: {"case-001": one}})
    evaluated(tmp_path / "run", out=tmp_path / "out")
    rows = table(tmp_path / "out", "prefixes")
    assert [(row["exchanges"], row["r1"]) for row in rows] == [("4", "0.0"), ("8", "1.0")]
    assert [row["n"] for row in table(tmp_path / "out", "agreement")] == ["1"]


def test_a_diagnosis_of_an_interview_that_was_held_again_is_left_out(tmp_path: Path) -> None:
    old = held_interview("case-001", 3)
    one = result("run", "case-001", [diagnosis(old, ["6A70"])], of=case("case-001", "6A70"))
    last = old.turns[2].model_copy(update={"answer": Answer(text="Something else.")})
    new = old.model_copy(update={"turns": (*old.turns[:2], last)})
    write(tmp_path / "run", [new], {DIRECT: {"case-001": one}})
    evaluated(tmp_path / "run", out=tmp_path / "out")
    assert [row["interviews"] for row in table(tmp_path / "out", "conditions")] == ["0"]


def test_two_analysts_of_one_kind_are_told_apart_by_their_digest(tmp_path: Path) -> None:
    make(tmp_path / "run", {"direct-00000000": RIGHT, "direct-11111111": LESS})
    evaluated(tmp_path / "run", out=tmp_path / "out")
    labels = [row["condition"] for row in table(tmp_path / "out", "conditions")]
    assert labels == ["run/direct-00000000", "run/direct-11111111"]


def test_a_table_is_the_same_whatever_the_terminal_shows(
    grid: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    evaluated(grid / "psycidra")
    shown = capsys.readouterr().out
    assert INTENDED_USE in shown
    assert "psycidra/diagnosis" in shown
    assert "2 = 100.0% [34–100]" in shown
    assert "Simulated patients" not in shown
    assert "out=FOLDER writes all" in shown


def test_rule_based_players_are_named_before_any_figure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(tmp_path / "run", {DIRECT: RIGHT}, caution="rules")
    evaluated(tmp_path / "run")
    shown = capsys.readouterr().out
    assert shown.index("Simulated patients, machinery") < shown.index("run/direct")


def test_runs_of_a_held_out_cohort_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    aside: dict[str, object] = {"cohort": {"name": "aside", "held_out": True}}
    other: dict[str, object] = {"cohort": {"name": "invented", "held_out": False}}
    interview = held_interview("case-001", 3)
    one = result("x", "case-001", [diagnosis(interview, [])], of=case("case-001", "6A70"))
    for name, config in (("first", aside), ("second", aside), ("third", other)):
        write(tmp_path / name, [interview], {DIRECT: {"case-001": one}}, config)
    (tmp_path / "no-run").mkdir()
    evaluated(tmp_path / "second")
    assert "aside was run 2 times in this folder: first, second" in capsys.readouterr().out
    evaluated(tmp_path / "third")
    assert "held-out" not in capsys.readouterr().out


def test_personas_without_references_get_what_needs_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    interview = held_interview("persona-07", 4)
    one = result("run", "persona-07", [diagnosis(interview, ["6A70"])], of=None)
    write(tmp_path / "run", [interview], {DIRECT: {"persona-07": one}})
    evaluated(tmp_path / "run", out=tmp_path / "out")
    assert "run/direct: no reference is known" in capsys.readouterr().out
    names = {path.stem for path in (tmp_path / "out").glob("*.csv")}
    assert {"conditions", "tools", "tokens"} <= names
    assert not {"agreement", "decisions", "paired", "confidence"} & names
    assert [row["named"] for row in table(tmp_path / "out", "conditions")] == ["1"]


# pages --------------------------------------------------------------------------------------


def test_a_page_shows_reports_notes_and_tools_beside_the_transcript(
    grid: Path, tmp_path: Path
) -> None:
    evaluated(grid / "psycidra", out=tmp_path / "out", options=["view=case-001/1"])
    (path,) = (tmp_path / "out" / "pages").rglob("*.md")
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f"# {HEADING}\n")
    for part in (
        "Reference of the case: 6A70 Some disorder.",
        "## Report: diagnosis",
        "written 6A70.1",
        "## Report: direct",
        "### Greeting",
        "Answer 4 of case-001, &amp; more.",
        "    N001 sleeps badly <since May>",
        "`lookup_icd_disorder`",
        "[model, rounds_used_up, tone]",
    ):
        assert part in text, part
    assert text.count("Notepad after this") == 1  # it did not change again
    first = text.partition("### Exchange 1")[2].partition("### Exchange 2")[0]
    order = ("Answer 1 of case-001", "`lookup_icd_disorder`", "Notepad", "Question 2?")
    assert sorted(order, key=first.index) == list(order)
    assert text.rpartition("### Exchange 4")[2].index("Thank you.")


def test_view_true_writes_a_page_for_each_interview_of_each_run(grid: Path, tmp_path: Path) -> None:
    runs = (grid / "psycidra", grid / "direct")
    evaluated(*runs, out=tmp_path / "out", options=["view=true"])
    pages = sorted(path.name for path in (tmp_path / "out" / "pages").rglob("*.md"))
    assert pages == sorted([f"{subject}-1.md" for subject in REFERENCES] * 2)


def test_a_suppressed_diagnosis_is_counted_apart_and_its_page_says_why(tmp_path: Path) -> None:
    interview = held_interview("case-001", 3, stopped=True)
    none = diagnosis(interview, []).model_copy(update={"findings": None, "suppressed": True})
    one = result("run", "case-001", [none], of=case("case-001", "6A70"))
    write(tmp_path / "run", [interview], {DIRECT: {"case-001": one}})
    evaluated(tmp_path / "run", out=tmp_path / "out", options=["view=true"])
    (row,) = table(tmp_path / "out", "conditions")
    assert (row["suppressed"], row["empty"]) == ("1", "0")
    assert not (tmp_path / "out" / "agreement.csv").exists()
    (path,) = (tmp_path / "out" / "pages").rglob("*.md")
    text = path.read_text(encoding="utf-8")
    assert "None, since the interview was stopped for safety." in text
    assert "open for review by a person" in text


# refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["compare=[psycidra/nobody,psycidra/direct]"], "no condition psycidra/nobody; there are"),
        (["view=case-009/1", "out=OUT"], "view=case-009/1: no such interview"),
        (["view=true"], "view writes pages: it needs out=FOLDER"),
        (["out=GRID"], "holds other files already"),
        (["age_bands=[30,18]"], "age_bands: years in ascending order"),
        (["compare=[psycidra/direct]"], "compare"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_line(
    options: list[str], line: str, grid: Path, tmp_path: Path
) -> None:
    filled = [o.replace("GRID", str(grid)).replace("OUT", str(tmp_path / "out")) for o in options]
    with pytest.raises(InputError, match=line) as refused:
        evaluated(grid / "psycidra", options=filled)
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "out").exists()


def test_a_folder_without_reports_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "run", [held_interview("case-001", 3)], {})
    with pytest.raises(InputError, match="holds no diagnostic report"):
        evaluated(tmp_path / "run")
    with pytest.raises(InputError, match="holds no diagnostic report"):
        evaluated(tmp_path / "nowhere")


def test_a_damaged_result_is_refused_by_name(tmp_path: Path) -> None:
    make(tmp_path / "run", {DIRECT: RIGHT})
    path = tmp_path / "run" / "case-001" / "results" / f"{DIRECT}.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"n_held"', '"held"'))
    with pytest.raises(InputError, match=rf"{DIRECT}\.json: is damaged, or of another version"):
        evaluated(tmp_path / "run")


def test_two_runs_with_other_references_are_not_compared(grid: Path, tmp_path: Path) -> None:
    interview = held_interview("case-001", 3)
    one = result("run", "case-001", [diagnosis(interview, [])], of=case("case-001", "6B00"))
    write(tmp_path / "run", [interview], {DIRECT: {"case-001": one}})
    with pytest.raises(InputError, match="case-001: the two runs have different references"):
        evaluated(grid / "psycidra", tmp_path / "run")


def test_comparing_personas_is_refused_since_nothing_is_known_of_them(tmp_path: Path) -> None:
    interview = held_interview("persona-07", 3)
    one = result("run", "persona-07", [diagnosis(interview, [])], of=None)
    results = {DIRECT: {"persona-07": one}, DIAGNOSIS: {"persona-07": one}}
    write(tmp_path / "run", [interview], results)
    with pytest.raises(InputError, match="has no references: its subjects are personas"):
        evaluated(tmp_path / "run", options=["compare=[run/direct,run/diagnosis]"])


def test_a_run_must_be_named() -> None:
    with pytest.raises(InputError, match="name at least one run's folder"):
        read_settings("evaluate", EvaluateSettings, [])


def test_the_command_ends_as_a_command_does(grid: Path) -> None:
    done = tacit("src.evaluate", f"runs=[{grid / 'psycidra'}]")
    assert (done.returncode, done.stderr) == (0, "")
    refused = tacit("src.evaluate", "runs=[nowhere]")
    assert refused.returncode == 2
    assert refused.stderr.startswith("tacit: ")
    assert refused.stderr.count("\n") == 1
