"""The run folder: what it keeps, what it owes, what it refuses."""

import asyncio
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from doubles import Answerer, Rater, cast
from hypothesis import given
from hypothesis import strategies as st

from src.config import read_settings
from src.errors import DiskError, FolderError
from src.interview.loop import hold
from src.llm.servers import Servers
from src.provenance import manifests_of
from src.records import Failure, Interview, Turn
from src.settings import RunSettings
from src.store import Manifest, SampleState, SubjectFolder, digest_of, subject_folders


@pytest.fixture(scope="session")
def manifest() -> Manifest:
    settings = read_settings("config", RunSettings, ["experiment=offline"])
    found, _ = manifests_of(settings, Servers(services={}), ["persona-07"], Path("nowhere"))
    return found["persona-07"]


@pytest.fixture
def folder(tmp_path: Path, manifest: Manifest) -> Iterator[SubjectFolder]:
    opened = SubjectFolder(tmp_path / "persona-07")
    opened.open(manifest, {"tree.path.yaml": "a copy"})
    yield opened
    opened.close()


async def interview(folder: SubjectFolder, sample: int, *, turns: int = 3) -> Interview:
    async def keep(turn: Turn) -> None:
        await folder.keep_turn(sample, turn)

    held = await hold(cast(sample=sample, turns=turns), [], keep)
    await folder.keep_end(held)
    return held


def failed(sample: int, *, transport: bool) -> Interview:
    failure = Failure(kind="transport", text="no answer", transport=transport)
    return Interview(subject="persona-07", sample=sample, seed=1, failure=failure)


async def test_what_is_kept_is_what_is_read(folder: SubjectFolder) -> None:
    held = [await interview(folder, sample) for sample in (1, 2)]
    states = folder.load()
    assert [states[1].ended, states[2].ended] == held
    assert states[1].turns == list(held[0].turns)


async def test_samples_may_interleave(folder: SubjectFolder) -> None:
    held = await asyncio.gather(*(interview(folder, sample) for sample in range(1, 9)))
    assert [folder.load()[n].ended for n in range(1, 9)] == held


async def test_a_torn_last_line_is_passed_over_and_cut_off(
    folder: SubjectFolder, manifest: Manifest
) -> None:
    await interview(folder, 1)
    folder.close()
    journal = folder.path / "journal.jsonl"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"tag": "turn", "sample": 2, "tu')
    assert set(folder.load()) == {1}
    folder.open(manifest, {})
    assert journal.read_bytes() == whole
    await interview(folder, 2)
    assert set(folder.load()) == {1, 2}


@given(cut=st.integers(min_value=1))
def test_a_journal_cut_anywhere_holds_every_whole_line(
    tmp_path_factory: pytest.TempPathFactory, manifest: Manifest, cut: int
) -> None:
    folder = SubjectFolder(tmp_path_factory.mktemp("run") / "persona-07")
    folder.open(manifest, {})
    asyncio.run(interview(folder, 1))
    folder.close()
    journal = folder.path / "journal.jsonl"
    left = journal.read_bytes()[: cut % journal.stat().st_size]
    journal.write_bytes(left)
    state = folder.load().get(1, SampleState())
    whole = max(0, left.count(b"\n") - 1)  # the first line says what the journal is for
    assert len(state.turns) + (state.ended is not None) == whole


async def test_a_damaged_line_in_the_middle_is_one_clear_line(folder: SubjectFolder) -> None:
    await interview(folder, 1)
    journal = folder.path / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join([*lines[:2], b"garbage\n", *lines[3:]]))
    with pytest.raises(FolderError, match="line 3: damaged"):
        folder.load()


@pytest.mark.parametrize(
    "line",
    ["{}", "1", '"x"', "[]", '{"tag": "turn", "sample": 1, "turn": {}}',
     '{"tag": "end", "sample": 1, "interview": {}}', '{"tag": "turn", "sample": "x"}'],
)  # fmt: skip
def test_a_line_of_another_form_is_one_clear_line(folder: SubjectFolder, line: str) -> None:
    with (folder.path / "journal.jsonl").open("a") as journal:
        journal.write(line + "\n")
    with pytest.raises(FolderError, match="line 2: damaged"):
        folder.load()


def test_a_second_writer_is_refused_until_the_first_lets_go(
    folder: SubjectFolder, manifest: Manifest
) -> None:
    other = SubjectFolder(folder.path)
    with pytest.raises(FolderError, match="in use by another run"):
        other.open(manifest, {})
    folder.close()
    other.open(manifest, {})
    other.close()


def test_another_digest_is_refused_with_key_values_and_the_way_on(
    folder: SubjectFolder, manifest: Manifest
) -> None:
    changed = {**manifest.identity, "orchestrator.max_messages": "12"}
    with pytest.raises(FolderError) as refused:
        folder.refuse_other(changed)
    assert "orchestrator.max_messages=18, not 12" in str(refused.value)
    assert "run=NAME" in str(refused.value)


