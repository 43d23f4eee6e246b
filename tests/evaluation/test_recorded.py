from pathlib import Path

import pytest

from src.errors import FolderError, InputError
from src.evaluation.recorded import conversations_of_run


def run_folder(folder: Path, result: bytes) -> Path:
    """Write a run of one subject without interviews, with the given file as its result."""
    results = folder / "persona-03" / "results"
    results.mkdir(parents=True)
    (results.parent / "manifest.json").write_text("{}")
    (results / "consensus.json").write_bytes(result)
    return folder


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no json",
        b'{"truth": ',
        b"\xff\xfe",
        b"[" * 100_000,
        b"[]",
        b"7",
        b'{"truth": 7}',
        b'{"truth": {}}',
        b'{"truth": {"total": 64, "key_symptoms": [], "manner": "open"}}',
        b'{"truth": {"total": 3, "key_symptoms": [22], "manner": "open"}}',
    ],
    ids=lambda damaged: repr(damaged[:60]),
)
def test_a_damaged_result_is_one_line_that_names_the_file(tmp_path: Path, damaged: bytes) -> None:
    with pytest.raises(FolderError) as refused:
        conversations_of_run(run_folder(tmp_path, damaged))
    text = str(refused.value)
    assert text.startswith(f"{tmp_path / 'persona-03' / 'results' / 'consensus.json'}: ")
    assert len(text.splitlines()) == 1


@pytest.mark.parametrize(
    "sound",
    [
        b'{"run": "x"}',
        b'{"truth": null}',
        b'{"truth": {"total": 63, "key_symptoms": [21], "manner": "open"}}',
    ],
)
def test_a_sound_result_passes_with_a_truth_or_without(tmp_path: Path, sound: bytes) -> None:
    with pytest.raises(InputError, match="holds no finished interview") as refused:
        conversations_of_run(run_folder(tmp_path, sound))
    assert not isinstance(refused.value, FolderError)
