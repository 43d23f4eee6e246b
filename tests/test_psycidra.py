"""The whole of PsyCIDRA as a user runs it: offline, resumed, stopped, in grids, held out."""

import json
import shutil
from collections import Counter
from pathlib import Path
from secrets import token_hex
from typing import Any

import pytest
import yaml
from fake_plan import Fault, Plan, served
from fake_process import fake_process
from model_runs import journal, tagged
from terminal import ROOT

from src.conditions import runs_of
from src.diagnosing import CaseResult
from src.errors import InputError, TacitError
from src.evaluate import evaluate
from src.grid import grid_of
from src.reports import DiagnosticReport
from src.run import run

OFFLINE = "experiment=psycidra_offline"
EFFORTS = ("none", "low", "medium", "high")
TOOLS = {
    "read_interview_notepad", "update_interview_notepad", "load_skill", "lookup_icd_category",
    "lookup_icd_disorder", "safety_stop",
}  # fmt: skip


def results(folder: Path) -> list[CaseResult]:
    """Return a subject's results, one for each analyst."""
    return [
        CaseResult.model_validate_json(path.read_bytes())
        for path in sorted((folder / "results").iterdir())
    ]


def ends(folder: Path) -> list[dict[str, Any]]:
    return [line["interview"] for line in tagged(folder, "end")]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the run folder of every invented case, held once."""
    outputs = tmp_path_factory.mktemp("psycidra")
    run([OFFLINE, f"outputs={outputs}"])
    return outputs / "psycidra_offline"


def test_every_case_is_interviewed_and_diagnosed_without_a_model(held: Path) -> None:
    folders = sorted(held.iterdir())
    assert len(folders) == len(list((ROOT / "conf/cases/invented").glob("*.yaml"))) >= 24
    for folder in folders:
        (result,) = results(folder)
        (ended,) = ends(folder)
        assert ended["failure"] is None
        assert ended["stop"] in {"max_messages", "safety"}
        assert result.n_held == 1
        assert "rule-based" in (result.caution or "")
        if ended["stop"] == "max_messages":
            assert len(tagged(folder, "turn")) == 16
            assert ended["closing"]["source"] == "fixed"
            (diagnosis,) = result.diagnoses
            assert diagnosis.findings
            assert diagnosis.exchanges == 16


def test_every_tool_is_really_used(held: Path) -> None:
    used: Counter[str] = Counter()
    for folder in held.iterdir():
        questions = [turn["turn"]["question"] for turn in tagged(folder, "turn")]
        questions += [end["closing"] for end in ends(folder) if end["closing"]]
        used.update(use["name"] for question in questions for use in question["tools"])
    assert set(used) | {"safety_stop"} >= TOOLS
    assert min(used[name] for name in TOOLS - {"safety_stop"}) >= 5


def test_some_dangers_stop_an_interview_and_leave_an_event_for_review(held: Path) -> None:
    stopped = [folder for folder in held.iterdir() if ends(folder)[0]["stop"] == "safety"]
    assert [folder.name for folder in stopped] == ["case-034"]  # it burns case-017, nobody does
    for folder in stopped:
        (result,) = results(folder)
        (event,) = result.events
        assert (event.source, event.kind, event.review) == ("check", "self_harm", "open")
        assert [d.suppressed for d in result.diagnoses] == [True]
        assert "open for review by a person" in (folder / "summary.md").read_text(encoding="utf-8")


def test_the_model_stops_an_interview_by_its_own_tool_where_no_check_does(tmp_path: Path) -> None:
    off = ["interviewer.safety=null", "guard=none"]
    run([OFFLINE, "case=34", f"outputs={tmp_path}", *off])
    folder = tmp_path / "psycidra_offline" / "case-034"
    (ended,) = ends(folder)
    assert ended["stop"] == "safety"
    assert [use["name"] for use in ended["closing"]["tools"]] == ["safety_stop"]
    (event,) = results(folder)[0].events
    assert (event.source, event.kind, event.review) == ("model", "self_harm", "open")


def test_nothing_is_held_or_asked_twice(held: Path) -> None:
    before = {f.name: (f / "journal.jsonl").read_bytes() for f in held.iterdir()}
    run([OFFLINE, f"outputs={held.parent}"])
    assert {f.name: (f / "journal.jsonl").read_bytes() for f in held.iterdir()} == before


def test_stopped_interviews_are_diagnosed_where_that_is_asked_for(
    held: Path, tmp_path: Path
) -> None:
    shutil.copytree(held, tmp_path / "psycidra_offline")
    run([OFFLINE, f"outputs={tmp_path}", "analyst.include_stopped=true"])
    for folder in (tmp_path / "psycidra_offline").iterdir():
        assert any(all(d.findings for d in result.diagnoses) for result in results(folder))


def test_what_was_diagnosed_is_kept_where_a_later_run_suppresses_it(tmp_path: Path) -> None:
    usual = [OFFLINE, "case=34", f"outputs={tmp_path}"]
    folder = tmp_path / "psycidra_offline" / "case-034"
    run([*usual, "analyst.include_stopped=true"])
    ((paid,),) = (result.diagnoses for result in results(folder))
    assert (paid.suppressed, bool(paid.findings)) == (False, True)
    run(usual)
    ((hidden,),) = (result.diagnoses for result in results(folder))
    assert (hidden.suppressed, hidden.findings, hidden.hypotheses) == (True, paid.findings, ())
    assert "no diagnosis, since it was stopped" in (folder / "summary.md").read_text("utf-8")
    (condition,) = runs_of([str(folder.parent)])[0].conditions.values()
    assert [one.status for one in condition.judged] == ["suppressed"]
    assert condition.findings == []
    run([*usual, "analyst.include_stopped=true"])
    assert results(folder)[0].diagnoses == (paid,)


def test_prefixes_are_diagnosed_beside_the_whole(tmp_path: Path) -> None:
    usual = [OFFLINE, "case=1", f"outputs={tmp_path}"]
    run(usual)
    run([*usual, "analyst.prefixes=[4,8,12,16]"])
    (result,) = results(tmp_path / "psycidra_offline" / "case-001")
    assert [d.exchanges for d in result.diagnoses] == [4, 8, 12, 16]
    run(usual)  # what was found stays
    (result,) = results(tmp_path / "psycidra_offline" / "case-001")
    assert [d.exchanges for d in result.diagnoses] == [4, 8, 12, 16]


def test_an_interview_goes_on_where_it_was_cut_off(held: Path, tmp_path: Path) -> None:
    folder = tmp_path / "psycidra_offline" / "case-001"
    shutil.copytree(held / "case-001", folder)
    whole = journal(folder)
    kept = [line for line in whole if line["tag"] != "end"]
    turns = [n for n, line in enumerate(kept) if line["tag"] == "turn"]
    text = "".join(json.dumps(line) + "\n" for line in kept[: turns[5] + 1])
    (folder / "journal.jsonl").write_text(text, encoding="utf-8")
    shutil.rmtree(folder / "results")
    run([OFFLINE, "case=1", f"outputs={tmp_path}"])
    were = [line["turn"] for line in whole if line["tag"] == "turn"]
    assert [line["turn"] for line in tagged(folder, "turn")] == were
    found, whole_found = (results(f)[0].diagnoses for f in (folder, held / "case-001"))
    assert [d.findings for d in found] == [d.findings for d in whole_found]


def test_a_persian_interview_passes_from_end_to_end(tmp_path: Path) -> None:
    language = "language={interview: fa, report: fa}"
    run([OFFLINE, "case=1", f"outputs={tmp_path}", language])
    folder = tmp_path / "psycidra_offline" / "case-001"
    first = tagged(folder, "turn")[0]["turn"]["question"]["text"]
    assert any("\u0600" <= letter <= "\u06ff" for letter in first)
    assert ends(folder)[0]["failure"] is None
    assert results(folder)[0].diagnoses[0].findings


def test_another_language_is_another_folder(held: Path) -> None:
    with pytest.raises(InputError, match="run=NAME"):
        run([OFFLINE, f"outputs={held.parent}", "language.interview=fa"])


def test_a_report_reads_screening_conversations_too(tmp_path: Path) -> None:
    usual = ["experiment=offline", "persona=7", "samples=2", f"outputs={tmp_path}"]
    run(usual)
    run([*usual, "analyst=diagnosis_offline", "only=analysis"])
    kinds = {p.name.rpartition("-")[0] for p in (tmp_path / "offline/persona-07/results").iterdir()}
    assert kinds == {"consensus", "diagnosis_offline"}


WRONG = {
    "case=999": "there is none",
    "case=[1,1]": "different ones",
    "case=null": "case=ID",
    "language.interview=xx": "prompts/assessment/xx.yaml",
    "guard=screening": "guard=assessment",
    "cohort=held_out": "frozen=RUN",
    "patient.cases=conf/cases/example.jsonl": "has no profile",
}


@pytest.mark.parametrize("argument", WRONG)
def test_what_cannot_be_is_one_line(argument: str, tmp_path: Path) -> None:
    with pytest.raises(TacitError) as refused:
        run([OFFLINE, argument, f"outputs={tmp_path / 'o'}"])
    assert WRONG[argument] in str(refused.value)
    assert refused.value.exit_code == 2
    assert not (tmp_path / "o").exists()


# with models ---------------------------------------------------------------------------------

TERRA = (
    "models.gpt56terra.rate={requests: null, tokens: null, seconds: 60}",
    "backbone=[gpt56terra]",
)


def modelled(url: str, outputs: Path, *more: str) -> list[str]:
    """Return the arguments of a short run in which models play all parts."""
    models = ("gemma", "gpt56terra")
    return [
        "experiment=psycidra", "case=[1,4]", "orchestrator.max_messages=5", f"outputs={outputs}",
        *(f"models.{model}.base_url={url}" for model in models),
        *(f"models.{model}.restart_wait=0" for model in models), *more,
    ]  # fmt: skip


@pytest.mark.parametrize("backbone", ["gemma", "gpt56terra"])
def test_models_play_all_parts_by_schema_and_by_native_tools(
    backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    plan = Plan(models=(served("google/gemma-3-27b-it"), served("gpt-5.6-terra", efforts=EFFORTS)))
    with fake_process(plan) as server:
        usual = modelled(server.url, tmp_path, f"backbone=[{backbone}]", TERRA[0])
        run(usual)
        run([*usual, "analyst=direct"])
        asked = len(server.log())
        run([*usual, "analyst=direct"])
        run(usual)
        assert len(server.log()) == asked, "what is known is not asked again"
    for name in ("case-001", "case-004"):
        folder = tmp_path / "psycidra" / name
        kinds = {result.analyst["kind"]: result for result in results(folder)}
        assert set(kinds) == {"diagnosis", "direct"}
        assert all(d.findings for result in kinds.values() for d in result.diagnoses)
        roles = Counter(line["call"]["role"] for line in tagged(folder, "call"))
        assert set(roles) == {"interviewer", "patient", "analyst"}
        assert len(tagged(folder, "turn")) == 4


def test_what_the_guard_did_stands_in_summary_and_evaluation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    told = "You have depression, I am sure. Since when?"
    draft = Fault(kind="text", text=told, role="interviewer", turn=3)
    plan = Plan(models=(served("gpt-5.6-terra", efforts=EFFORTS),), faults=(draft,), tools="none")
    with fake_process(plan) as server:
        run(modelled(server.url, tmp_path, *TERRA, "case=4"))
    folder = tmp_path / "psycidra"
    questions = [turn["turn"]["question"] for turn in tagged(folder / "case-004", "turn")]
    assert [q["source"] for q in questions] == ["fixed", "model", "guard", "model"]
    assert "Flags, by messages: diagnosis 1" in (folder / "case-004/summary.md").read_text("utf-8")
    evaluate([f"runs=[{folder}]", f"out={tmp_path / 'out'}"])
    lines = (tmp_path / "out/guard.csv").read_text("utf-8").splitlines()
    assert lines == [
        "run,concern,refused,repaired,stopped,safe_lines",
        "psycidra,any,1,0,0,1",
        "psycidra,diagnosis,1,0,0,1",
    ]


def with_canaries(content: dict[str, Any]) -> dict[str, str]:
    """Put a word of its own into every private place of a case, and return these words."""
    case, profile = content["case"], content["profile"]
    fact, guarded = profile["facts"][0], profile["safety"]["self_harm"]
    denied = next(iter(profile["denials"]))
    places: dict[str, tuple[dict[str, Any], str]] = {
        "label": (case["references"][0], "name"),
        "category": (case, "category"),
        "source": (case, "source"),
        "record": (case, "text"),
        "provenance": (profile, "provenance"),
        "name": (profile["demographics"], "name"),
        "background": (profile["demographics"], "background"),
        "traits": (profile["manner"], "traits"),
        "fact": (fact, "text"),
        "says": (fact, "says"),
        "timing": (fact, "timing"),
        "guidance": (guarded, "guidance"),
        "quote": (guarded, "quote"),
        "denial": (profile["denials"], denied),
    }
    words = {place: f"q{token_hex(8)}" for place in places}
    for place, (holder, key) in places.items():
        holder[key] = f"{holder.get(key, '')} {words[place]}".strip()
    words |= {"narrative": f"q{token_hex(8)}", "id": f"q{token_hex(8)}"}
    case["text"] += f" {guarded['quote']}"  # where a quote must stand
    profile["narrative"][0] += f" {words['narrative']}"
    case["id"] = profile["case"] = f"case-{words['id']}"
    return words


@pytest.mark.parametrize("backbone", ["gpt56terra", "gemma"], ids=["native", "schema"])
@pytest.mark.parametrize("analyst", ["diagnosis", "direct"])
def test_nothing_private_reaches_a_diagnoser_and_nothing_is_sent_after_a_stop(
    analyst: str, backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Canaries: label, record, profile, the case's id, and what the interviewer's tools were told.

    Bodies and headers are searched; the id is told to a server of ours alone, for its log.
    """
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    cases, text = tmp_path / "cases", ROOT / "conf/cases/invented/case-034.yaml"
    cases.mkdir()
    content = yaml.safe_load(text.read_text(encoding="utf-8"))
    words = with_canaries(content)
    words["note"] = f"q{token_hex(8)}"
    name = f"case-{words['id']}"
    (cases / f"{name}.yaml").write_text(yaml.safe_dump(content), encoding="utf-8")
    stop = Fault(kind="text", text="I have decided to end my life tonight.", role="patient", turn=3)
    models = (served("google/gemma-3-27b-it"), served("gpt-5.6-terra", efforts=EFFORTS))
    plan = Plan(models=models, faults=(stop,), note=words["note"])
    with fake_process(plan) as server:
        usual = [
            *modelled(server.url, tmp_path, TERRA[0], f"backbone=[{backbone}]"),
            f"patient.cases={cases}", f"case={words['id']}", f"analyst={analyst}",
        ]  # fmt: skip
        run([*usual, "analyst.include_stopped=false"])
        held = [entry for entry in server.log() if entry["path"] == "chat"]
        assert {entry["role"] for entry in held} >= {"interviewer", "patient"}
        assert "analyst" not in {entry["role"] for entry in held}
        assert (held[-1]["role"], held[-1]["turn"]) == ("patient", 3)
        told = {
            role: "".join(json.dumps(server.body(e["number"])) for e in held if e["role"] == role)
            for role in ("interviewer", "patient")
        }
        run([*usual, "analyst.include_stopped=true"])
        asked = [entry for entry in server.log() if entry["path"] == "chat"][len(held) :]
        assert {entry["role"] for entry in asked} == {"analyst"}
        bodies = json.dumps([server.body(entry["number"]) for entry in asked])
        headers = json.dumps([server.headers(entry["number"]) for entry in asked])
    assert words["note"] in told["interviewer"]
    assert {w for w in ("name", "narrative", "fact", "guidance") if words[w] in told["patient"]}
    assert [place for place, word in words.items() if word in bodies] == []
    ours = ["id"] if backbone == "gemma" else []
    assert [place for place, word in words.items() if word in headers] == ours
    questions = [t["turn"]["question"] for t in tagged(tmp_path / "psycidra" / name, "turn")]
    used = [use for question in questions for use in question["tools"]]
    private = [use["output"] for use in used if use["name"] != "lookup_icd_disorder"]
    assert private
    assert not any(json.dumps(output)[1:-1] in bodies for output in private if len(output) > 40)


