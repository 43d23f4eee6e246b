"""hold_all(): many interviews, a limit, failures that stay with their own interview."""

import asyncio
import os
import signal
from collections.abc import Iterator

import pytest
from doubles import Answerer, cast

from src.errors import DiskError, Stopped
from src.interview.batch import Owed, StopRequest, hold_all
from src.records import Interview, Turn


class Shelf:
    """Keeps what interviews produce, and how many were under way at once."""

    def __init__(self) -> None:
        self.ended: dict[int, Interview] = {}
        self.turns: list[tuple[int, int]] = []
        self.admitted: list[int] = []

    def owed(self, sample: int, patient: Answerer | None = None, *, turns: int = 3) -> Owed:
        self.admitted.append(sample)

        async def keep_turn(turn: Turn) -> None:
            self.turns.append((sample, turn.number))

        async def keep_end(interview: Interview) -> None:
            self.ended[sample] = interview

        play = cast(sample=sample, patient=patient, turns=turns)
        return Owed(cast=play, turns=[], keep_turn=keep_turn, keep_end=keep_end)


async def run(owed: Iterator[Owed] | list[Owed], limit: int = 64, **options: float) -> None:
    stop = StopRequest()
    await hold_all(owed, interviews=limit, deadline=options.get("deadline"), stop=stop)


async def test_one_failing_sample_of_twenty_leaves_nineteen_and_one_typed_record() -> None:
    shelf = Shelf()
    failing = Answerer(fails={2: 1})
    await run([shelf.owed(n, failing if n == 5 else None) for n in range(1, 21)])
    failed = [interview for interview in shelf.ended.values() if interview.failure]
    assert len(shelf.ended) == 20
    assert [(one.sample, one.failure and one.failure.kind) for one in failed] == [
        (5, "patient_failed")
    ]
    assert len(failed[0].turns) == 1
    assert failed[0].final is None


async def test_a_defect_in_a_player_is_a_record_too() -> None:
    shelf = Shelf()
    await run([shelf.owed(1, Answerer(fails={2: 1}, error=ZeroDivisionError)), shelf.owed(2)])
    failure = shelf.ended[1].failure
    assert failure is not None
    assert failure.text == "ZeroDivisionError: no usable answer"
    assert shelf.ended[2].valid


async def test_no_more_interviews_than_the_limit_exist_at_once() -> None:
    shelf = Shelf()
    seen: list[int] = []

    def plan() -> Iterator[Owed]:
        for n in range(1, 31):
            seen.append(n - 1 - len(shelf.ended))
            yield shelf.owed(n)

    await run(plan(), limit=4)
    assert len(shelf.ended) == 30
    assert max(seen) == 3  # three others are under way when the next one is made


async def test_interviews_are_admitted_in_order() -> None:
    shelf = Shelf()
    await run((shelf.owed(n) for n in range(1, 13)), limit=3)
    assert shelf.admitted == list(range(1, 13))


async def test_an_interview_past_its_deadline_is_a_record_with_its_turns() -> None:
    shelf = Shelf()
    slow = Answerer(pause=0.05)
    await run([shelf.owed(1, slow, turns=50), shelf.owed(2)], deadline=0.2)
    failure = shelf.ended[1].failure
    assert failure is not None
    assert failure.kind == "deadline_exceeded"
    assert 1 <= len(shelf.ended[1].turns) < 50
    assert shelf.ended[2].valid


async def test_a_full_disk_ends_the_whole_run() -> None:
    shelf = Shelf()

    async def keep_turn(turn: Turn) -> None:
        raise DiskError(f"cannot keep turn {turn.number}")

    broken = shelf.owed(1)
    broken = Owed(cast=broken.cast, turns=[], keep_turn=keep_turn, keep_end=broken.keep_end)
    with pytest.raises(DiskError, match="cannot keep turn 1"):
        await run([broken, shelf.owed(2, Answerer(pause=5))])


async def test_a_signal_lets_the_turns_in_flight_finish_and_starts_no_other() -> None:
    shelf, stop = Shelf(), StopRequest()
    owed = [shelf.owed(n, Answerer(pause=0.05), turns=40) for n in range(1, 4)]
    with pytest.raises(Stopped) as stopped:
        async with asyncio.timeout(5):
            with stop.listening():
                asyncio.get_running_loop().call_later(0.12, os.kill, os.getpid(), signal.SIGTERM)
                await hold_all(owed, interviews=8, deadline=None, stop=stop)
    assert stopped.value.exit_code == 143
    assert not shelf.ended
    assert sorted(shelf.turns) == [(s, t) for s in (1, 2, 3) for t in (1, 2, 3)]


async def test_a_second_signal_does_not_wait() -> None:
    shelf, stop = Shelf(), StopRequest()
    loop = asyncio.get_running_loop()
    with pytest.raises(Stopped) as stopped:
        async with asyncio.timeout(5):
            with stop.listening():
                for delay in (0.05, 0.1):
                    loop.call_later(delay, os.kill, os.getpid(), signal.SIGINT)
                owed = [shelf.owed(1, Answerer(pause=30))]
                await hold_all(owed, interviews=8, deadline=None, stop=stop)
    assert stopped.value.exit_code == 130


async def test_a_sigterm_that_is_said_twice_still_lets_the_turns_in_flight_finish() -> None:
    shelf, stop = Shelf(), StopRequest()
    loop = asyncio.get_running_loop()
    with pytest.raises(Stopped) as stopped:
        async with asyncio.timeout(5):
            with stop.listening():
                for delay in (0.05, 0.06, 0.1):
                    loop.call_later(delay, os.kill, os.getpid(), signal.SIGTERM)
                owed = [shelf.owed(1, Answerer(pause=0.3))]
                await hold_all(owed, interviews=8, deadline=None, stop=stop)
    assert stopped.value.exit_code == 143
    assert shelf.turns == [(1, 1)]


async def test_a_second_sigterm_after_a_while_does_not_wait() -> None:
    shelf, stop = Shelf(), StopRequest(said_twice=0.1)
    loop = asyncio.get_running_loop()
    with pytest.raises(Stopped) as stopped:
        async with asyncio.timeout(5):
            with stop.listening():
                for delay in (0.05, 0.2):
                    loop.call_later(delay, os.kill, os.getpid(), signal.SIGTERM)
                owed = [shelf.owed(1, Answerer(pause=30))]
                await hold_all(owed, interviews=8, deadline=None, stop=stop)
    assert stopped.value.exit_code == 143
    assert shelf.turns == []
