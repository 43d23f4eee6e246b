"""The stand-in for a server in a process of its own, and src.run against it as a user starts it."""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
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
    seconds: float
    memory_mb: float | None
    """The most that it held; None, as below: not seen, since this system does not tell."""
    files: float | None
    """The most that were open at once."""
    waited: float | None
    """Share of the run's time for which it was ready but had no processor."""


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
        servers = [f"models.{name}.base_url={url}" for name in settings.plays]
        told = [*settings.usual, *servers, f"outputs={outputs}", "run=bench", *load.arguments]
        began = time.monotonic()
        used = _run(told, seconds=load.seconds, files=files)
        if unseen := [name for name in LOOKED_AT if name not in used]:
            sys.stderr.write(f"not seen on this system, and so in no figure: {', '.join(unseen)}\n")
        entries = json.loads(page(url, "/log"))["requests"]
        (folder,) = (Path(outputs) / "bench").iterdir()
        yield Taken(
            log=[e for e in entries if e["path"] == "chat" and e["subject"] != OURS],
            folder=folder,
            seconds=time.monotonic() - began,
            **{name: used.get(name) for name in LOOKED_AT},
        )


def _run(arguments: Sequence[str], *, seconds: float, files: int) -> dict[str, float]:
    """Run src.run to its end; return what it was seen to take at most, and in all."""
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
    began, most = time.monotonic(), dict[str, float]()
    while process.poll() is None:
        passed = time.monotonic() - began
        if passed > seconds:
            process.kill()
            raise ServerError(f"src.run did not end within {seconds:g} s")
        now = looked(Path(f"/proc/{process.pid}"))
        most |= {key: max(value, most.get(key, value)) for key, value in now.items()}
        time.sleep(LOOKS_EVERY)
    if process.returncode not in {0, 1}:  # 1: too few valid interviews, which a soak may leave
        raise ServerError(f"src.run ended with {process.returncode}: {process.stderr.read()}")
    process.stderr.close()
    if "waited" in most:
        most["waited"] /= time.monotonic() - began
    return most


def looked(process: Path) -> dict[str, float]:
    """Return what a process takes at this moment, as far as its folder in /proc tells."""
    sources = {"memory_mb": _memory, "files": _files, "waited": _waited}
    found: dict[str, float] = {}
    for name, source in sources.items():
        with suppress(OSError, LookupError, ValueError):  # it has just ended, or no such source
            found[name] = source(process)
    return {name: value for name, value in found.items() if value}  # what has ended holds 0


def _memory(process: Path) -> float:
    lines = (process / "status").read_text(encoding="utf-8").splitlines()
    status = dict(line.split(":", 1) for line in lines)
    return int(status["VmHWM"].split()[0]) * 1024 / 1e6


def _files(process: Path) -> float:
    return len(list((process / "fd").iterdir()))


def _waited(process: Path) -> float:
    return int((process / "schedstat").read_text(encoding="utf-8").split()[1]) / 1e9
