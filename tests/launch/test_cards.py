"""What nvidia-smi prints, read: which cards there are, which of them will do."""

import stat
from pathlib import Path

import pytest
from personas_on_disk import adapter
from terminal import tacit

from serving.cards import read_cards, taken, visible
from serving.settings import LaunchSettings
from src import config
from src.errors import ServerError

H100 = "GPU-5a1c0f1e-0000-1111-2222-333344445555"
SEEN = f"""0, GPU-11111111-2222-3333-4444-555555555555, NVIDIA A100-SXM4-80GB, 81920, 8.0
1, {H100}, NVIDIA H100 80GB HBM3, 81559, 9.0
2, GPU-99999999-2222-3333-4444-555555555555, Tesla V100-SXM2-32GB, 32768, 7.0
3, GPU-77777777-2222-3333-4444-555555555555, Tesla T4, 15360, 7.5
"""


def test_every_card_is_read_with_memory_and_capability() -> None:
    cards = read_cards(SEEN)
    assert [card.index for card in cards] == [0, 1, 2, 3]
    assert (cards[1].name, cards[1].memory, cards[1].capability) == (
        "NVIDIA H100 80GB HBM3", 81559, (9, 0),
    )  # fmt: skip


@pytest.mark.parametrize("text", ["no devices were found", "0, GPU-1, A100, [N/A], 8.0", "0, 1"])
def test_an_answer_that_nobody_understands_is_one_line(text: str) -> None:
    with pytest.raises(ServerError, match="nvidia-smi says what nobody understands"):
        read_cards(text)


@pytest.mark.parametrize(
    ("named", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("1", [1]),
        ("1,0", [1, 0]),
        (H100, [1]),
        ("GPU-5a1c, 0", [1, 0]),  # CUDA takes the beginning of a UUID
        ("", []),
    ],
)
def test_visible_cards_are_named_by_number_or_uuid(named: str | None, indices: list[int]) -> None:
    assert [card.index for card in visible(read_cards(SEEN), named)] == indices


@pytest.mark.parametrize(
    ("named", "line"),
    [
        ("7", "CUDA_VISIBLE_DEVICES=7: no such card; nvidia-smi lists 0, 1, 2, 3"),
        ("GPU-abcdef", "GPU-abcdef: no such card"),
        ("MIG-5a1c", "MIG-5a1c: a slice of a card"),
    ],
)
def test_a_visible_card_that_is_not_there_is_refused(named: str, line: str) -> None:
    with pytest.raises(ServerError, match=line):
        visible(read_cards(SEEN), named)


@pytest.mark.parametrize(("place", "line"), [(2, "V100.*7.0 has no bf"), (3, "T4.*7.5 has no bf")])
def test_a_card_without_bfloat16_is_refused_by_name(place: int, line: str) -> None:
    with pytest.raises(ServerError, match=line):
        taken(read_cards(SEEN), [place])


def test_cards_that_compute_in_bfloat16_are_taken_in_order() -> None:
    assert [card.index for card in taken(read_cards(SEEN), [1, 0])] == [1, 0]


def test_too_few_cards_are_refused_with_both_numbers() -> None:
    with pytest.raises(ServerError, match="2 cards are needed, 1 visible"):
        taken(read_cards(SEEN)[:1], [0, 1])


def stand_in(folder: Path, answer: str, *, code: int = 0) -> dict[str, str]:
    """Return an environment whose nvidia-smi is a script with this answer."""
    script = folder / "nvidia-smi"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{answer}\nEND\nexit {code}\n", encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


@pytest.mark.parametrize(
    ("answer", "code", "line"),
    [
        (SEEN.splitlines()[2].replace("2,", "0,", 1), 0, "V100-SXM2-32GB): compute capability 7.0"),
        (SEEN.splitlines()[0].replace("81920", "40960"), 0, "servers.gemma: needs"),
        ("the driver is not loaded", 9, "nvidia-smi failed (9): the driver is not loaded"),
    ],
)
def test_a_start_on_a_card_that_cannot_serve_ends_in_one_line(
    answer: str, code: int, line: str, tmp_path: Path
) -> None:
    environment = {**stand_in(tmp_path, answer, code=code), "CUDA_VISIBLE_DEVICES": "0"}
    done = tacit("serving.launch", "serving=gemma", "python=/bin/sh", environment=environment)
    assert done.returncode == 3
    assert line in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_gpu_the_ways_on_are_named(tmp_path: Path) -> None:
    environment = {"PATH": str(tmp_path)}
    done = tacit("serving.launch", "serving=gemma", "python=/bin/sh", environment=environment)
    assert done.returncode == 3
    assert "print=true" in done.stderr
    assert "serving=cpu" in done.stderr


def test_a_start_without_vllms_python_says_so() -> None:
    done = tacit("serving.launch", "serving=gemma", "python=no/such/python")
    assert done.returncode == 3
    assert "no/such/python: not there" in done.stderr
    assert "make setup-serving-gpu" in done.stderr


def test_a_model_that_is_not_here_is_named_with_the_way_to_fetch_it(tmp_path: Path) -> None:
    environment = {
        **stand_in(tmp_path, SEEN.splitlines()[0]),
        "CUDA_VISIBLE_DEVICES": "0",
        "HF_HUB_CACHE": str(tmp_path / "hub"),
    }
    option = config.read_settings("launch", LaunchSettings, ["serving=gemma_int4"])
    model = option.servers["gemma"]
    snapshots = f"models--{model.model.replace('/', '--')}/snapshots"
    snapshot = tmp_path / "hub" / snapshots / str(model.revision)
    for cut_off in (False, True):
        if cut_off:
            snapshot.mkdir(parents=True)
            (snapshot / "config.json").touch()
            (snapshot / "model-00001-of-00004.safetensors").touch()
        arguments = ["serving=gemma_int4", "python=/bin/sh"]
        done = tacit("serving.launch", *arguments, environment=environment)
        assert done.returncode == 3
        assert "is not whole in the hub's cache" in done.stderr
        assert "python -m serving.models fetch=true model=gemma_int4" in done.stderr


def test_a_folder_that_is_not_there_is_named_with_the_way_to_make_it(tmp_path: Path) -> None:
    arguments = ["serving=cpu", "python=/bin/sh", "servers.cpu.model=./no/such/model"]
    adapter(tmp_path, "persona-07")
    done = tacit("serving.launch", *arguments, f"adapters={tmp_path}")
    assert done.returncode == 3
    assert "./no/such/model is no folder" in done.stderr
    assert "serving.convert" in done.stderr
