"""All samples of all subjects, as many at once as the limits allow.

Subject by subject in the order given, so that a server's cache serves one subject's samples
before the next one's; an interview that was not admitted yet costs no memory.
"""

import asyncio
import math
import signal
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from src.errors import (
    DeadlineExceeded,
    InterviewError,
    QuotaExhausted,
    ServerError,
    Stopped,
    TacitError,
)
from src.interview.loop import hold
from src.interview.roles import Cast
from src.records import Failure, Interview, Turn

SAID_TWICE = 1.0
"""Seconds within which a second SIGTERM is the first one, said twice: Slurm may send it to every
process of a job, and the job's script hands it on as well."""


@dataclass(frozen=True, kw_only=True)
class Owed:
    """One interview to hold: the turns that are finished, and where new ones are kept."""

    cast: Cast
    turns: list[Turn]
    keep_turn: Callable[[Turn], Awaitable[None]]
    keep_end: Callable[[Interview], Awaitable[None]]


class StopRequest:
    """Why the run is to end, if it is. The first signal waits for the turns in flight."""

    def __init__(self, *, said_twice: float = SAID_TWICE) -> None:
        self.signal: signal.Signals | None = None
        self._said_twice = said_twice
        self.error: TacitError | None = None
        """Something that concerns all interviews, such as an empty account."""

    def note(self, error: TacitError) -> None:
        """Note what ends the run; the others finish the turns that are paid for."""
        if not isinstance(error, Stopped):
            self.error = error

    def refuse_more(self) -> None:
        """Raise `Stopped` if a signal came, or what concerns everyone."""
        if self.error is not None:
            raise self.error
        if self.signal is not None:
            raise Stopped(self.signal)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Heed SIGINT and SIGTERM; the second one cancels what is in flight.

        A SIGTERM that follows another at once changes nothing; whoever presses Ctrl-C twice means
        it.
        """
        loop, main = asyncio.get_running_loop(), asyncio.current_task()
        assert main is not None

        first = math.inf

        def heed(number: signal.Signals) -> None:
            nonlocal first
            again = self.signal is number is signal.SIGTERM
            if self.signal is None:
                first = loop.time()
            elif not (again and loop.time() - first < self._said_twice):
                main.cancel()
            self.signal = number

        both = (signal.SIGINT, signal.SIGTERM)
        for number in both:
            loop.add_signal_handler(number, heed, number)
        try:
            yield
        except asyncio.CancelledError:
            self.refuse_more()
            raise
        finally:
            for number in both:
                loop.remove_signal_handler(number)


async def hold_all(
    owed: Iterable[Owed], *, interviews: int, deadline: float | None, stop: StopRequest
) -> None:
    """Hold every interview, at most `interviews` at once, each at most `deadline` seconds.

    A failed interview is kept as such and its siblings go on. Raises `Stopped` after a signal, and
    at once whatever concerns them all, such as a full disk.
    """
    queue = iter(owed)  # shared: each worker takes the next, so that admission is in order

    async def work() -> None:
        for job in queue:
            await _hold_one(job, deadline, stop)
            if stop.signal is not None or stop.error is not None:
                return

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(interviews):
                group.create_task(work())
    except ExceptionGroup as several:
        raise several.exceptions[0] from several
    stop.refuse_more()


async def _hold_one(job: Owed, deadline: float | None, stop: StopRequest) -> None:
    async def keep(turn: Turn) -> None:
        await job.keep_turn(turn)
        stop.refuse_more()

    try:
        async with asyncio.timeout(deadline):
            interview = await hold(job.cast, job.turns, keep)
    except (Stopped, QuotaExhausted, ServerError) as error:
        stop.note(error)
        return
    except TimeoutError:
        interview = _failed(job, DeadlineExceeded(f"not finished within {deadline:g} s"))
    except InterviewError as error:
        interview = _failed(job, error)
    except TacitError:
        raise
    except Exception as error:  # noqa: BLE001 - a defect in one interview must not end its siblings
        interview = _failed(job, InterviewError(f"{type(error).__name__}: {error}"))
    try:
        await job.keep_end(interview)  # its subject's last one is analysed at once
    except (Stopped, QuotaExhausted, ServerError) as error:
        stop.note(error)


def _failed(job: Owed, error: InterviewError) -> Interview:
    """Return the record of an interview that could not go on, with what was finished of it."""
    return Interview(
        subject=job.cast.subject,
        sample=job.cast.sample,
        seed=job.cast.seed,
        turns=tuple(job.turns),
        failure=Failure(kind=error.kind, text=str(error), transport=error.transport),
    )
