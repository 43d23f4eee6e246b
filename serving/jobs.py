"""Whether what an endpoint file tells of is still there: by Slurm, or by its process."""

import ipaddress
import os
import re
import socket
import subprocess
from collections.abc import Callable
from datetime import datetime
from enum import Enum, auto
from pathlib import Path

from src.errors import InputError
from src.llm.endpoints import Endpoint

AGAIN = frozenset({"PENDING", "CONFIGURING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD"}) | {
    "SPECIAL_EXIT"
}
GOING_ON = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", "STAGE_OUT"})
CLEARING = "COMPLETING"
"""The state in which a node is cleared after a job, be it over or queued again."""
ANSWERS_WITHIN = 10.0
"""Seconds after which Slurm's controller counts as out of reach."""
SLACK = 60.0
"""Seconds by which the clock may have been put right since a file was written."""


class Life(Enum):
    """What is known of a job or process."""

    WAITING = auto()
    """Queued, for the first time or again."""
    RUNNING = auto()
    CLEARED = auto()
    """Its node is being cleared; only then will it be gone or queued again."""
    GONE = auto()
    UNKNOWN = auto()
    """Nobody could be asked."""


def life_of_job(job: str) -> Life:
    """Return what Slurm's queue says; a controller out of reach says nothing."""
    try:
        done = _told("squeue", "-h", "-j", job, "-o", "%T")
    except (OSError, subprocess.TimeoutExpired):
        return Life.UNKNOWN
    if done.returncode:  # a job long gone is refused as invalid
        return Life.GONE if "invalid job id" in done.stderr.lower() else Life.UNKNOWN
    states = set(done.stdout.split())
    if states & GOING_ON:
        return Life.RUNNING
    if CLEARING in states:
        return Life.CLEARED
    return Life.WAITING if states & AGAIN else Life.GONE


def log_of_job(job: str) -> Path | None:
    """Return the file of a job's standard output, if Slurm still knows it."""
    try:
        done = _told("scontrol", "show", "job", "-o", job)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r" StdOut=(.+?)(?= [A-Z]\w*=|$)", done.stdout, re.MULTILINE)
    return Path(found[1].strip()) if found else None


def life_of(endpoint: Endpoint, *, queue: Callable[[str], Life] = life_of_job) -> Life:
    """Return whether an endpoint's launcher is there, whatever its file says.

    Within the job itself its process tells: a job queued again has the number of its first try,
    which may have run on another node. A process id says nothing of another machine's processes.
    """
    if endpoint.job is not None and endpoint.job != os.environ.get("SLURM_JOB_ID"):
        return queue(endpoint.job)
    if endpoint.node not in {"", socket.gethostname()}:
        spans_one = os.environ.get("SLURM_JOB_NUM_NODES", "1") == "1"
        return Life.GONE if endpoint.job is not None and spans_one else Life.UNKNOWN
    host = endpoint.host if endpoint.job is None and not endpoint.node else ""
    if host and not is_here(host):
        return Life.UNKNOWN
    alive = runs_since(endpoint.pid, endpoint.changed)
    return Life.RUNNING if alive else Life.GONE


def is_here(host: str) -> bool:
    """Return whether a host's name or address is this machine's."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host in {"localhost", socket.gethostname(), socket.getfqdn()}


def runs_since(pid: int, moment: datetime) -> bool:
    """Return whether a process runs on this machine that is not younger than `moment`.

    A number is given again, after a restart of the machine at the latest.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        boot = Path("/proc/stat").read_text(encoding="utf-8").partition("btime ")[2].split()[0]
    except OSError:
        return False
    state, *rest = fields.rpartition(")")[2].split()
    began = int(boot) + int(rest[18]) / os.sysconf("SC_CLK_TCK")
    return state not in "ZX" and began <= moment.timestamp() + SLACK


def refuse_without_slurm() -> None:
    """Raise an `InputError` where no queue can be asked."""
    try:
        _told("squeue", "--version")
    except FileNotFoundError as error:
        raise InputError("jobs: squeue is not installed here, so no job can be watched") from error
    except (OSError, subprocess.TimeoutExpired):
        pass


def last_lines(log: Path, count: int) -> list[str]:
    """Return the end of a log, nothing where there is none yet; a line may be cut at its front."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - count * 1000))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return text.splitlines()[-count:]


def _told(*words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        words, capture_output=True, text=True, timeout=ANSWERS_WITHIN, check=False
    )
