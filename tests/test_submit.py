"""The submit command: the organisers' files from finished runs, and a check of anyone's."""

import json
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
from terminal import tacit

from src import run, submit
from src.config import read_settings
from src.errors import InputError, TooFewInterviews
from src.evaluation.conversations import read_conversations
from src.records import INTENDED_USE, Interview
from src.settings import SubmitSettings
from src.store import SubjectFolder
from src.submission import handed_in
from src.summary import SubjectResult

SHORT = (
    "experiment=offline",
    "persona=[7,8]",
    "orchestrator.max_messages=5",
    "orchestrator.closing=true",
)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a baseline's batch and two larger ones, of two rule-based persons."""
    outputs = tmp_path_factory.mktemp("outputs")
    for name, samples, seed, analyst in (
        ("baseline", 4, 1, "median"),
        ("hybrid", 8, 2, "consensus"),
        ("third", 4, 3, "consensus"),
    ):
        about = (f"run={name}", f"samples={samples}", f"seed={seed}", f"analyst={analyst}")
        run.run([*SHORT, *about, f"outputs={outputs}"])
    return outputs


def write(runs: Path, out: Path, *names: str, options: tuple[str, ...] = ("offline=true",)) -> Path:
    folders = ",".join(str(runs / name) for name in names)
    submit.submit([f"runs=[{folders}]", f"out={out}", *options])
    return out


def answer(run: Path, persona: int) -> SubjectResult:
    (path,) = (run / f"persona-{persona:02d}" / "results").glob("*.json")
    return SubjectResult.model_validate_json(path.read_bytes())


def held(run: Path, persona: int, sample: int) -> Interview:
    ended = SubjectFolder(run / f"persona-{persona:02d}").load()[sample].ended
    assert ended is not None
    return ended


def given(out: Path, persona: int, number: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a persona's conversation and answer in a run."""
    folder = out / f"persona-{persona:02d}"
    (talk,) = json.loads((folder / f"interactions_run{number}.json").read_text(encoding="utf-8"))
    (score,) = json.loads((folder / f"results_run{number}.json").read_text(encoding="utf-8"))
    return talk, score


def content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def changed(runs: Path, tmp_path: Path, name: str, **identity: str) -> Path:
    """Return a copy of a run whose manifests say something else; `_` stands for the dot."""
    shutil.copytree(runs / name, tmp_path / name)
    for path in (tmp_path / name).glob("*/manifest.json"):
        manifest = json.loads(path.read_text(encoding="utf-8"))
        for key, value in identity.items():
            text = value.replace("SUBJECT", manifest["subject"])
            manifest["identity"][key.replace("_", ".")] = text
            if key == "patient_model":
                manifest["served"]["patient"] = text
        path.write_text(json.dumps(manifest), encoding="utf-8")
    return tmp_path


# what is written ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "sources"),
    [
        (("hybrid",), [("hybrid", 0), ("hybrid", 1), ("hybrid", 2)]),
        (("baseline", "hybrid"), [("baseline", 0), ("hybrid", 0), ("hybrid", 1)]),
        (("baseline", "hybrid", "third"), [("baseline", 0), ("hybrid", 0), ("third", 0)]),
    ],
)
def test_each_run_is_one_selected_interview_with_its_own_answer(
    names: tuple[str, ...], sources: list[tuple[str, int]], runs: Path, tmp_path: Path
) -> None:
    out = write(runs, tmp_path / "out", *names)
    for persona in (7, 8):
        for number, (name, rank) in enumerate(sources, 1):
            selected = answer(runs / name, persona).result.selected[rank]
            interview = held(runs / name, persona, selected.sample)
            talk, score = given(out, persona, number)
            assert score["bdi-score"] == selected.total
            assert len(score["key-symptoms"]) == len(selected.key_symptoms)
            assert talk["conversation"][1]["message"] == interview.turns[0].answer.text
            assert interview.closing is not None
            assert talk["conversation"][-1] == {"role": "user", "message": interview.closing.text}


