"""The lexical scorer: rates the 21 items from graded cues, without a model.

It counts what patients say of themselves. A cue's grade is moved by how often, how long and how
strongly; several mentions are summed up by the strongest of them. What is said without one of the
cues it does not hear.
"""

from functools import lru_cache

from src.interview.roles import Turns
from src.records import ITEMS, Assessment, SymptomScore
from src.settings import LexicalThresholds
from src.steering.cues import Cues
from src.steering.reading import VOLUNTEERED, Mention, Reader

ANHEDONIA = 4


class LexicalScorer:
    """Scores transcripts by cue lists: pure, deterministic, stateless (it remembers replies)."""

    def __init__(self, cues: Cues, thresholds: LexicalThresholds) -> None:
        self._limits = thresholds
        reader = Reader(cues, thresholds)
        # Bounded memories of pure functions: the same reply is read again after every later turn.
        self._read = lru_cache(maxsize=20_000)(reader.reply)
        self._asked = lru_cache(maxsize=20_000)(reader.question)
        self._short = lru_cache(maxsize=20_000)(reader.short)

    async def score(self, turns: Turns) -> Assessment:
        """Rate the 21 items from the patient's own words so far."""
        mentions: list[Mention] = []
        before: tuple[int, ...] = ()
        for turn in turns:
            found = self._turn(turn.question.text, turn.answer.text, before)
            mentions.extend(found)
            before = tuple(dict.fromkeys(m.item for m in found if m.level))
        symptoms = tuple(
            self._sum_up(item, [m for m in mentions if m.item == item])
            for item in range(1, ITEMS + 1)
        )
        return Assessment(symptoms=symptoms)

    def signals(self, reply: str) -> tuple[int, ...]:
        """Return the items, in order, that a single reply complains of by its own words."""
        return tuple(sorted({m.item for m in self._read(reply) if m.level}))

    def _turn(self, question: str, reply: str, before: tuple[int, ...]) -> list[Mention]:
        """Return what one reply says, knowing its question and the items of the reply before."""
        asked = self._asked(question)
        found = [m for m in self._read(reply) if m.item not in VOLUNTEERED & asked.raised]
        own = {m.item for m in found}
        topics = [(item, kind) for item, kind in asked.topics if item not in own | VOLUNTEERED]
        if asked.often and not topics and not found:
            topics = [(item, "trouble") for item in before if item not in VOLUNTEERED]
        said = self._short(reply) if 0 < len(topics) <= self._limits.topics_max else None
        if said is None:
            return found
        for item, kind in topics:
            level = said.level(kind, often=asked.often)
            if level is not None:
                sure = self._limits.tentative if said.tentative else self._limits.short
                found.append(Mention(item, level, sure, said.evidence))
        return found

    def _sum_up(self, item: int, mentions: list[Mention]) -> SymptomScore:
        if not mentions:
            return SymptomScore(score=0, confidence=0.0)
        limits = self._limits
        affirmed = sorted((m for m in mentions if m.level), key=lambda m: (-m.level, -m.confidence))
        denied = [m for m in mentions if not m.level]
        strongest = affirmed[: limits.strongest]
        score = 0
        if strongest:
            score = (2 * sum(m.level for m in strongest) + len(strongest)) // (2 * len(strongest))
            if denied and item == ANHEDONIA:
                score = min(score, limits.enjoyment_cap)
            elif len(denied) >= len(affirmed):
                score -= 1
        agreeing = affirmed if score else denied or affirmed
        sure = max(m.confidence for m in agreeing) + limits.repeated * (len(agreeing) - 1)
        if affirmed and denied:
            sure = min(sure, limits.plain)
        best = min(agreeing, key=lambda m: (abs(m.level - score), -m.confidence))
        return SymptomScore(score=score, confidence=min(sure, limits.most), evidence=best.evidence)
