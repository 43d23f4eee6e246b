"""slurm/job.sh: what a job's script does with the signals that it alone gets."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from terminal import ROOT

HEEDS = """
import signal, sys
def heed(*_): print("told", flush=True); times.append(1); len(times) == {last} and sys.exit(9)
times = []
signal.signal(signal.SIGTERM, heed)
print("begun", flush=True)
while True: signal.pause()
"""
SCRIPT = """
set -euo pipefail
source slurm/job.sh
INSIST=1
{body}
echo "$stopped $code"
"""


@contextmanager
def script(body: str) -> Iterator["subprocess.Popen[str]"]:
    """Run a job's script in a process group of its own, which ends with the block."""
    process = subprocess.Popen(
        ["bash", "-c", SCRIPT.format(body=body), "job", sys.executable],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def runs_until_told(times: int) -> str:
    return f"start \"$1\" -c '{HEEDS.format(last=times)}'\nattend"


def line(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_signal_to_the_script_alone_is_handed_on() -> None:
    for number in (signal.SIGTERM, signal.SIGUSR1):
        with script(runs_until_told(1)) as process:
            assert line(process) == "begun"
            process.send_signal(number)
            assert [line(process), line(process)] == ["told", f"{number.name[3:]} 9"]


def test_the_first_signal_says_why_and_the_second_is_handed_on_too() -> None:
    with script(f"INSIST=99\n{runs_until_told(2)}") as process:
        assert line(process) == "begun"
        process.send_signal(signal.SIGUSR1)
        assert line(process) == "told"
        process.send_signal(signal.SIGTERM)
        assert [line(process), line(process)] == ["told", "USR1 9"]


def test_what_takes_too_long_to_end_is_told_again() -> None:
    with script(runs_until_told(2)) as process:
        assert line(process) == "begun"
        process.send_signal(signal.SIGUSR1)
        assert [line(process) for _ in range(3)] == ["told", "told", "USR1 9"]


def test_after_a_signal_that_came_between_two_nothing_more_is_started() -> None:
    with script("kill -USR1 $$\nstart echo begun\nattend") as process:
        assert line(process) == "USR1 143"


def test_reading_a_sites_lines_does_not_forbid_to_fetch() -> None:
    told = subprocess.run(
        ["bash", "-uc", "source slurm/env.sh; env"],
        cwd=ROOT, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "OFFLINE" not in told
    assert "TACIT_REQUEUES=20" in told