def test_own_totals_are_submitted_rather_than_the_consensus(runs: Path, tmp_path: Path) -> None:
    differ = 0
    for name in ("hybrid", "third"):
        out = write(runs, tmp_path / name, name)
        for persona in (7, 8):
            result = answer(runs / name, persona).result
            own = [given(out, persona, number)[1]["bdi-score"] for number in (1, 2, 3)]
            assert own == [result.totals[run.sample] for run in result.selected]
            differ += sum(total != result.total for total in own)
    assert differ


@pytest.mark.parametrize("layout", ["per_persona", "combined"])
def test_what_is_written_passes_the_check_and_is_read_back(
    layout: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("offline=true", f"layout={layout}")
    out = write(runs, tmp_path / "out", "baseline", "hybrid", options=options)
    capsys.readouterr()
    submit.submit([f"check={out}"])
    assert "no breach in" in capsys.readouterr().out
    paths = sorted(out.rglob("interactions_run2.json"))
    read = [conversation for path in paths for conversation in read_conversations(path)]
    assert [conversation.person for conversation in read] == ["7", "8"]
    for conversation, persona in zip(read, (7, 8), strict=True):
        best = answer(runs / "hybrid", persona).result.selected[0]
        interview = held(runs / "hybrid", persona, best.sample)
        assert [t.answer.text for t in conversation.turns] == [
            t.answer.text for t in interview.turns
        ]
        assert conversation.k == interview.messages == best.messages


def test_the_same_runs_give_the_same_bytes(runs: Path, tmp_path: Path) -> None:
    one = write(runs, tmp_path / "one", "baseline", "hybrid")
    assert content(one) == content(write(runs, tmp_path / "two", "baseline", "hybrid"))


def test_halves_are_disjoint_and_analysed_each_by_itself(runs: Path, tmp_path: Path) -> None:
    folders = f"runs=[{runs / 'baseline'},{runs / 'hybrid'}]"
    options = [folders, f"out={tmp_path / 'o'}", "split_batches=true", "offline=true"]
    chosen = handed_in(read_settings("submit", SubmitSettings, options))
    for persona in (7, 8):
        _, odd, even = (one for one in chosen if one.entry.persona == persona)
        assert set(odd.batch.interviews) == {1, 3, 5, 7}
        assert set(even.batch.interviews) == {2, 4, 6, 8}
        for one in (odd, even):
            assert set(one.consensus.totals) == set(one.batch.interviews)
            assert one.entry.selected.sample in one.batch.interviews
            assert one.entry.selected == one.consensus.selected[0]


def test_too_small_a_half_is_refused_with_its_numbers(runs: Path, tmp_path: Path) -> None:
    place = changed(runs, tmp_path, "third")
    for persona in (7, 8):  # sample 1 fails, which leaves three of four: enough, but not of a half
        fail_first(place / "third" / f"persona-{persona:02d}")
    run.run(["from=" + str(place / "third"), "run=third", f"outputs={place}", "only=analysis"])
    shutil.copytree(runs / "hybrid", place / "hybrid")
    options = ("offline=true", "split_batches=true")
    with pytest.raises(TooFewInterviews, match=r"odd samples: .* is 1/2.* needs 2.* \(and 1 more"):
        write(place, tmp_path / "out", "hybrid", "third", options=options)


def fail_first(folder: Path) -> None:
    """Make sample 1 of a subject's journal a failed one."""
    path = folder / "journal.jsonl"
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    failure = {"kind": "patient_failed", "text": "no answer", "transport": False}
    for line in lines:
        if line["tag"] == "end" and line["sample"] == 1:
            line["interview"] |= {"final": None, "stop": None, "closing": None, "failure": failure}
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")


# what is shown ------------------------------------------------------------------------------


def test_the_table_names_adapter_and_hash_so_that_nobody_is_off_by_one(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    about = {"interviewer_kind": "guided", "guard_kind": "screening", "patient_kind": "lora"}
    place = changed(runs, tmp_path, "hybrid", **about, patient_model="SUBJECT-0a1b2c3d")
    write(place, tmp_path / "out", "hybrid", options=())
    shown = capsys.readouterr().out
    assert INTENDED_USE in shown
    assert "rule-based" not in shown.lower()
    rows = [line.split() for line in shown.splitlines() if "-adapter" in line]
    assert len(rows) == 6
    best = answer(runs / "hybrid", 7).result.selected[0]
    number, batch, persona, adapter, served, sample, total, _, k, _, consensus = rows[0]
    assert (number, batch, persona) == ("1", "hybrid", "7")
    assert adapter == "Anxo/erisk26-task1-patient-06-adapter"
    assert (served, sample, total) == ("0a1b2c3d", str(best.sample), str(best.total))
    assert (k, consensus) == ("5", str(answer(runs / "hybrid", 7).result.total))


def test_a_rehearsal_says_that_it_must_not_be_handed_in(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = write(runs, tmp_path / "out", "hybrid")
    assert submit.REHEARSAL in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {"persona-07", "persona-08"}


# what is refused ----------------------------------------------------------------------------


def refused(
    place: Path,
    tmp_path: Path,
    *names: str,
    options: tuple[str, ...] = ("offline=true",),
    error: type[Exception] = InputError,
) -> str:
    """Return the refusal; nothing may have been written."""
    with pytest.raises(error) as caught:
        write(place, tmp_path / "refused", *names, options=options)
    assert not (tmp_path / "refused").exists()
    return str(caught.value)


def test_rule_based_persons_are_refused_but_for_a_rehearsal(runs: Path, tmp_path: Path) -> None:
    text = refused(runs, tmp_path, "hybrid", options=())
    assert "persona-07 is a rule-based person" in text
    assert "offline=true" in text


@pytest.mark.parametrize("kind", ["guided", "monolith"])
def test_interviews_by_a_model_without_the_guard_are_refused(
    kind: str, runs: Path, tmp_path: Path
) -> None:
    place = changed(runs, tmp_path, "hybrid", interviewer_kind=kind, guard_kind="none")
    text = refused(place, tmp_path, "hybrid")
    assert "persona-07 was interviewed by a model without the guard" in text


def test_a_run_without_result_names_the_command_that_makes_it(runs: Path, tmp_path: Path) -> None:
    place = changed(runs, tmp_path, "hybrid")
    for path in place.glob("hybrid/*/results/*.json"):
        path.unlink()
    text = refused(place, tmp_path, "hybrid")
    assert "persona-07 has no result" in text
    typed = shlex.split(text.partition("python -m src.run ")[2])
    run.run([*typed[:3], f"outputs={place}", "persona=[7,8]"])
    write(place, tmp_path / "out", "hybrid")
    assert content(tmp_path / "out") == content(write(runs, tmp_path / "first", "hybrid"))


def test_a_damaged_result_is_refused(runs: Path, tmp_path: Path) -> None:
    place = changed(runs, tmp_path, "hybrid")
    (path,) = place.glob("hybrid/persona-07/results/*.json")
    path.write_text("{}", encoding="utf-8")
    assert "is damaged" in refused(place, tmp_path, "hybrid")


def test_two_samples_are_too_few_and_are_counted(tmp_path: Path) -> None:
    run.run([*SHORT, "run=two", "samples=2", f"outputs={tmp_path}"])
    text = refused(tmp_path, tmp_path, "two", error=TooFewInterviews)
    assert "persona-07: 2 distinct valid runs, and a submission needs 3" in text
    assert "1 more persona" in text


def test_the_same_conversation_never_counts_as_two_runs(runs: Path, tmp_path: Path) -> None:
    place = changed(runs, tmp_path, "hybrid")
    shutil.copytree(place / "hybrid", place / "again")
    text = refused(place, tmp_path, "hybrid", "again", error=TooFewInterviews)
    assert "2 distinct valid runs" in text


def test_a_folder_named_twice_is_refused(runs: Path, tmp_path: Path) -> None:
    assert "stands there twice" in refused(runs, tmp_path, "hybrid", "hybrid")


def test_a_persona_missing_in_one_run_is_refused(runs: Path, tmp_path: Path) -> None:
    place = changed(runs, tmp_path, "hybrid")
    shutil.copytree(runs / "baseline", place / "baseline")
    shutil.rmtree(place / "baseline" / "persona-08")
    assert "persona 8 is not in both" in refused(place, tmp_path, "baseline", "hybrid")


def test_a_folder_without_run_is_refused(tmp_path: Path) -> None:
    assert "no run lies there" in refused(tmp_path, tmp_path, "nothing")


def test_a_neighbours_adapter_is_refused(runs: Path, tmp_path: Path) -> None:
    path = tmp_path / "personas.yaml"
    one = "{adapter: Anxo/erisk26-task1-patient-07-adapter, revision: null, released: null}"
    path.write_text(f"base: some/model\npersonas:\n  7: {one}\n", encoding="utf-8")
    text = refused(runs, tmp_path, "hybrid", options=("offline=true", f"adapters={path}"))
    assert "personas[7]: Anxo/erisk26-task1-patient-07-adapter is persona 8's" in text


def test_nothing_is_ever_overwritten(runs: Path, tmp_path: Path) -> None:
    out = write(runs, tmp_path / "out", "hybrid")
    before = content(out)
    with pytest.raises(InputError, match="holds other files already"):
        write(runs, out, "baseline")
    assert content(out) == before
    file = tmp_path / "file"
    file.write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="Not a directory"):
        write(runs, file, "baseline")
    assert file.read_text(encoding="utf-8") == "mine"


def test_an_empty_folder_is_filled(runs: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    assert len(content(write(runs, tmp_path / "out", "hybrid"))) == 12
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["runs=a"],
        ["runs=[a,b,c,d]", "out=o"],
        ["runs=a", "check=b", "out=o"],
        ["check=a", "out=o"],
        ["runs=a", "out=o", "split_batches=true"],
        ["runs=a", "out=o", "layout=other"],
        ["check=no/such/folder"],
        ["check=README.md"],
    ],
)
def test_choices_that_make_no_sense_are_refused(arguments: list[str]) -> None:
    with pytest.raises(InputError):
        submit.submit(arguments)


# checking -----------------------------------------------------------------------------------


def peers(folder: Path, personas: int = 20) -> Path:
    """Write somebody's submission of one run in one folder."""
    folder.mkdir()
    talks = [
        {"role": "user", "message": "How are you?"},
        {"role": "assistant", "message": "Not bad."},
    ]
    about = [{"LLM": str(n)} for n in range(1, personas + 1)]
    rows = {
        "interactions": [one | {"conversation": talks} for one in about],
        "results": [one | {"bdi-score": 12, "key-symptoms": ["Sadness"]} for one in about],
    }
    for kind, content_of in rows.items():
        (folder / f"{kind}_run1.json").write_text(json.dumps(content_of), encoding="utf-8")
    return folder


def test_a_peers_folder_in_order_ends_with_one_line_and_exit_0(tmp_path: Path) -> None:
    done = tacit("src.submit", f"check={peers(tmp_path / 'peer')}")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == INTENDED_USE
    assert done.stdout.splitlines()[1].endswith(
        "no breach in 2 files: run1, 20 personas, 20 conversations"
    )


def test_breaches_are_printed_then_counted_with_exit_2(tmp_path: Path) -> None:
    folder = peers(tmp_path / "peer")
    path = folder / "results_run1.json"
    rows = json.loads(path.read_text(encoding="utf-8"))
    names = ["Loss of interest in others", "[bold]Weight loss[/bold]", "No\x1b[2Jne", "Guilt"]
    wrong = [row | {"key-symptoms": names} for row in rows]
    path.write_text(json.dumps(wrong), encoding="utf-8")
    done = tacit("src.submit", f"check={folder}")
    assert done.returncode == 2
    lines = done.stdout.splitlines()[1:]
    first = "results_run1.json: persona 1: key-symptoms[0]: unknown symptom 'Loss of interest in"
    assert lines[0].startswith(first)
    assert lines[1].startswith("results_run1.json: persona 1: key-symptoms[1]: unknown symptom '[b")
    assert len(lines) == submit.SHOWN_BREACHES
    assert "\x1b" not in done.stdout
    (closing,) = done.stderr.splitlines()
    assert closing == f"tacit: {folder}: 60 breaches of the official form, the first 50 above"


def test_a_runs_own_folder_is_no_submission(runs: Path) -> None:
    with pytest.raises(InputError, match="is a run's folder"):
        submit.submit([f"check={runs / 'hybrid'}"])


def test_a_folder_without_official_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "readme.md").write_text("Hello.", encoding="utf-8")
    (tmp_path / ".hidden.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"holds no interactions_runN\.json"):
        submit.submit([f"check={tmp_path}"])
