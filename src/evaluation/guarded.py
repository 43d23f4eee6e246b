"""What the guard of outgoing messages did in interviews: refused, repaired, replaced. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

from src.evaluation.sheets import Row, Sheet
from src.evaluation.tool_sheets import Held
from src.records import Interview, Question, Record

ANY = "any"
"""The row of all concerns together, in which a message counts once."""


class Guarded(Record):
    """Messages of which the guard refused a draft for one concern."""

    concern: str
    refused: int
    """All of them: repaired, stopped and safe lines together."""
    repaired: int
    """Written anew by the model, and sent."""
    stopped: int
    """Answered with the model's safety stop instead."""
    safe_lines: int
    """Replaced by a fixed line, since what was written anew was refused too, or nothing was."""


def guarded(interviews: Iterable[Interview], concerns: AbstractSet[str]) -> tuple[Guarded, ...]:
    """Return a row for each concern that was found, and first one for all of them."""
    asked = chain.from_iterable(map(_messages, interviews))
    refused = [(found, q) for q in asked if (found := concerns & {*q.flags})]
    if not refused:
        return ()
    rows = {ANY: [q for _, q in refused]}
    for concern in sorted(set().union(*(found for found, _ in refused))):
        rows[concern] = [q for found, q in refused if concern in found]
    return tuple(_row(concern, messages) for concern, messages in rows.items())


def guard_sheet(runs: Mapping[str, Held], concerns: AbstractSet[str]) -> Sheet:
    """Return the table of all runs; `concerns` are the flags that the guard sets."""
    rows: list[Row] = [
        {"run": run, **row.model_dump()}
        for run, held in runs.items()
        for row in guarded(held.interviews, concerns)
    ]
    return Sheet("guard", "Messages that the guard refused", tuple(rows))


def _messages(interview: Interview) -> Iterator[Question]:
    yield from (turn.question for turn in interview.turns)
    if interview.closing:
        yield interview.closing


def _row(concern: str, messages: Sequence[Question]) -> Guarded:
    safe = sum(q.source == "guard" for q in messages)
    stopped = sum(q.event is not None for q in messages)
    return Guarded(
        concern=concern,
        refused=len(messages),
        repaired=len(messages) - safe - stopped,
        stopped=stopped,
        safe_lines=safe,
    )