ASKED_FA = "از این‌که گفتید ممنونم. این بی‌خوابی از کِی شروع شد، و در ۲ هفتهٔ گذشته چطور بود؟"
TOLD_FA = "نمی‌دانم؛ شاید از پاییز. شبانه تا ساعتِ ۳ بیدار می‌مانم «و فکر می‌کنم»…"
NAMED_FA = "اختلالِ اضطرابِ فراگیر"


@pytest.mark.parametrize("backbone", ["gpt56terra", "gemma"], ids=["native", "schema"])
def test_persian_texts_stay_as_they_were_written_to_the_last_page(
    backbone: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-the-test")
    cases = tmp_path / "cases"
    cases.mkdir()
    content = yaml.safe_load((ROOT / "conf/cases/invented/case-001.yaml").read_text("utf-8"))
    content["case"]["references"][0]["name"] = NAMED_FA
    text = yaml.safe_dump(content, allow_unicode=True)
    (cases / "case-001.yaml").write_text(text, encoding="utf-8")
    message = {"tool": "none", "message": ASKED_FA}
    asked = ASKED_FA if backbone == "gpt56terra" else json.dumps(message, ensure_ascii=False)
    plan = Plan(
        models=(served("google/gemma-3-27b-it"), served("gpt-5.6-terra", efforts=EFFORTS)),
        faults=(
            Fault(kind="text", text=asked, role="interviewer"),
            Fault(kind="text", text=TOLD_FA, role="patient"),
        ),
    )
    with fake_process(plan) as server:
        run([
            *modelled(server.url, tmp_path, TERRA[0], f"backbone=[{backbone}]"),
            f"patient.cases={cases}", "case=1", "language={interview: fa, report: fa}",
        ])  # fmt: skip
        chats = [entry for entry in server.log() if entry["path"] == "chat"]
        read = [server.body(e["number"])["messages"] for e in chats if e["role"] == "analyst"]
    assert read
    for messages in read:
        assert "Persian" in messages[0]["content"]
        assert ASKED_FA in messages[1]["content"]
        assert TOLD_FA in messages[1]["content"]
    folder = tmp_path / "psycidra"
    turns = [turn["turn"] for turn in tagged(folder / "case-001", "turn")]
    assert [turn["answer"]["text"] for turn in turns] == [TOLD_FA] * 4
    assert [turn["question"]["text"] for turn in turns[1:]] == [ASKED_FA] * 3
    written = (folder / "case-001/journal.jsonl").read_bytes()
    assert written.count(TOLD_FA.encode()) >= 4
    (result,) = results(folder / "case-001")
    (diagnosis,) = result.diagnoses
    assert diagnosis.findings
    report = diagnosis.findings.report
    assert isinstance(report, DiagnosticReport)
    assert report.evidence[0].finding == TOLD_FA
    out = tmp_path / "out"
    evaluate([f"runs=[{folder}]", f"out={out}", "view=true"])
    assert f",6B00 {NAMED_FA}," in (out / "codes.csv").read_bytes().decode()
    page = (out / "pages/psycidra/case-001-1.md").read_bytes().decode()
    assert page.count(f"**Patient**: {TOLD_FA}\n") == 4
    assert page.count(f"[model]: {ASKED_FA}\n") == 3
    assert f"| {TOLD_FA} |" in page
    assert f"6B00 {NAMED_FA}" in page


# grids and cohorts ---------------------------------------------------------------------------


def test_a_grid_is_every_experiment_with_every_model_and_analyst() -> None:
    parts = grid_of(["experiment=[a,b]", "models=[m,n]", "analyst=[x,y]", "cohort=c", "samples=2"])
    assert [part.name for part in parts] == ["a-m"] * 2 + ["a-n"] * 2 + ["b-m"] * 2 + ["b-n"] * 2
    assert parts[1].arguments == (
        "experiment=a", "run=a-m", "cohort=c", "samples=2", "backbone=[m]", "analyst=y",
        "only=analysis",
    )  # fmt: skip
    assert grid_of(["experiment=a", "persona=[1,2]", "samples=2"]) == []
    assert grid_of(["experiment=a", "models=[m]"]) == []


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["experiment=[a,b]"], "cohort=NAME or persona"),
        (["experiment=[a,a]", "cohort=c"], "twice"),
        (["analyst=[a,b]", "cohort=c"], "name the experiments"),
        (["experiment=[a,b]", "cohort=c", "run=x"], "run= has no one meaning"),
        (["experiment=[a,", "cohort=c"], "a list of names"),
    ],
)
def test_a_grid_that_means_nothing_is_one_line(arguments: list[str], hint: str) -> None:
    with pytest.raises(InputError, match=hint):
        grid_of(arguments)


