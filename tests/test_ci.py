"""The script that CI runs: what is skipped is shown, and nothing is skipped without its reason."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from terminal import ROOT

MAKE = """#!/bin/sh
case $1 in
  lint) exit {lint} ;;
  test) printf '%b\\n' '{printed}'; exit {test} ;;
  test-serving) echo '3 passed in the real server'; exit {serving} ;;
  test-slurm) echo '3 passed in a real Slurm' ;;
esac
"""
PYTHON = """#!/bin/sh
echo 'calibration: 0.9'
[ "$2" != {slow_for} ] || exit 3
exit {calibrated}
"""
SLOW = 3
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
    ended = ci(tmp_path, data=data, lint=codes[0], printed=printed, test=codes[1])
    assert (ended.returncode == 0) == passes, ended.stdout
    if "SKIPPED" in printed:
        assert "skipped:\n" + printed.partition("\\n")[0] in ended.stdout


@pytest.mark.parametrize(
    ("calibrated", "serving", "passes", "last"),
    [
        (0, 0, True, "3 passed in a real Slurm"),
        (SLOW, 0, True, "left out: test-serving, bench-serving, test-slurm: calibration: 0.9"),
        (1, 0, False, "calibration: 0.9"),
        (0, 1, False, "3 passed in the real server"),
    ],
)
def test_the_real_servers_are_left_out_on_a_slow_machine_alone_and_said_last(
    calibrated: int, serving: int, passes: bool, last: str, tmp_path: Path
) -> None:
    ended = ci(tmp_path, calibrated=calibrated, serving=serving)
    assert (ended.returncode == 0) == passes, ended.stdout
    assert ended.stdout.splitlines()[-1] == last


@pytest.mark.parametrize(("seconds", "part"), [(730, "test-serving"), (410, "test-slurm")])
def test_a_part_that_this_machine_is_too_slow_for_is_left_out_alone(
    seconds: int, part: str, tmp_path: Path
) -> None:
    ended = ci(tmp_path, slow_for=seconds)
    assert ended.returncode == 0
    assert ended.stdout.splitlines()[-1] == f"left out: {part}: calibration: 0.9"
    ran = {"test-serving": "3 passed in the real server", "test-slurm": "3 passed in a real Slurm"}
    assert {name for name, line in ran.items() if line in ended.stdout} == {*ran} - {part}


def test_the_real_servers_are_left_out_where_told(tmp_path: Path) -> None:
    ended = ci(tmp_path, real="0", serving=1)
    assert ended.returncode == 0
    last = "left out: test-serving, bench-serving, test-slurm: TACIT_REAL_SERVERS=0"
    assert ended.stdout.splitlines()[-1] == last


def ci(
    place: Path,
    *,
    data: bool = False,
    real: str = "1",
    calibrated: int = 0,
    slow_for: int = 0,
    **make: object,
) -> "subprocess.CompletedProcess[str]":
    """Run the script in a checkout whose programs end as told."""
    checkout, programs = place / "checkout", place / "bin"
    (checkout / ".ci").mkdir(parents=True)
    (checkout / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci" / "run")
    usual: dict[str, object] = {"lint": 0, "test": 0, "serving": 0, "printed": "9 passed"}
    for path, text in (
        (programs / "make", MAKE.format(**usual | make)),
        (programs / "uname", "#!/bin/sh\necho Linux x86_64\n"),
        (programs / "id", "#!/bin/sh\necho 0\n"),
        (programs / "apt-get", "#!/bin/sh\n"),
        (checkout / ".venv/bin/python", PYTHON.format(calibrated=calibrated, slow_for=slow_for)),
    ):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)
    if data:
        (place / "shared" / "data").mkdir(parents=True)
    return subprocess.run(
        ["bash", str(checkout / ".ci" / "run")],
        env={
            **os.environ,
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "TACIT_REAL_SERVERS": real,
        },
        capture_output=True, text=True, check=False,
    )  # fmt: skip
