"""The life of a launcher's servers: one after the other, all or none, and nothing left behind.

An endpoint file says `starting` at once, `ready` after a token was generated, `ended` when the
server is gone. A server that dies ends its siblings, and the command with exit code 3; an end that
was asked for, by a signal or by idleness, is nobody's fault and ends it with 0.
"""

import asyncio
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from serving import probe
from serving.jobs import Life, life_of
from serving.served import Served, first_of, say
from serving.server import ServerCommand
from serving.settings import LifecycleSettings
from src.errors import FolderError
from src.llm.endpoints import endpoint_path, read_endpoint
from src.prompts import shown

HEEDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)
LONGEST_POLL = 5.0
"""Seconds between two looks at what the servers are doing."""


class AskedToEnd(Exception):
    """Somebody or something wants the servers to end; the text says why."""


async def serve(
    commands: Sequence[ServerCommand], *, folder: Path, lifecycle: LifecycleSettings
) -> None:
    """Run servers until they are asked to end; one that died or never got ready raises.

    They start one after the other, since servers that share a card measure its free memory then.
    `folder` holds the endpoint files; one of a server that is there is a `FolderError`.
    """
    for command in commands:
        _refuse_a_second(folder, command.endpoint)
    servers = [Served(command, folder=folder, lifecycle=lifecycle) for command in commands]
    with _heeding_signals() as asked:
        try:
            for server in servers:
                server.publish("starting")
            async with asyncio.TaskGroup() as group:
                group.create_task(_until_signalled(asked))
                for before, server in zip([None, *servers], servers, strict=False):
                    group.create_task(server.live(after=before))
                if lifecycle.idle_shutdown is not None:
                    group.create_task(_until_idle(servers, lifecycle.idle_shutdown))
        except ExceptionGroup as several:
            error = first_of(several)
            if not isinstance(error, AskedToEnd):
                raise error from several
            _say_goodbye(servers, why=str(error))
        finally:
            for server in servers:  # also of those whose turn to start never came
                server.publish("ended")


def _say_goodbye(servers: Sequence[Served], *, why: str) -> None:
    late = [server.name for server in servers if not server.in_time]
    killed = f"; not in time, so killed: {', '.join(late)}" if late else ""
    say(f"{', '.join(server.name for server in servers)}: ended, {why}{killed}")


def _refuse_a_second(folder: Path, name: str) -> None:
    """Raise a `FolderError` where an endpoint's server may still be there."""
    current = read_endpoint(folder, name)
    if current is None or current.state == "ended" or life_of(current) is Life.GONE:
        return
    who = f"process {current.pid}" if current.job is None else f"job {current.job}"
    raise FolderError(
        f"{shown(endpoint_path(folder, name))}: {who} serves this ({current.state}); end it, "
        "or take another folder with endpoints=; if it is gone, delete the file"
    )


@contextmanager
def _heeding_signals() -> Iterator["asyncio.Future[str]"]:
    """Hand out what becomes the name of the first signal; further ones change nothing.

    Slurm sends them twice. What was to be ignored, as below nohup, stays ignored.
    """
    loop = asyncio.get_running_loop()
    asked: asyncio.Future[str] = loop.create_future()

    def heed(number: signal.Signals) -> None:
        if not asked.done():
            asked.set_result(f"on {number.name}")

    heeded = [number for number in HEEDED if signal.getsignal(number) is not signal.SIG_IGN]
    for number in heeded:
        loop.add_signal_handler(number, heed, number)
    try:
        yield asked
    finally:
        for number in heeded:
            loop.remove_signal_handler(number)


async def _until_signalled(asked: "asyncio.Future[str]") -> None:
    raise AskedToEnd(await asked)


async def _until_idle(servers: Sequence[Served], seconds: float) -> None:
    """Raise `AskedToEnd` once no server has had a request for so long, counted from ready."""
    for server in servers:
        await server.ready.wait()
    finished, since = -1.0, time.monotonic()
    while True:
        found = await asyncio.to_thread(_traffic, servers)
        now = time.monotonic()
        if found is None:
            pass  # nobody knows, so nobody is idle
        elif found.under_way or found.finished != finished:
            finished, since = found.finished, now
        elif now - since >= seconds:
            raise AskedToEnd(f"no request for {seconds:g} s (lifecycle.idle_shutdown)")
        await asyncio.sleep(min(LONGEST_POLL, seconds / 4))


def _traffic(servers: Sequence[Served]) -> probe.Traffic | None:
    """Return what all servers together have done and are doing; None where one does not say."""
    try:
        found = [probe.traffic(server.door) for server in servers]
    except OSError:
        return None
    known = [traffic for traffic in found if traffic is not None]
    if len(known) < len(found):
        return None
    return probe.Traffic(
        finished=sum(traffic.finished for traffic in known),
        under_way=sum(traffic.under_way for traffic in known),
    )
