"""The main command, as a user meets it: answers, interruptions, refusals."""

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest
from terminal import ROOT, program, tacit

from src.store import SubjectFolder

OFFLINE = ("experiment=offline",)
FEW = (*OFFLINE, "persona=7", "samples=6")


def lines(folder: Path) -> list[dict[str, object]]:
    """Return a journal's lines without their times, after the one that says what it is for."""
    journal = (folder / "journal.jsonl").read_text(encoding="utf-8").splitlines()
    first, *rest = map(json.loads, journal)
    assert first["intended_use"].startswith("Research on simulated personas")
    return [{k: v for k, v in line.items() if k != "at"} for line in rest]


def interviews(folder: Path) -> dict[int, object]:
    return {n: state.ended for n, state in sorted(SubjectFolder(folder).load().items())}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the subject folder of an uninterrupted run of the main job."""
    outputs = tmp_path_factory.mktemp("whole")
    ended = tacit("src.run", *OFFLINE, "persona=7", f"outputs={outputs}")
    assert ended.returncode == 0, ended.stderr
    (outputs / "printed").write_text(ended.stdout)
    return outputs / "offline" / "persona-07"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the subject folder of a smaller uninterrupted run."""
    outputs = tmp_path_factory.mktemp("few")
    ended = tacit("src.run", *FEW, f"outputs={outputs}")
    assert ended.returncode == 0, ended.stderr
    return outputs / "offline" / "persona-07"


def test_the_answer_has_everything_a_user_looks_for(whole: Path) -> None:
    printed = (whole.parents[1] / "printed").read_text()
    for part in (
        "Research on simulated personas", "BDI-II total", "samples", "erisk bands",
        "simulated truth", "Key symptoms", "“", "Messages", "ended by", "20/20 valid",
        "not how well it screens", "summary.md",
    ):  # fmt: skip
        assert part in printed, part


def test_the_result_file_holds_the_answer_and_the_truth_beside_it(whole: Path) -> None:
    (path,) = (whole / "results").iterdir()
    result = json.loads(path.read_text())
    assert path.name.startswith("consensus-")
    assert result["intended_use"].startswith("Research on simulated personas")
    assert (result["n_valid"], result["n_planned"]) == (20, 20)
    assert len(result["result"]["profile"]["symptoms"]) == 21
    assert 0 <= result["truth"]["total"] <= 63
    assert result["result"]["total"] == sum(
        symptom["score"] for symptom in result["result"]["profile"]["symptoms"]
    )


def test_the_summary_ends_with_what_went_wrong(whole: Path) -> None:
    page = (whole / "summary.md").read_text()
    assert page.rstrip().endswith("## What went wrong, and what to do\n- Nothing.")
    assert "Research on simulated personas" in page


def test_evidence_is_always_the_personas_own_words(whole: Path) -> None:
    for state in SubjectFolder(whole).load().values():
        assert state.ended is not None
        assert state.ended.final is not None
        said = " ".join(" ".join(turn.answer.text for turn in state.turns).split())
        for symptom in state.ended.final.symptoms:
            assert " ".join(symptom.evidence.split()) in said


def test_the_same_seed_gives_the_same_journal_but_for_times(whole: Path, tmp_path: Path) -> None:
    tacit("src.run", *OFFLINE, "persona=7", f"outputs={tmp_path}")
    assert lines(tmp_path / "offline" / "persona-07") == lines(whole)


def test_another_seed_gives_other_interviews(whole: Path, tmp_path: Path) -> None:
    tacit("src.run", *OFFLINE, "persona=7", "seed=7", f"outputs={tmp_path}")
    assert lines(tmp_path / "offline" / "persona-07") != lines(whole)


def test_the_same_command_again_holds_nothing_again(whole: Path) -> None:
    before = (whole / "journal.jsonl").read_bytes()
    again = tacit("src.run", *OFFLINE, "persona=7", f"outputs={whole.parents[1]}")
    assert again.returncode == 0
    assert "20/20 valid" in again.stdout
    assert (whole / "journal.jsonl").read_bytes() == before


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*program("src.run"), *OFFLINE, *arguments],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def wait_for_turns(journal: Path, turns: int) -> None:
    for _ in range(2000):
        if journal.exists() and journal.read_bytes().count(b"\n") >= turns:
            return
        time.sleep(0.005)
    raise AssertionError(f"no {turns} turns in {journal}")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("turns", [5, 60])
