"""Small real players for tests: each does one thing, and counts what it is asked."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from src.errors import PatientFailed, ScorerFailed
from src.interview.roles import Cast
from src.records import (
    ITEMS,
    Answer,
    Assessment,
    Call,
    Guidance,
    Question,
    StopReason,
    SymptomScore,
    Turn,
)


def level(score: int, confidence: float = 0.5) -> Assessment:
    """Return 21 items at one level."""
    return Assessment(symptoms=(SymptomScore(score=score, confidence=confidence),) * ITEMS)


@dataclass
class Asker:
    """Numbers its questions; closes politely."""

    asked: int = 0

    async def ask(self, turns: Sequence[Turn], guidance: Guidance) -> Question:
        self.asked += 1
        text = "Thank you." if guidance.stop else f"Question {len(turns) + 1}?"
        return Question(text=text, source="fixed")


@dataclass
class Answerer:
    """Answers; at the turns in `fails` it fails, in its first so many tries."""

    fails: dict[int, int] = field(default_factory=dict)
    error: type[Exception] = PatientFailed
    pause: float = 0.0

    async def reply(self, turns: Sequence[Turn], question: Question) -> Answer:
        await asyncio.sleep(self.pause)
        number = len(turns) + 1
        if self.fails.get(number, 0) > 0:
            self.fails[number] -= 1
            raise self.error("no usable answer")
        return Answer(text=f"Answer to {question.text}")


@dataclass
class Rater:
    """Rates every item 1; fails on the calls in `fails` (1 = the first)."""

    fails: frozenset[int] = frozenset()
    calls: int = 0

    async def score(self, turns: Sequence[Turn]) -> Assessment:
        self.calls += 1
        if self.calls in self.fails:
            raise ScorerFailed("not this time")
        return level(1)


@dataclass
class Budget:
    """Stops after so many turns."""

    turns: int
    closing: bool = False

    def guide(self, turns: Sequence[Turn]) -> Guidance:
        stop = StopReason.MAX_MESSAGES if len(turns) >= self.turns else None
        return Guidance(text="", stop=stop, closing=self.closing)


class NoBook:
    """Where no call is ever written down."""

    def asked(self, role: str, turn: int) -> None:
        raise AssertionError(f"{role} asked a model on turn {turn}")

    async def delivered(self, turn: int, call: Call) -> None:
        raise AssertionError(f"{call.role} was answered on turn {turn}")


def cast(
    *,
    turns: int = 4,
    closing: bool = False,
    sample: int = 1,
    patient: Answerer | None = None,
    scorer: Rater | None = None,
    subject: str = "persona-07",
) -> Cast:
    """Return a cast of doubles."""
    return Cast(
        subject=subject,
        sample=sample,
        seed=sample,
        interviewer=Asker(),
        patient=patient or Answerer(),
        orchestrator=Budget(turns, closing),
        scorer=scorer or Rater(),
    )
