"""What `serving.models` lists and refuses, and how a fetched adapter gets into its place."""

import json
from pathlib import Path

import pytest
from personas_on_disk import adapter
from terminal import tacit

from serving.fetched import Fetched, alone, draft_of, fetched_in, folder_of, put_in_place
from serving.lora import find_adapters
from serving.models import ModelsSettings, here, wanted_of
from src import config
from src.errors import FolderError, InputError

OLD, NEW = "a" * 40, "b" * 40
SEVEN = "Anxo/erisk26-task1-patient-06-adapter"


def settings(*overrides: str) -> ModelsSettings:
    return config.read_settings("adapters", ModelsSettings, overrides)


def origin(revision: str, repository: str = SEVEN) -> Fetched:
    return Fetched(adapter=repository, revision=revision, licence=None, files={})


def put(adapters: Path, revision: str, weights: str = "weights") -> Path:
    """Put persona 7 in its place at a revision."""
    folder = folder_of(adapters, 7)
    draft = draft_of(folder, revision)
    adapter(adapters, draft.name, weights)
    put_in_place(draft, folder, origin(revision))
    return folder


def published(tmp_path: Path, revision: str | None) -> str:
    path = tmp_path / "published.yaml"
    pin = revision or "null"
    line = f"7: {{adapter: {SEVEN}, revision: {pin}, released: 2026-11-23}}"
    path.write_text(f"base: org/base\npersonas:\n  {line}\n", encoding="utf-8")
    return f"published={path}"


def test_the_listing_says_whose_adapter_is_where_and_asks_nobody(tmp_path: Path) -> None:
    put(tmp_path / "adapters", OLD)
    listed = tacit(
        "serving.models",
        f"adapters={tmp_path / 'adapters'}",
        published(tmp_path, OLD),
        environment={"HF_HOME": str(tmp_path)},
    )
    assert listed.returncode == 0, listed.stderr
    line = next(one for one in listed.stdout.splitlines() if SEVEN in one)
    assert line.split() == ["7", SEVEN, OLD[:12], "2026-11-23", "yes"]
    words = [one.split() for one in listed.stdout.splitlines() if one]
    assert [one[0] for one in words if one[-1] == "no"] == ["gemma", "gemma_int4", "personas"]


def test_what_nobody_pinned_is_listed_so(tmp_path: Path) -> None:
    listed = tacit("serving.models", f"adapters={tmp_path}", "persona=9")
    assert "not pinned: fetch pins it" in listed.stdout
    assert "patient-08-adapter" in listed.stdout
    assert "patient-06-adapter" not in listed.stdout


def test_a_base_is_whole_once_every_file_of_its_index_is_there(tmp_path: Path) -> None:
    (base,) = wanted_of(settings("model=personas"))
    name = f"models--{base.repository.replace('/', '--')}"
    folder = tmp_path / "hub" / name / "snapshots" / str(base.revision)
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}", encoding="utf-8")
    index = {"weight_map": {"a": "one.safetensors", "b": "two.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
    said = []
    for weights in ("one.safetensors", "two.safetensors"):
        (folder / weights).write_text("", encoding="utf-8")
        listed = tacit("serving.models", "persona=1", environment={"HF_HOME": str(tmp_path)})
        said.append(next(one for one in listed.stdout.splitlines() if base.repository in one))
    assert "in part" in said[0]
    assert said[1].rstrip().endswith("yes")


def test_without_a_name_everybodys_adapter_is_wanted_and_with_a_base_nobodys() -> None:
    assert len(wanted_of(settings())) == 20
    assert [one.name for one in wanted_of(settings("model=[gemma,personas]"))] == [
        "gemma",
        "personas",
    ]
    both = wanted_of(settings("model=both", "persona=[9,10]"))
    assert [one.persona for one in both] == [9, 10, None, None]
    assert all(one.revision for one in both[2:])


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("persona=21", "names no adapter of persona 21"),
        ("model=cpu", "models/smollm2 is a folder, nothing to fetch"),
        ("model=gpt", "model=gpt: no such model; choose from both, cpu"),
        ("published=nowhere.yaml", "nowhere.yaml: cannot be read"),
    ],
)
def test_what_conf_does_not_name_is_one_line(given: str, line: str) -> None:
    with pytest.raises(InputError, match=line) as refused:
        wanted_of(settings(given))
    assert "\n" not in str(refused.value)


