"""What was proved of a server of ours: once for each of its starts, however many runs begin."""

import asyncio
import fcntl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from src.llm.endpoints import Endpoint
from src.records import sha256_of

LOOKS_AGAIN = 0.1
"""Seconds between two tries to lock. A lock waited for in a thread would keep a run from ending."""


@dataclass(frozen=True, kw_only=True)
class Check:
    """One thing to prove of a server."""

    what: str
    """What holds if it does not fail; the same text, the same check."""
    endpoint: Endpoint | None
    act: Callable[[], Awaitable[str | None]]
    """Raises `ServerError` where it does not hold; returns a warning where runs go on without."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """How a check that did not fail came out."""

    before: bool = False
    """Whether it held before, and was not made."""
    warning: str | None = None


class Proofs:
    """What was proved of a server since it was started, beside its endpoint file.

    One empty file a proof, so that many runs may write at once; one that cannot be written or read
    is made anew.
    """

    def __init__(self, folder: Path) -> None:
        """Take the folder of the endpoint files."""
        self._folder = folder

    def hold(self, check: Check) -> bool:
        return check.endpoint is not None and self._path(check.endpoint, check.what).exists()

    def note(self, check: Check) -> None:
        """Write down that it held."""
        if check.endpoint is None:
            return
        with suppress(OSError):
            path = self._path(check.endpoint, check.what)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    @asynccontextmanager
    async def alone(self, check: Check) -> AsyncIterator[None]:
        """Wait for whoever makes the same check; where nothing can be locked, go on without."""
        file = self._lock_of(check)
        if file is None:
            yield
            return
        with file:  # closing it unlocks
            await _lock(file)
            yield

    def _lock_of(self, check: Check) -> IO[bytes] | None:
        """Open a check's lock file, which stays: one that is removed could be locked twice."""
        if check.endpoint is None:
            return None
        path = self._path(check.endpoint, check.what).with_suffix(".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            return path.open("ab")
        except OSError:
            return None

    def _path(self, endpoint: Endpoint, what: str) -> Path:
        start = sha256_of(f"{endpoint.job} {endpoint.start} {endpoint.identity}")[:16]
        return self._folder / "proofs" / f"{endpoint.name}-{start}" / sha256_of(what)[:32]


async def settle(check: Check, proofs: Proofs) -> Outcome:
    """Make a check unless it held before; a `ServerError` says why it does not hold."""
    async with proofs.alone(check):
        if proofs.hold(check):
            return Outcome(before=True)
        warning = await check.act()
        if warning is None:
            proofs.note(check)
        return Outcome(warning=warning)


async def prove(found: Iterable[Check], proofs: Proofs) -> list[str]:
    """Make each check that did not hold before; return warnings, raise the first `ServerError`."""
    outcomes = [await settle(check, proofs) for check in found]
    return [outcome.warning for outcome in outcomes if outcome.warning]


async def _lock(file: IO[bytes]) -> None:
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            await asyncio.sleep(LOOKS_AGAIN)
        except OSError:  # a file system without locks
            return
        else:
            return
