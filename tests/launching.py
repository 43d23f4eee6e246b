"""Starts launchers of stand-in servers, and knows every process that comes of them."""

import contextlib
import http.client
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from terminal import ROOT

from src.llm.endpoints import Endpoint, read_endpoint

STAND_IN = ROOT / "tests" / "launch" / "stand_in.py"
MARK = "TACIT_TEST_MARK"
SLURM = ("SLURM_JOB_ID", "SLURMD_NODENAME")
Found = TypeVar("Found")


def until(seen: Callable[[], Found | None], *, seconds: float = 30) -> Found:
    """Return what is seen as soon as it is; too late is a failure."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := seen():
            return found
        time.sleep(0.01)
    raise AssertionError(f"not seen within {seconds} s")


def command(name: str, *, flags: tuple[str, ...] = (), **plan: object) -> dict[str, Any]:
    """Return the command of a stand-in that behaves as told."""
    served = plan.setdefault("served", [f"{name}-model"])
    promised = plan.pop("promised", served)
    return {
        "endpoint": name,
        "served": promised,
        "argv": [sys.executable, "-S", str(STAND_IN), json.dumps(plan), *flags],
        "environment": {"OWN": "given"},
        "identity": "abc",
    }


def endpoint(**changed: object) -> Endpoint:
    """Return an endpoint of this very process, which is not going to end."""
    usual: dict[str, object] = {
        "name": "gemma", "state": "ready", "host": "127.0.0.1", "port": 1, "key": "k", "job": None,
        "pid": os.getpid(), "start": "other", "identity": "abc", "served": ("gemma-model",),
        "log": "/dev/null", "changed": datetime.now(UTC),
    }  # fmt: skip
    return Endpoint.model_validate(usual | changed)


class Launcher:
    """A launcher in a process of its own, seen from outside."""

    def __init__(self, folder: Path, process: "subprocess.Popen[str]", mark: str) -> None:
        self.folder, self.process, self._mark = folder, process, mark

    def endpoint(self, name: str = "gemma") -> Endpoint | None:
        return read_endpoint(self.folder, name)

    def when(self, state: str, name: str = "gemma") -> Endpoint:
        """Return the endpoint once it is in a state."""

        def seen() -> Endpoint | None:
            found = self.endpoint(name)
            return found if found is not None and found.state == state else None

        return until(seen)

    def ended(self, *, seconds: float = 30) -> tuple[int, str, str]:
        """Return exit code, output and errors, within so many seconds."""
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err

    def left(self) -> list[int]:
        """Return the processes that came of this launcher and still run, without itself."""
        return [pid for pid in marked(self._mark) if pid != self.process.pid]


def marked(mark: str) -> list[int]:
    """Return every process whose environment holds a mark."""
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark.encode() in environment.read_bytes():
                found.append(int(environment.parent.name))
    return found


@contextlib.contextmanager
def launcher(
    tmp_path: Path,
    *commands: Mapping[str, Any],
    environment: Mapping[str, str] | None = None,
    below: tuple[str, ...] = (),
    **lifecycle: object,
) -> Iterator[Launcher]:
    """Start a launcher, `below` another program; what it leaves behind is killed after the test."""
    mark, folder = secrets.token_hex(8), tmp_path / "endpoints"
    usual = {
        "host": None,
        "start_timeout": 30.0,
        "idle_shutdown": None,
        "grace": 5.0,
        "log_lines": 50,
        "logs": str(tmp_path / "logs"),
    }
    told = {"commands": commands, "folder": str(folder), "lifecycle": usual | lifecycle}
    outside = {key: value for key, value in os.environ.items() if key not in SLURM}
    process = subprocess.Popen(
        [*below, sys.executable, "-m", "tests.launch.launcher", json.dumps(told)],
        cwd=ROOT,
        env={**outside, "VLLM_PORT": "5000", MARK: mark, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Launcher(folder, process, mark)
    finally:
        for pid in marked(mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def ask(endpoint: Endpoint, path: str, *, post: Mapping[str, Any] | None = None) -> bytes:
    """Return what a server answers; OSError or HTTPException where it does not."""
    connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=20)
    try:
        connection.request(
            "GET" if post is None else "POST",
            path,
            None if post is None else json.dumps(post),
            {"Authorization": f"Bearer {endpoint.key}"},
        )
        return connection.getresponse().read()
    finally:
        connection.close()