def test_fetching_offline_is_refused_with_the_variable_to_unset(tmp_path: Path) -> None:
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        refused = tacit(
            "serving.models", "fetch=true", f"adapters={tmp_path}", environment={name: "1"}
        )
        assert refused.returncode == 3
        assert refused.stderr.startswith(f"tacit: {name} is set")


def test_fetching_without_the_serving_environment_says_how_to_get_it(tmp_path: Path) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    program.chmod(0o755)
    for python in (program, tmp_path / "nowhere"):
        refused = tacit(
            "serving.models", "fetch=true", f"adapters={tmp_path}", f"python={python}",
            environment={"HF_HUB_OFFLINE": "0"},
        )  # fmt: skip
        assert refused.returncode == 3
        assert "install the serving environment first" in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_what_is_on_disk_is_not_asked_for_even_offline(tmp_path: Path) -> None:
    put(tmp_path, OLD)
    for pinned in (None, OLD):
        done = tacit(
            "serving.models", "fetch=true", "persona=7", f"adapters={tmp_path}", "python=nowhere",
            published(tmp_path, pinned), environment={"HF_HUB_OFFLINE": "1"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert "persona-07 is on disk" in done.stdout


def test_what_is_on_disk_stays_until_conf_names_another_revision(tmp_path: Path) -> None:
    put(tmp_path, OLD)
    for pinned, there in ((None, True), (OLD, True), (NEW, False)):
        (one,) = wanted_of(settings(f"adapters={tmp_path}", published(tmp_path, pinned)))
        assert (here(one) is not None) == there


def test_a_new_revision_takes_the_place_of_the_old_and_leaves_nothing(tmp_path: Path) -> None:
    put(tmp_path, OLD, "old")
    adapter(tmp_path, draft_of(folder_of(tmp_path, 7), "c" * 40).name)  # given up half-way
    folder = put(tmp_path, NEW, "new")
    assert fetched_in(folder) == origin(NEW)
    assert (folder / "adapter_model.safetensors").read_text(encoding="utf-8") == "new"
    assert [path.name for path in tmp_path.iterdir()] == ["persona-07"]


def test_what_is_being_gathered_is_not_served(tmp_path: Path) -> None:
    adapter(tmp_path, draft_of(folder_of(tmp_path, 7), NEW).name)
    with pytest.raises(InputError, match="no adapter"):
        find_adapters(tmp_path)


def test_an_adapter_that_was_trained_here_is_never_replaced(tmp_path: Path) -> None:
    folder = adapter(tmp_path, "persona-07")
    with pytest.raises(InputError, match="was not fetched"):
        fetched_in(folder)
    listed = tacit("serving.models", "persona=7", f"adapters={tmp_path}")
    assert "another, not fetched" in listed.stdout


@pytest.mark.parametrize("content", ["", "{}", '{"adapter": 1}'])
def test_a_malformed_origin_is_one_line(content: str, tmp_path: Path) -> None:
    folder = put(tmp_path, OLD)
    (folder / "origin.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"origin\.json") as refused:
        fetched_in(folder)
    assert "\n" not in str(refused.value)


def test_two_commands_do_not_fetch_into_one_folder(tmp_path: Path) -> None:
    with alone(tmp_path), pytest.raises(FolderError, match="another command"), alone(tmp_path):
        pass
    with alone(tmp_path):  # free again
        pass


def test_help_names_every_choice_and_its_default() -> None:
    shown = tacit("serving.models", "--help")
    assert shown.returncode == 0
    for key in ModelsSettings.model_fields:
        assert f"\n{key}:" in shown.stdout
