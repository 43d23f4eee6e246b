from typing import Literal

from src.interview.roles import Turns
from src.records import ITEMS, Assessment, Item, SymptomScore
from src.settings import Settings


class KeywordSettings(Settings):
    kind: Literal["keyword"]
    words: dict[str, Item]


class KeywordScorer:
    """Raise an item by one level for every reply that holds one of its words."""

    def __init__(self, settings: KeywordSettings) -> None:
        self._words = settings.words

    async def score(self, turns: Turns) -> Assessment:
        """Rate the 21 items from the persona's own words; what no word names is not assessed."""
        symptoms = [SymptomScore(score=0, confidence=0.0)] * ITEMS
        for reply in (turn.answer.text for turn in turns):
            for item in sorted({n for word, n in self._words.items() if word in reply.lower()}):
                level = min(3, symptoms[item - 1].score + 1)
                symptoms[item - 1] = SymptomScore(score=level, confidence=0.5, evidence=reply)
        return Assessment(symptoms=tuple(symptoms))
