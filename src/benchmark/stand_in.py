"""The stand-in for a server in a process of its own, and src.run against it as a user starts it."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from src.errors import InputError, ServerError
from src.llm.metrics import page
from src.prompts import ROOT, located
from src.settings.bench import BenchSettings, LoadSettings

LOOKS_EVERY = 0.1
"""Seconds between two looks at what a process takes."""
LOOKED_AT = ("memory_mb", "files", "waited")
OURS = "preflight"
"""Subject of the calls by which a run tests its servers first."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What a run of src.run took and left."""

    log: list[dict[str, Any]]
    """The server's chat requests for interviews, in order."""
    folder: Path
    memory_mb: float
    files: float
    waited: float
    """Share of the run's time for which it was ready but had no processor."""
    seconds: float


@contextmanager
def stand_in(program: str, plan: dict[str, Any]) -> Iterator[str]:
    """Start the program with a plan; yield the address that it prints."""
    path = located(program)
    if not path.is_file():
        raise InputError(f"stand_in={program}: there is no such program")
    started = [sys.executable, str(path), "port=0", f"plan={json.dumps(plan)}"]
    process = subprocess.Popen(started, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        if not (url := process.stdout.readline().strip()):
            raise ServerError(f"{program} did not start; it needs what make setup installs")
        yield url
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()


@contextmanager
def taken(settings: BenchSettings, load: LoadSettings, *, files: int = 0) -> Iterator[Taken]:
    """Hold the interviews of a part, with a limit on open files where one is given."""
    with (
        stand_in(settings.stand_in, load.plan) as url,
        tempfile.TemporaryDirectory(prefix="tacit-bench-") as outputs,
    ):
        servers = [f"models.{name}.base_url={url}" for name in settings.models]
        told = [*settings.usual, *servers, f"outputs={outputs}", "run=bench", *load.arguments]
        began = time.monotonic()
        used = _run(told, seconds=load.seconds, files=files)
        entries = json.loads(page(url, "/log"))["requests"]
        (folder,) = (Path(outputs) / "bench").iterdir()
        yield Taken(
            log=[e for e in entries if e["path"] == "chat" and e["subject"] != OURS],
            folder=folder,
            seconds=time.monotonic() - began,
            **used,
        )


def _run(arguments: Sequence[str], *, seconds: float, files: int) -> dict[str, Any]:
    """Run src.run to its end; return what it took at most, and in all."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files:  # inherited by what is started now
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, limits[1]))
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "src.run", *arguments],
            cwd=ROOT,
            env={**os.environ, "OPENAI_API_KEY": "none"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert process.stderr is not None
    began, most = time.monotonic(), dict.fromkeys(LOOKED_AT, 0.0)
    while process.poll() is None:
        passed = time.monotonic() - began
        if passed > seconds:
            process.kill()
            raise ServerError(f"src.run did not end within {seconds:g} s")
        now = _looked(process.pid)
        most = {key: max(most[key], now.get(key, 0)) for key in most}
        time.sleep(LOOKS_EVERY)
    if process.returncode not in {0, 1}:  # 1: too few valid interviews, which a soak may leave
        raise ServerError(f"src.run ended with {process.returncode}: {process.stderr.read()}")
    process.stderr.close()
    return most | {"waited": most["waited"] / (time.monotonic() - began)}


def _looked(pid: int) -> dict[str, float]:
    """Return what a process takes at this moment, as Linux tells."""
    own = Path(f"/proc/{pid}")
    try:
        status = dict(line.split(":", 1) for line in (own / "status").read_text().splitlines())
        _, waited, _ = map(int, (own / "schedstat").read_text().split())
        return {
            "memory_mb": int(status["VmHWM"].split()[0]) / 1000,
            "files": len(list((own / "fd").iterdir())),
            "waited": waited / 1e9,
        }
    except (OSError, KeyError, ValueError):  # it has just ended
        return {}
