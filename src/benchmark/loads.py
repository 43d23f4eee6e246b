"""Loads that need no interview: a closed loop, and how much of something was under way when."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import fmean

from src.llm.metrics import RUNNING, WORKED, metrics_of

Span = tuple[float, float]
"""Beginning and end, in seconds."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """What was seen of a server at a moment."""

    at: float
    running: float
    """Requests that it worked on, by its gauge; vLLM sets that after a step, when those whose first
    step it was are in it and those whose last it was are out."""
    could: int
    """How many it could have worked on."""
    worked: float | None = None
    """Seconds that it worked on what it has answered, ever; None: it does not tell."""


async def closed_loop(asks: Sequence[Callable[[], Awaitable[None]]], workers: int) -> None:
    """Ask everything in order, so many at once: whoever has an answer asks the next."""
    waiting = iter(asks)

    async def work() -> None:
        for ask in waiting:
            await ask()

    await asyncio.gather(*(work() for _ in range(workers)))


def at_once(spans: Sequence[Span], begin: float, end: float) -> float:
    """Return how many spans there were at a time, in the mean between two moments."""
    if end <= begin:
        return 0.0
    shared = (min(last, end) - max(first, begin) for first, last in spans)
    return sum(part for part in shared if part > 0) / (end - begin)


def cut_off(ends: Sequence[float], *, tail: float) -> float:
    """Return when all but the tail of the work was done."""
    ordered = sorted(ends)
    return ordered[min(len(ordered) - 1, int(len(ordered) * (1 - tail)))]


async def watched(
    work: Callable[[], Awaitable[object]], could: Mapping[str, Callable[[], int]], *, every: float
) -> dict[str, list[Look]]:
    """Return what was seen at each server, by its address, from before some work until after it.

    `could` says by address how many requests a server could work on at the moment.
    """
    looks: dict[str, list[Look]] = {url: [] for url in could}

    async def look() -> None:
        most, at = {url: now() for url, now in could.items()}, time.monotonic()
        pages = await asyncio.gather(*(asyncio.to_thread(metrics_of, url) for url in could))
        for url, page in zip(could, pages, strict=True):
            found = Look(at=at, running=page[RUNNING], could=most[url], worked=page.get(WORKED))
            looks[url].append(found)

    async def look_on() -> None:
        while True:
            await asyncio.sleep(every)
            await look()

    await look()
    watching = asyncio.create_task(look_on())
    try:
        await work()
    finally:
        watching.cancel()
        ended = await asyncio.gather(watching, return_exceptions=True)
    if isinstance(error := ended[0], Exception):
        raise error
    await look()
    return looks


def running(looks: Sequence[Look], spans: Sequence[Span], *, tail: float) -> float | None:
    """Return what a server's gauge showed, of what it could, from its first request to the tail.

    None: it was never seen then.
    """
    if not spans:
        return None
    begin, until = min(first for first, _ in spans), cut_off([end for _, end in spans], tail=tail)
    counted = [look for look in looks if begin <= look.at <= until and look.could]
    if not counted:
        return None
    return fmean(look.running for look in counted) / fmean(look.could for look in counted)


def worked(looks: Sequence[Look], spans: Sequence[Span], *, limit: int) -> float | None:
    """Return how long a server worked on requests, of how long it could, both over all of them.

    It could work on what was at hand, while each span lasts, but on no more than the limit.
    None: it does not tell.
    """
    before, after = looks[0].worked, looks[-1].worked
    if before is None or after is None:
        return None
    steps = sorted(chain(((first, 1) for first, _ in spans), ((last, -1) for _, last in spans)))
    could, now = 0.0, 0
    for (at, step), (later, _) in pairwise(steps):
        now += step
        could += min(limit, now) * (later - at)
    return (after - before) / could
