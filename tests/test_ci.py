"""The script that CI runs: every skipped test is shown, and data that is there is not skipped."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from terminal import ROOT

MAKE = """#!/bin/sh
[ "$1" = lint ] && exit {lint}
printf '%b\\n' '{printed}'
exit {test}
"""
DATA = "SKIPPED [1] tests/test_score.py:9: ../shared/data is absent"
OTHER = "SKIPPED [1] tests/test_run.py:9: no such signal here"


@pytest.mark.parametrize(
    ("printed", "codes", "data", "passes"),
    [
        ("9 passed in 1s", (0, 0), True, True),
        (f"{OTHER}\\n9 passed, 1 skipped in 1s", (0, 0), True, True),
        (f"{DATA}\\n9 passed, 1 skipped in 1s", (0, 0), False, True),
        (f"{DATA}\\n9 passed, 1 skipped in 1s", (0, 0), True, False),
        ("1 failed in 1s", (0, 1), True, False),
        ("9 passed in 1s", (1, 0), True, False),
    ],
)
def test_ci_shows_what_is_skipped_and_fails_where_data_is_there_and_skipped(
    printed: str, codes: tuple[int, int], data: bool, passes: bool, tmp_path: Path
) -> None:
    checkout, programs = tmp_path / "checkout", tmp_path / "bin"
    (checkout / ".ci").mkdir(parents=True)
    programs.mkdir()
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci" / "run")
    make = programs / "make"
    make.write_text(MAKE.format(lint=codes[0], printed=printed, test=codes[1]))
    make.chmod(0o755)
    if data:
        (tmp_path / "shared" / "data").mkdir(parents=True)
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        ["bash", str(checkout / ".ci" / "run")],
        env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (ended.returncode == 0) == passes, ended.stdout
    if "SKIPPED" in printed:
        assert "skipped:\n" + printed.partition("\\n")[0] in ended.stdout
