"""One vLLM server as a process: where it listens, its key, its log, its guard."""

import asyncio
import os
import secrets
import socket
import sys
from pathlib import Path

from serving.command_line import KEY, UNSET
from serving.jobs import last_lines
from serving.listening import another_listens
from serving.probe import LOCAL_ENTRY, Door
from serving.server import ServerCommand
from src.errors import boundary
from src.prompts import ROOT

GUARD = Path(__file__).with_name("guard.py")
SPARE = 10.0
"""Seconds beyond the grace after which a group that cannot even be killed is left behind."""
SAYING_TAKEN = ("address already in use", "errno 98")


class ServerProcess:
    """A server below its guard. Starting, ending and what it wrote; not what it is for."""

    def __init__(self, command: ServerCommand, *, listening: str, log: Path) -> None:
        self.command = command
        self.log = log
        self._listening = listening
        self._guard: asyncio.subprocess.Process | None = None
        self._began = 0
        self.door = self._new_door()

    async def start(self, *, grace: float) -> None:
        """Start the server at a free port; a log that cannot be written is a `DiskError`."""
        self.door = self._new_door()
        with boundary(str(self.log)):
            self.log.parent.mkdir(parents=True, exist_ok=True)
            log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        inherited = {key: value for key, value in os.environ.items() if key not in UNSET}
        environment = {**inherited, **self.command.environment, KEY: self.door.key}
        places = (str(ROOT), environment.get("PYTHONPATH"))  # for --middleware
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, places))
        where = ("--host", self._listening, "--port", str(self.door.port))
        try:
            self._began = os.fstat(log).st_size
            self._guard = await asyncio.create_subprocess_exec(
                *(sys.executable, "-IS", str(GUARD), f"{grace:g}"),
                *(*self.command.argv, *where),
                stdin=asyncio.subprocess.PIPE,  # its end is what tells the guard to end the server
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def ended(self) -> int:
        """Wait until nothing of the server is left; return its exit code, 128 + n by signal n."""
        assert self._guard is not None
        return await self._guard.wait()

    async def end(self, *, grace: float) -> bool:
        """End the server and all it started; return whether it went within the grace."""
        if self._guard is None or self._guard.returncode is not None:
            return True
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(grace + SPARE):
                await self._guard.wait()
        except TimeoutError:
            return False
        return asyncio.get_running_loop().time() - began < grace

    def lost_its_port(self) -> bool:
        """Return whether what it wrote since its start says that another took its port."""
        try:
            with self.log.open("rb") as file:
                file.seek(self._began)
                written = file.read().decode(errors="replace").lower()
        except OSError:
            return False
        return any(words in written for words in SAYING_TAKEN)

    def another_listens(self) -> bool:
        """Say whether somebody else is at its port, who may be told nothing."""
        assert self._guard is not None
        return another_listens(self.door.port, below=self._guard.pid)

    def last_lines(self, count: int) -> list[str]:
        return last_lines(self.log, count)

    def _new_door(self) -> Door:
        """Return where this machine will find the server: a port that is free now, a new key."""
        host = LOCAL_ENTRY.get(self._listening, self._listening)
        return Door(host=host, port=_free_port(self._listening), key=secrets.token_urlsafe(32))


def _free_port(listening: str) -> int:
    """Return a port that nobody has at the moment; whoever takes it first has it."""
    family = socket.AF_INET6 if ":" in listening else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.bind((listening, 0))
        port: int = probe.getsockname()[1]
        return port