def test_killed_in_mid_run_the_same_command_gives_the_same_interviews(
    number: signal.Signals, turns: int, few: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "offline" / "persona-07"
    process = start(*FEW[1:], f"outputs={tmp_path}")
    wait_for_turns(folder / "journal.jsonl", turns)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    expected = {signal.SIGKILL: -9, signal.SIGTERM: 143, signal.SIGINT: 130}[number]
    assert process.returncode == expected, errors
    assert number is signal.SIGKILL or "goes on from here" in errors
    assert not (folder / "summary.md").exists()
    finished = lines(folder)

    again = tacit("src.run", *FEW, f"outputs={tmp_path}")
    assert again.returncode == 0, again.stderr
    assert interviews(folder) == interviews(few)
    resumed = lines(folder)
    assert resumed[: len(finished)] == finished  # nothing finished is asked twice
    assert len(resumed) == len(lines(few))


def test_a_torn_last_line_is_asked_again(few: Path, tmp_path: Path) -> None:
    tacit("src.run", *FEW, f"outputs={tmp_path}")
    folder = tmp_path / "offline" / "persona-07"
    journal = folder / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-300])
    again = tacit("src.run", *FEW, f"outputs={tmp_path}")
    assert again.returncode == 0, again.stderr
    assert interviews(folder) == interviews(few)


@pytest.mark.parametrize("kilobytes", [8, 60, 120])
def test_a_full_disk_ends_with_one_line_exit_4_and_a_resumable_folder(
    kilobytes: int, few: Path, tmp_path: Path
) -> None:
    ended = tacit("src.run", *FEW, f"outputs={tmp_path}", limit=f"ulimit -f {kilobytes}")
    assert ended.returncode == 4, ended.stderr
    assert ended.stderr.count("\n") == 1
    assert "Traceback" not in ended.stderr
    again = tacit("src.run", *FEW, f"outputs={tmp_path}")
    assert again.returncode == 0, again.stderr
    assert interviews(tmp_path / "offline" / "persona-07") == interviews(few)


def test_too_few_file_handles_end_with_one_line_exit_4(tmp_path: Path) -> None:
    arguments = (*OFFLINE, "persona=all", f"outputs={tmp_path / 'o'}")
    ended = tacit("src.run", *arguments, limit="ulimit -n 40")
    assert ended.returncode == 4
    assert "ulimit -n" in ended.stderr
    assert not (tmp_path / "o").exists()


def test_a_second_run_in_one_folder_is_refused(tmp_path: Path) -> None:
    first = start("persona=7", "samples=400", f"outputs={tmp_path}")
    wait_for_turns(tmp_path / "offline" / "persona-07" / "journal.jsonl", 5)
    second = tacit("src.run", *OFFLINE, "persona=7", f"outputs={tmp_path}")
    first.terminate()
    first.communicate(timeout=30)
    assert second.returncode == 2
    assert "in use by another run" in second.stderr


def test_another_choice_in_the_same_folder_is_refused_and_run_names_a_way_on(
    whole: Path,
) -> None:
    other = ("persona=7", "orchestrator.max_messages=12", f"outputs={whole.parents[1]}")
    refused = tacit("src.run", *OFFLINE, *other)
    assert refused.returncode == 2
    assert "orchestrator.max_messages=18, not 12" in refused.stderr
    allowed = tacit("src.run", *OFFLINE, *other, "run=short", "samples=4")
    assert allowed.returncode == 0
    assert "Messages 12–12" in allowed.stdout


def test_only_analysis_answers_from_what_is_finished(tmp_path: Path) -> None:
    arguments = (*OFFLINE, "persona=7", f"outputs={tmp_path}")
    tacit("src.run", *arguments, "samples=16")
    journal = tmp_path / "offline" / "persona-07" / "journal.jsonl"
    before = journal.read_bytes()
    answered = tacit("src.run", *arguments, "only=analysis", "analyst=median")
    assert answered.returncode == 0, answered.stderr
    assert "16/20 valid" in answered.stdout
    assert journal.read_bytes() == before
    kinds = sorted(p.name.partition("-")[0] for p in (journal.parent / "results").iterdir())
    assert kinds == ["consensus", "median"]


def test_too_few_interviews_end_with_exit_1_and_say_how_many(tmp_path: Path) -> None:
    arguments = (*OFFLINE, "persona=7", f"outputs={tmp_path}")
    tacit("src.run", *arguments, "samples=14")
    answered = tacit("src.run", *arguments, "samples=20", "only=analysis")
    assert answered.returncode == 1
    assert "14/20" in answered.stderr
    page = (tmp_path / "offline" / "persona-07" / "summary.md").read_text()
    assert "14/14 valid" in page  # a question that has no answer takes none away


