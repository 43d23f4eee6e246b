"""The real vLLM on this machine's processors, with stand-in personas, as a user serves it."""

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launching import MARK, SLURM, marked, until
from terminal import ROOT, program, variables

from src import config
from src.llm.endpoints import Endpoint, read_endpoint
from src.llm.servers import Servers, open_servers
from src.settings import RunSettings

NAME = "cpu"
RUN = config.read_settings("config", RunSettings, ["experiment=cpu"])
WINDOW = RUN.models["smollm2"].context
"""Tokens that prompt and answer may have together."""
START = 300.0
"""Seconds that a start may take; on a quiet machine it takes 40."""
GRACE = 60.0
"""`lifecycle.grace`: seconds that the server has for requests under way."""
IDLE = 600.0
"""Seconds after which a server ends whose tests were killed."""
API = "vllm.entrypoints.openai.api_server"
Answered = tuple[int, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Models:
    """What is served."""

    base: Path | str
    """A folder, or a repository's name."""
    adapters: Path
    choices: tuple[str, ...] = ()
    """More arguments of the launcher."""


class RealServer:
    """One endpoint behind which a server is started, ended and started anew."""

    def __init__(self, folder: Path, models: Models) -> None:
        """Take a folder for endpoint files and logs; nothing is started yet."""
        self.folder, self.endpoints = folder, folder / "endpoints"
        self.mark = secrets.token_hex(8)
        self._models = models
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the launcher and wait, as a driver would, until its server is ready."""
        told = (
            f"servers.cpu.model={self._models.base}",
            f"adapters={self._models.adapters}",
            *self._models.choices,
            f"endpoints={self.endpoints}",
            f"lifecycle.logs={self.folder / 'logs'}",
            f"lifecycle.grace={GRACE:g}",
            f"lifecycle.idle_shutdown={IDLE:g}",
        )
        outside = {key: value for key, value in variables().items() if key not in SLURM}
        with (self.folder / "launcher.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "serving.launch", f"serving={NAME}", *told],
                cwd=ROOT,
                env={**outside, MARK: self.mark},
                stdout=output,
                stderr=output,
            )  # in our process group: what ends the tests ends the server
        until(self._is_announced, seconds=60)
        wait = (f"endpoints=[{NAME}]", f"folder={self.endpoints}", f"timeout={START:g}")
        done = tacit_within(START + 30, "serving.wait", *wait)
        assert done.returncode == 0, f"{done.stderr}\n{self.printed}"

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the launcher a signal; return its exit code."""
        self.send(number)
        return self.ended()

    def send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def ended(self) -> int:
        """Return the launcher's exit code once it has ended by itself."""
        assert self._process is not None
        return self._process.wait(timeout=GRACE + 30)

    def close(self) -> None:
        """End the server if it runs, and whatever a failed test has left."""
        try:
            if self._process is not None and self._process.poll() is None:
                self.end()
        finally:
            for pid in marked(self.mark):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    @property
    def printed(self) -> str:
        """Return what the launchers have printed so far."""
        return (self.folder / "launcher.txt").read_text(encoding="utf-8", errors="replace")

    @property
    def endpoint(self) -> Endpoint:
        found = read_endpoint(self.endpoints, NAME)
        assert found is not None
        return found

    @property
    def processes(self) -> dict[int, str]:
        """Return the command lines of everything that the launchers started and that runs."""
        found = {}
        for pid in marked(self.mark):
            with suppress(OSError):
                line = Path(f"/proc/{pid}/cmdline").read_bytes()
                if line:  # a zombie has none
                    found[pid] = line.replace(b"\0", b" ").decode(errors="replace")
        return found

    @property
    def api_process(self) -> int:
        """Return the process that answers; the engine's and the worker's are below it."""
        return min(
            p for p, line in self.processes.items() if f"-m {API}" in line and not _is_guard(line)
        )

    def served(self, persona: int) -> str:
        """Return the name under which a persona's adapter is served."""
        (name,) = (n for n in self.endpoint.served if n.startswith(f"persona-{persona:02}-"))
        return name

    def ask(
        self,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        seconds: float = 170,
    ) -> Answered:
        """Return status and JSON of an answer, or of a refusal."""
        told = self.endpoint
        return ask(
            f"http://{told.host}:{told.port}{path}", body, key=key or told.key, seconds=seconds
        )

    @contextmanager
    def streaming(self, body: Mapping[str, Any]) -> Iterator[Iterator[dict[str, Any]]]:
        """Hand out an answer while it comes; its first part shows that it is under way."""
        told = self.endpoint
        url = f"http://{told.host}:{told.port}/v1/chat/completions"
        with urllib.request.urlopen(_request(url, {**body, "stream": True}, told.key)) as answer:
            lines = (line.removeprefix(b"data: ").strip() for line in answer)
            yield (json.loads(line) for line in lines if line.startswith(b"{"))

    def chat(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer to a request that has to be answered."""
        status, answer = self.ask("/v1/chat/completions", body)
        assert status == 200, answer
        return answer

    def counters(self) -> dict[str, float]:
        """Return each of vLLM's metrics, summed over its labels."""
        told = self.endpoint
        with urllib.request.urlopen(
            f"http://{told.host}:{told.port}/metrics", timeout=20
        ) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for name, value in re.findall(r"^(vllm:\w+)(?:\{.*\})? (\S+)$", text, re.MULTILINE):
            found[name] = found.get(name, 0.0) + float(value)
        return found

    @property
    def finished(self) -> float:
        """Return how many requests it has answered."""
        return self.counters().get("vllm:request_success_total", 0.0)

    @asynccontextmanager
    async def opened(self, *, endpoints: Path | None = None) -> AsyncIterator[Servers]:
        """Hand out the servers of a run of experiment=cpu, as the driver opens them."""
        async with open_servers(
            RUN.asked_models,
            RUN.models,
            remembered={},
            local_hosts=RUN.local_hosts,
            endpoints=endpoints or self.endpoints,
            adapters=True,
        ) as servers:
            yield servers

    def _is_announced(self) -> bool:
        """Whether the endpoint file is of the launcher just started, not of one before it."""
        assert self._process is not None
        assert self._process.poll() is None, self.printed
        found = read_endpoint(self.endpoints, NAME)
        return found is not None and found.pid == self._process.pid


class Running(RealServer):
    """A server that somebody else has started, for whoever writes tests."""

    def __init__(self, endpoints: Path) -> None:
        self.folder, self.endpoints = endpoints.parent, endpoints
        self.mark = secrets.token_hex(8)

    def close(self) -> None:
        """Leave it to whoever started it."""


def tacit_within(
    seconds: float, module: str, *arguments: str
) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end, killed after so many seconds."""
    return subprocess.run(
        [*program(module), *arguments], cwd=ROOT, env=variables(), capture_output=True, text=True,
        timeout=seconds, check=False,
    )  # fmt: skip


def ask(
    url: str, body: Mapping[str, Any] | None = None, *, key: str, seconds: float = 170
) -> Answered:
    """Return status and JSON of an answer, or of a refusal."""
    try:
        with urllib.request.urlopen(_request(url, body, key), timeout=seconds) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def _request(url: str, body: Mapping[str, Any] | None, key: str) -> urllib.request.Request:
    return urllib.request.Request(
        url,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
    )


def _is_guard(line: str) -> bool:
    return "guard.py" in line