def test_a_grid_answers_every_analyst_from_the_same_interviews(tmp_path: Path) -> None:
    grid = [
        "experiment=[psycidra_offline]", "analyst=[diagnosis_offline]", "cohort=invented",
        "case=[1,4,29]", f"outputs={tmp_path}",
    ]  # fmt: skip
    run(grid)
    run(grid)
    folders = list((tmp_path / "psycidra_offline").iterdir())
    assert len(folders) == 3
    assert all(len(results(folder)) == 1 for folder in folders)


def test_a_model_that_nobody_asks_is_refused(tmp_path: Path) -> None:
    arguments = ["experiment=[offline]", "models=[gemma]", "persona=7", f"outputs={tmp_path / 'o'}"]
    with pytest.raises(InputError, match="nobody in offline asks it"):
        run(arguments)


def test_a_held_out_cohort_runs_with_what_was_frozen_alone(held: Path, tmp_path: Path) -> None:
    shutil.copytree(held, tmp_path / "psycidra_offline")
    usual = [OFFLINE, "cohort=held_out", "frozen=psycidra_offline", f"outputs={tmp_path}"]
    with pytest.raises(InputError, match=r"orchestrator\.max_messages was 17 there, is 9 now"):
        run([*usual, "run=changed", "orchestrator.max_messages=9"])
    with pytest.raises(InputError, match="no run lies there"):
        run([OFFLINE, "cohort=held_out", "frozen=nowhere", f"outputs={tmp_path}", "run=x"])
    with pytest.raises(InputError, match="include_stopped was False for case-001 there"):
        run([*usual, "run=changed", "analyst.include_stopped=true"])
    run([*usual, "run=final", "case=[25,29]"])
    assert len(list((tmp_path / "final").iterdir())) == 2
