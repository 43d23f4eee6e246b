"""Where a model lies: one answer for whoever lists, trains, serves or fetches."""

import json
from pathlib import Path

import pytest

from serving.cached import cache, copy_of, held, home, is_repository

NAMES = ("XDG_CACHE_HOME", "HF_HOME", "HF_HUB_CACHE")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, "/me/.cache/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"),
        ({"XDG_CACHE_HOME": "/x", "HF_HOME": "/h"}, "/h/hub"),
        ({"HF_HOME": "~/h"}, "/me/h/hub"),
        ({"HF_HOME": "/$USER/h"}, "/somebody/h/hub"),
        ({"HF_HOME": "/h", "HF_HUB_CACHE": "/hub"}, "/hub"),
    ],
)
def test_copies_are_looked_for_where_the_hubs_client_keeps_them(
    given: dict[str, str], kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/me", "USER": "somebody", **given}.items():
        monkeypatch.setenv(name, value)
    assert str(cache()) == kept
    assert home().name in {"huggingface", "h"}


def test_a_branch_is_the_commit_that_it_stood_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    refs = tmp_path / "models--maker--model" / "refs"
    refs.mkdir(parents=True)
    (refs / "main").write_text("c0ffee", encoding="utf-8")
    assert copy_of("maker/model", None).name == "c0ffee"
    assert copy_of("maker/model", "main").name == "c0ffee"
    assert copy_of("maker/model", "ba5e").name == "ba5e"


@pytest.mark.parametrize(
    ("files", "there"),
    [
        ((), "no"),
        (("model.safetensors",), "no"),
        (("config.json",), "in part"),
        (("config.json", "model.safetensors"), "yes"),
        (("config.json", "pytorch_model.bin"), "yes"),
        (("config.json", "model-00001-of-00002.safetensors"), "in part"),
    ],
)
def test_a_copy_is_whole_with_its_weights(
    files: tuple[str, ...], there: str, tmp_path: Path
) -> None:
    for file in files:
        (tmp_path / file).touch()
    assert held(tmp_path) == there


def test_a_copy_in_several_files_is_whole_with_the_last_of_them(tmp_path: Path) -> None:
    (tmp_path / "config.json").touch()
    index = {"weight_map": {"a": "model-1-of-2.safetensors", "b": "model-2-of-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    said = []
    for file in sorted(index["weight_map"].values()):
        (tmp_path / file).touch()
        said.append(held(tmp_path))
    assert said == ["in part", "yes"]


def test_a_repository_is_told_from_a_folder() -> None:
    assert is_repository("meta-llama/Meta-Llama-3-8B-Instruct")
    for folder in ("models/smollm2", "/scratch/model", "./some/model", "smollm2", "src/llm"):
        assert not is_repository(folder)
