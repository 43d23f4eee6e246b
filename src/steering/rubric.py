"""The table of invented replies by which a scorer is tested, `conf/checks/rubric.yaml`."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from src.errors import InterviewError
from src.interview.roles import Scorer
from src.records import Answer, Item, Question, Score, Turn

GO_ON = "Please go on, I am listening."
"""The interviewer's line where a reply needs no question."""


class Row(BaseModel):
    """One reply and the level that one item gets for it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    item: Item
    level: Score | Literal["none"]
    """`none` = the item is not assessed."""
    either: Score | None = Field(default=None, alias="or")
    """A second level that the rule allows as well."""
    rule: Annotated[str, Field(min_length=1)]
    reply: Annotated[str, Field(min_length=1)]
    question: str = GO_ON

    @property
    def turns(self) -> tuple[Turn, ...]:
        question = Question(text=self.question, source="fixed")
        return (Turn(number=1, question=question, answer=Answer(text=self.reply)),)


class Rubric(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rows: Annotated[tuple[Row, ...], Field(min_length=1)]


class Outcome(NamedTuple):
    """What a scorer made of a row."""

    row: Row
    given: int | Literal["none", "failed"]
    reason: str = ""
    """Why it failed."""

    @property
    def right(self) -> bool:
        return self.given in {self.row.level, self.row.either}


async def outcomes(scorer_for: Callable[[int], Scorer], rubric: Rubric) -> list[Outcome]:
    """Return what the scorer of each row, by its number, makes of it; all at the same time."""

    async def one(number: int, row: Row) -> Outcome:
        try:
            symptom = (await scorer_for(number).score(row.turns))[row.item]
        except InterviewError as error:
            return Outcome(row, "failed", f" ({error})")
        return Outcome(row, symptom.score if symptom.assessed else "none")

    return list(await asyncio.gather(*(one(n, row) for n, row in enumerate(rubric.rows, 1))))


def wrong(results: list[Outcome]) -> Iterator[str]:
    """Yield a line for each row that was rated otherwise, or not at all."""
    for outcome in results:
        if not outcome.right:
            row, given, reason = outcome
            yield f"item {row.item}: {given}{reason} for {row.level} ({row.rule}): {row.reply}"