def test_a_changed_file_is_named_as_such(folder: SubjectFolder, manifest: Manifest) -> None:
    with pytest.raises(FolderError, match=r"trees/screening.yaml is not what tree.path was"):
        folder.refuse_other({**manifest.identity, "tree.path": "0" * 64})


def test_the_manifest_holds_copies_hashes_and_intended_use(folder: SubjectFolder) -> None:
    held = folder.manifest()
    assert held is not None
    assert held.intended_use.startswith("Research on simulated personas")
    assert (folder.path / "inputs" / "tree.path.yaml").read_text() == "a copy"
    assert len(held.files["tree.path"].sha256) == 64
    assert held.identity["tree.path"] == held.files["tree.path"].sha256
    assert held.digest == digest_of(held.identity)


def test_hosts_that_saw_text_are_added_and_never_forgotten(
    folder: SubjectFolder, manifest: Manifest
) -> None:
    for hosts in (("a:1",), ("b:2",), ("a:1",)):
        folder.close()
        folder.open(manifest.model_copy(update={"hosts": hosts}), {})
    held = folder.manifest()
    assert held is not None
    assert held.hosts == ("a:1", "b:2")


def test_the_digest_is_blind_to_how_much_and_where_and_sees_how() -> None:
    def digest(*overrides: str) -> str:
        settings = read_settings("config", RunSettings, ["experiment=offline", *overrides])
        found, _ = manifests_of(settings, Servers(services={}), ["persona-07"], Path("nowhere"))
        return found["persona-07"].digest

    same = ["samples=3", "persona=9", "interviews=2", "analyst=median", "bands=manual"]
    other = ["orchestrator.max_messages=12", "seed=1", "tree.turns_max=3", "tree.bm25=okapi"]
    assert {digest(override) for override in same} == {digest()}
    assert len({digest(), *(digest(override) for override in other)}) == len(other) + 1


@pytest.mark.parametrize(
    ("failures", "transport", "retry", "owed"),
    [
        ([], False, False, True),
        ([1], True, False, True),
        ([1, 1], True, False, True),
        ([1, 1, 1], True, False, False),
        ([1, 1, 1], True, True, True),
        ([1], False, False, False),
        ([1], False, True, True),
    ],
)
async def test_a_failed_transport_is_owed_three_times_anything_else_only_on_request(
    folder: SubjectFolder, failures: list[int], transport: bool, retry: bool, owed: bool
) -> None:
    for _ in failures:
        await folder.keep_end(failed(1, transport=transport))
    state = folder.load().get(1, SampleState())
    assert state.owed(attempts=3, retry_failed=retry) == owed


async def test_a_finished_interview_is_never_owed_again(folder: SubjectFolder) -> None:
    await interview(folder, 1)
    assert not folder.load()[1].owed(attempts=3, retry_failed=True)


async def test_a_failed_interview_keeps_its_turns_for_the_next_try(folder: SubjectFolder) -> None:
    held = await interview(folder, 1, turns=2)
    folder.close()
    journal = folder.path / "journal.jsonl"
    turns_only = b"".join(journal.read_bytes().splitlines(keepends=True)[:3])
    journal.write_bytes(turns_only)
    assert folder.load()[1].turns == list(held.turns)
    assert folder.load()[1].owed(attempts=3, retry_failed=False)


async def test_redo_supersedes_and_forgets_nothing(folder: SubjectFolder) -> None:
    held = await interview(folder, 1)
    await folder.keep_redo(1, "the persona was interrupted")
    assert folder.load()[1] == SampleState()
    text = (folder.path / "journal.jsonl").read_text()
    assert "the persona was interrupted" in text
    assert held.turns[0].question.text in text


async def test_lines_are_on_disk_when_keep_returns(folder: SubjectFolder) -> None:
    for sample in range(1, 4):
        await interview(folder, sample)
        assert len((folder.path / "journal.jsonl").read_bytes().splitlines()) == 1 + 4 * sample


async def test_a_refused_write_is_a_disk_error(folder: SubjectFolder) -> None:
    held = await hold(cast(scorer=Rater(), patient=Answerer()), [], _nothing)
    os.close(folder._journal._file or -1)  # what a lost mount looks like from here
    with pytest.raises(DiskError, match="resumes"):
        await folder.keep_turn(1, held.turns[0])
    folder._journal._file = None


async def _nothing(_: Turn) -> None:
    return


def test_results_are_written_whole(folder: SubjectFolder) -> None:
    path = folder.write_result("consensus-12345678", {"total": 3})
    folder.write_result("consensus-12345678", {"total": 4})
    assert json.loads(path.read_text()) == {"total": 4}
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_run_folder_lists_its_subjects_and_a_subject_itself(
    folder: SubjectFolder,
) -> None:
    assert [one.path for one in subject_folders(folder.path.parent)] == [folder.path]
    assert [one.path for one in subject_folders(folder.path)] == [folder.path]
