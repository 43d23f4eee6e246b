"""One server with its endpoint file: start it, prove it, publish it, end it."""

import asyncio
import math
import os
import secrets
import signal
import socket
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from serving import probe
from serving.process import ServerProcess
from serving.server import ServerCommand
from serving.settings import LifecycleSettings
from src.errors import FolderError, ServerError, TacitError, boundary
from src.llm.endpoints import Endpoint, endpoint_path, publish, read_endpoint
from src.prompts import ROOT, shown

State = Literal["starting", "ready", "ended"]
POLL = 0.1
"""Seconds between two looks at a server that starts."""
AT_ONCE = 0.3
"""Seconds by which a signal to the whole job may reach the server before it reaches us."""
BY_SIGNAL = 128
PARALLEL = ("--tensor-parallel-size", "--pipeline-parallel-size", "--data-parallel-size")


class PortLost(ServerError):
    """Another program took the port between its choice and the server's start."""


class Served:
    """One server of a launcher, from `starting` to `ended`."""

    def __init__(
        self, command: ServerCommand, *, folder: Path, lifecycle: LifecycleSettings
    ) -> None:
        self.name = command.endpoint
        self.ready = asyncio.Event()
        self.in_time = True
        """Whether it went by itself when it was told to end."""
        self._command, self._folder, self._lifecycle = command, folder, lifecycle
        self._job = os.environ.get("SLURM_JOB_ID")
        self._start = secrets.token_hex(8)
        self._listening = lifecycle.host or (probe.EVERYWHERE if self._job else probe.HERE)
        logs = (ROOT / Path(lifecycle.logs).expanduser()).resolve()
        log = logs / f"{self.name}-{self._job or self._start}.log"
        self._process = ServerProcess(command, listening=self._listening, log=log)
        self._host = ""

    @property
    def door(self) -> probe.Door:
        """Return where this machine finds the server."""
        return self._process.door

    async def live(self, *, after: "Served | None") -> None:
        """Start, become ready, and stay until cancelled; an end of its own is a `ServerError`."""
        try:
            if after is not None:
                await after.ready.wait()
            try:
                await self._once(may_lose_its_port=True)
            except PortLost as error:
                say(f"{error}; starting again at another")
                await self._process.end(grace=self._lifecycle.grace)
                await self._once(may_lose_its_port=False)
        except ServerError:
            self.publish("ended")  # at once: its siblings may take their time
            self._show_log()
            raise
        finally:
            self.in_time = await self._process.end(grace=self._lifecycle.grace)
            self.publish("ended")

    def publish(self, state: State) -> None:
        """Write the endpoint file, unless another start has replaced it; `ended` is the last."""
        path = endpoint_path(self._folder, self.name)
        with boundary(shown(path)):
            if state != "starting":
                current = read_endpoint(self._folder, self.name)
                if current is None or current.start != self._start:
                    if state == "ready":
                        raise FolderError(f"{shown(path)}: another start has replaced this file")
                    return
                if current.state == "ended":
                    return
            publish(self._folder, self._endpoint(state))

    def _endpoint(self, state: State) -> Endpoint:
        answers = state == "ready"
        return Endpoint(
            name=self.name,
            state=state,
            host=self._host if answers else "",
            port=self.door.port if answers else 0,
            key=self.door.key if answers else "",
            job=self._job,
            pid=os.getpid(),
            node=socket.gethostname(),
            start=self._start,
            identity=self._command.identity,
            served=self._command.served,
            log=str(self._process.log),
            changed=datetime.now(UTC),
        )

    async def _once(self, *, may_lose_its_port: bool) -> None:
        await self._process.start(grace=self._lifecycle.grace)
        say(f"{self.name}: starting; its log: {shown(self._process.log)}")
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._die(may_lose_its_port=may_lose_its_port))
                group.create_task(self._become_ready())
        except ExceptionGroup as several:
            raise first_of(several) from several

    async def _die(self, *, may_lose_its_port: bool) -> None:
        code = await self._process.ended()
        await asyncio.sleep(AT_ONCE)
        if may_lose_its_port and not self.ready.is_set() and self._process.lost_its_port():
            raise PortLost(f"{self.name}: another program took port {self.door.port}")
        raise ServerError(f"{self.name}: the server {_how(code)}; {self._log_place()}")

    async def _become_ready(self) -> None:
        seconds = self._lifecycle.start_timeout
        try:
            async with asyncio.timeout(seconds):
                while True:
                    if host := await asyncio.to_thread(self._prove):
                        break
                    await asyncio.sleep(POLL)
        except TimeoutError as error:
            hint = "; where cards wait for each other, NCCL_DEBUG=INFO in its environment says more"
            raise ServerError(
                f"{self.name}: not ready after {seconds:g} s (lifecycle.start_timeout)"
                f"{hint if _cards(self._command) > 1 else ''}; {self._log_place()}"
            ) from error
        self._host = host
        self.publish("ready")
        self.ready.set()
        say(f"{self.name}: ready at {self._host}:{self.door.port}")

    def _prove(self) -> str:
        """Return the host under which it answers with what it should, empty while it does not.

        A wrong answer is a `ServerError`. Blocks for as long as the model takes.
        """
        if not probe.healthy(self.door):
            return ""
        if self._process.another_listens():  # before the key is shown to anybody
            raise PortLost(f"{self.name}: another program took port {self.door.port}")
        try:
            probe.prove(self.door, self._command.served, seconds=self._lifecycle.start_timeout)
            return probe.dialled(self.door, os.environ, listening=self._listening)
        except ServerError as error:
            raise ServerError(f"{self.name}: {error}; {self._log_place()}") from error
        except OSError:  # it does not listen yet, or is dying, which is noticed elsewhere
            return ""

    def _show_log(self) -> None:
        lines = self._process.last_lines(self._lifecycle.log_lines)
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()

    def _log_place(self) -> str:
        return f"its log: {shown(self._process.log)}"


def say(text: str) -> None:
    """Print a line at once, also into a job's file."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def first_of(several: BaseExceptionGroup[Exception]) -> Exception:
    """Return the error to tell of: one of ours, and a server's before any other."""
    found = list(_leaves(several))
    ours = [error for error in found if isinstance(error, TacitError)]
    return next((e for e in ours if isinstance(e, ServerError)), (ours or found)[0])


def _leaves(several: BaseExceptionGroup[Exception]) -> Iterator[Exception]:
    for error in several.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error


def _how(code: int) -> str:
    """Return how a process ended, from its exit code."""
    try:
        return f"was ended by {signal.Signals(code - BY_SIGNAL).name}"
    except ValueError:
        return f"ended by itself with exit code {code}"


def _cards(command: ServerCommand) -> int:
    """Return how many cards a server spans."""
    values = zip(command.argv, command.argv[1:], strict=False)
    sizes = [int(value) for flag, value in values if flag in PARALLEL and value.isdecimal()]
    return math.prod(sizes)
