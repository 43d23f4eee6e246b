"""The five roles, each a Protocol with one method, and the cast of one interview.

Players hold no hidden state: everything they need is in `turns`, so that an interview can be
taken up again at any turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from src.records import Answer, Assessment, Consensus, Guidance, Interview, Message, Question, Turn
from src.reports import Findings

Turns = Sequence[Turn]


class Interviewer(Protocol):
    async def ask(self, turns: Turns, guidance: Guidance) -> Question:
        """Return the next question, or the closing message where guidance says stop."""
        ...


class Patient(Protocol):
    async def reply(self, turns: Turns, question: Question) -> Answer:
        """Answer a question, knowing the turns before it."""
        ...


class Scorer(Protocol):
    async def score(self, turns: Turns) -> Assessment:
        """Rate the 21 items from what was said so far."""
        ...


class Orchestrator(Protocol):
    def guide(self, turns: Turns) -> Guidance:
        """Say what to ask next, or that the interview ends. Pure."""
        ...


class Analyst(Protocol):
    async def analyse(self, interviews: Sequence[Interview]) -> Consensus:
        """Turn the valid interviews of one subject into one answer."""
        ...


class Diagnoser(Protocol):
    async def diagnose(self, said: Sequence[Message]) -> Findings:
        """Report on what both sides of one interview could see; nothing else is known to it."""
        ...


@dataclass(frozen=True, kw_only=True)
class Cast:
    """Who plays in one interview, and when the scorer is asked."""

    subject: str
    sample: int
    seed: int
    interviewer: Interviewer
    patient: Patient
    orchestrator: Orchestrator
    scorer: Scorer | None = None
    scorer_when: Literal["turn", "end"] = "turn"
