"""A fake server in a process of its own, which outlives the driver that a test kills."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fake_plan import Fault, Plan

SERVER = Path(__file__).with_name("fake_server.py")


class ServerProcess:
    """A server in a process of its own, seen from outside."""

    def __init__(self, url: str, process: "subprocess.Popen[str]") -> None:
        self.url, self.process = url, process
        self._root = url.removesuffix("/v1")

    def log(self) -> list[dict[str, Any]]:
        """Return all entries; `answered` marks those that a ledger must hold."""
        requests: list[dict[str, Any]] = self.state()["requests"]
        return requests

    def state(self) -> dict[str, Any]:
        """Return `requests`, `now` and `peak`."""
        with urllib.request.urlopen(f"{self._root}/log", timeout=10) as response:
            found: dict[str, Any] = json.load(response)
        return found

    def body(self, number: int) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self._root}/log/{number}", timeout=10) as response:
            found: dict[str, Any] = json.load(response)
        return found

    def headers(self, number: int) -> dict[str, str]:
        with urllib.request.urlopen(f"{self._root}/log/{number}/headers", timeout=10) as response:
            found: dict[str, str] = json.load(response)
        return found

    def set_faults(self, *faults: Fault) -> None:
        """Put these faults in the place of the plan's."""
        data = json.dumps([fault.model_dump() for fault in faults]).encode()
        with urllib.request.urlopen(f"{self._root}/faults", data=data, timeout=10):
            pass


@contextmanager
def fake_process(plan: Plan | None = None, *, port: int = 0) -> Iterator[ServerProcess]:
    """Start a server that does not end with the driver; stop it at the end of the block."""
    told = (plan or Plan()).model_dump_json(exclude_defaults=True)
    process = subprocess.Popen(
        [sys.executable, str(SERVER), f"port={port}", f"plan={told}"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        url = process.stdout.readline().strip()
        assert url, "the fake server did not start"
        yield ServerProcess(url, process)
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.stdout.close()
