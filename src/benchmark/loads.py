"""Loads that need no interview: a closed loop, and how much of something was under way when."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

Span = tuple[float, float]
"""Beginning and end, in seconds."""


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
