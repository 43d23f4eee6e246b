"""The cue file and the lexical scorer's numbers, as strict models."""

import re
from typing import Annotated

from pydantic import Field, model_validator

from src.clinical.phrases import Phrases
from src.records import ITEMS, Item, Record

GRADES = ("denied", "mild", "moderate", "severe")
"""Names of the levels 0 to 3 in the cue file."""


class Asked(Record):
    """Words by which a question is about an item."""

    trouble: Phrases
    """A yes complains."""
    health: Phrases
    """A no complains."""
    topic: Phrases
    """The question leaves it open."""


class ItemCues(Record):
    asked: Asked
    denied: Phrases
    mild: Phrases = Field(min_length=1)
    moderate: Phrases = Field(min_length=1)
    severe: Phrases = Field(min_length=1)


class Answers(Record):
    """Beginnings of short answers."""

    yes: Phrases
    no: Phrases
    good: Phrases
    poor: Phrases
    bad: Phrases
    deflected: Phrases


class Wonder(Record):
    """Words of a question that say which answer complains, or that ask how often."""

    trouble: Phrases
    health: Phrases
    often: Phrases


class Reach(Record):
    """How far words reach, in words."""

    sentence: Annotated[int, Field(ge=1)]
    """Up to this length, frequency and duration count for every clause of a sentence."""
    reply: Annotated[int, Field(ge=1)]
    """Up to this length, the first words of a reply answer the question; longer ones say more."""


class Cues(Record):
    """The cue file, `conf/lexicon/cues.yaml`, which explains its notation."""

    reach: Reach
    words: dict[str, str]
    traps: Phrases
    resolved: Phrases
    excused: Phrases
    answers: Answers
    wonder: Wonder
    items: dict[Item, ItemCues]

    @model_validator(mode="after")
    def _whole(self) -> "Cues":
        if missing := sorted(set(range(1, ITEMS + 1)) - set(self.items)):
            raise ValueError(f"item {missing[0]} has no cues")
        used = set(re.findall(r"<([a-z]+)>", self.model_dump_json(exclude={"words"})))
        if unknown := sorted(used - set(self.words)):
            raise ValueError(f"no list of words is called <{unknown[0]}>")
        if unused := sorted(set(self.words) - used):
            raise ValueError(f"no phrase uses the list of words <{unused[0]}>")
        return self
