"""Runs the project's commands as a user does, in a process of their own, without a network."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

GUARDED = """
import runpy, sys
sys.path.insert(0, {tests!r})
import conftest  # its audit hook refuses every connection that leaves this machine
sys.argv = [{module!r}, *sys.argv[1:]]
runpy.run_module({module!r}, run_name="__main__", alter_sys=True)
"""


def program(module: str) -> list[str]:
    """Return how a command is started: as `python -m`, with the network refused."""
    return [sys.executable, "-c", GUARDED.format(module=module, tests=str(ROOT / "tests"))]


def tacit(
    module: str,
    *arguments: str,
    cwd: Path = ROOT,
    limit: str = "",
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; `limit` is shell that runs before it, such as `ulimit -f 8`.

    `environment` is what the command has beside this machine's own variables, keys left out.
    """
    started = [*program(module), *arguments]
    if limit:
        started = ["bash", "-c", f'{limit}; exec "$@"', "bash", *started]
    return subprocess.run(
        started, cwd=cwd, env=variables(environment), capture_output=True, text=True, timeout=170,
        check=False,
    )  # fmt: skip


def variables(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this machine's variables without keys, and what is added."""
    hidden = {"OPENAI_API_KEY", "COLUMNS"}
    return {k: v for k, v in os.environ.items() if k not in hidden} | dict(more or {})