def test_redo_holds_a_sample_again_and_keeps_the_old_one(tmp_path: Path) -> None:
    arguments = (*OFFLINE, "persona=[7,8]", "samples=4", f"outputs={tmp_path}")
    tacit("src.run", *arguments)
    again = tacit("src.run", *arguments, "redo=[7/3]", 'reason="the patient misheard"')
    assert again.returncode == 0, again.stderr
    found = lines(tmp_path / "offline" / "persona-07")
    assert [line["sample"] for line in found if line["tag"] == "redo"] == [3]
    assert sum(line["tag"] == "end" and line["sample"] == 3 for line in found) == 2
    untouched = lines(tmp_path / "offline" / "persona-08")
    assert not [line for line in untouched if line["tag"] == "redo"]


def test_redo_of_what_does_not_exist_is_refused(tmp_path: Path) -> None:
    arguments = (*OFFLINE, "persona=7", "samples=4", f"outputs={tmp_path}")
    for pair in ("8/3", "7/5"):
        refused = tacit("src.run", *arguments, f"redo=[{pair}]", "reason=x")
        assert refused.returncode == 2
        assert pair in refused.stderr


def test_from_repeats_a_run_and_says_what_is_not_the_same(whole: Path) -> None:
    outputs = whole.parents[1]
    again = tacit("src.run", f"from={outputs / 'offline'}")
    assert again.returncode == 0, again.stderr
    repeated = outputs / "offline-repeat" / "persona-07"
    assert lines(repeated) == lines(whole)
    changed = tacit("src.run", f"from={outputs / 'offline'}", "seed=1", "run=other", "samples=3")
    assert "not the same: seed was 2026, is 1" in changed.stdout


def test_from_uses_the_runs_own_copies_where_a_file_has_changed(tmp_path: Path) -> None:
    lines_file = tmp_path / "scripted.yaml"
    source = (ROOT / "prompts" / "scripted.yaml").read_text(encoding="utf-8")
    lines_file.write_text(source, encoding="utf-8")
    mine = f"interviewer.lines={lines_file}"
    first = (*OFFLINE, mine, "persona=7", "samples=3", f"outputs={tmp_path}")
    assert tacit("src.run", *first).returncode == 0
    lines_file.write_text(source.replace("?", " then?", 1), encoding="utf-8")
    again = tacit("src.run", f"from={tmp_path / 'offline'}")
    assert again.returncode == 0, again.stderr
    assert "the run's own copy is used" in again.stdout
    same = [lines(tmp_path / run / "persona-07") for run in ("offline", "offline-repeat")]
    assert same[0] == same[1]


def test_another_version_is_one_warning(tmp_path: Path) -> None:
    arguments = (*OFFLINE, "persona=[7,8]", "samples=3", f"outputs={tmp_path}")
    tacit("src.run", *arguments)
    for folder in (tmp_path / "offline").iterdir():
        manifest = json.loads((folder / "manifest.json").read_text())
        (folder / "manifest.json").write_text(json.dumps(manifest | {"version": "0.0.1"}))
    again = tacit("src.run", *arguments)
    assert again.returncode == 0
    assert again.stdout.count("0.0.1") == 1


def test_all_twenty_personas_take_under_a_minute_and_400_mb(tmp_path: Path) -> None:
    measured = (
        "import resource, subprocess, sys\n"
        "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)\n"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
    )
    command = [*program("src.run"), *OFFLINE, "persona=all", "samples=20", f"outputs={tmp_path}"]
    began = time.monotonic()
    ended = subprocess.run(
        [sys.executable, "-c", measured, *command],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert time.monotonic() - began < 60
    assert int(ended.stdout) < 400
    subjects = sorted((tmp_path / "offline").iterdir())
    assert len(subjects) == 20
    for subject in subjects:
        assert sum(line["tag"] == "end" for line in lines(subject)) == 20


def test_help_answers_within_800_ms() -> None:
    def once() -> float:  # of the processor's time, which a busy machine does not stretch
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-m", "src.run", "--help"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert median(once() for _ in range(5)) < 0.8


def test_offline_loads_no_model_library(tmp_path: Path) -> None:
    probe = (
        "import sys\nfrom src import run\n"
        f"run.run(['experiment=offline', 'samples=3', 'outputs={tmp_path}'])\n"
        "heavy = {'torch', 'vllm', 'transformers', 'openai', 'peft', 'matplotlib'}\n"
        "print(heavy & set(sys.modules))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout.endswith("set()\n")


def test_the_guard_on_the_network_works() -> None:
    guarded = program("src.run")[2].replace("import conftest", "import conftest, socket")
    probe = guarded.partition("sys.argv")[0] + "socket.create_connection(('192.0.2.1', 80), 1)"
    ended = subprocess.run(
        [sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ,
    )  # fmt: skip
    assert "a test tried to reach 192.0.2.1" in ended.stderr
