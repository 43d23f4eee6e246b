"""What offline persons say of each item, and what else they say: the record of their lines."""

import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from src.patients.listening import ASPECTS, Aspect, Ear, Line, Listening, Phrases
from src.prompts import load_yaml
from src.records import ITEMS, Record, Score

Manner = Literal["open", "deflecting", "somatising", "talkative", "terse"]
Wordings = Annotated[tuple[Line, ...], Field(min_length=3)]

INCREASING = frozenset({16, 18})
"""Sleep and appetite, of which there may also be too much."""
_REMEMBERED = 4096
_SENTENCE_START = re.compile(r"(?:^|(?<=[.?!] ))\S+")


class ItemLines(Record):
    """The words that raise an item, and what is said of it at each level."""

    listens_for: Phrases
    lines: dict[Score, Wordings]
    younger: dict[Score, Wordings] = Field(default_factory=dict)
    """The same in the words of younger people; none where all speak alike."""
    increase: dict[Score, Wordings] = Field(default_factory=dict)
    """Levels 1 to 3 of those who have more of it, not less."""

    @model_validator(mode="after")
    def _every_level(self) -> "ItemLines":
        for table in (self.lines, self.younger):
            for level in range(4):
                if table and level not in table:
                    raise ValueError(f"level {level} has no wording")
        if self.increase and set(self.increase) != {1, 2, 3}:
            raise ValueError("increase needs wordings for the levels 1, 2 and 3")
        return self

    def wordings(self, level: int, *, younger: bool, increasing: bool) -> tuple[str, ...]:
        """Return what a person says at a level."""
        if increasing and level:
            return self.increase[level]
        return self.younger[level] if younger and self.younger else self.lines[level]


class SpelledOut(Record):
    """How often, for how long and at what cost, for levels 1 to 3."""

    frequency: dict[Score, Wordings]
    duration: dict[Score, Wordings]
    impact: dict[Score, Wordings]

    @model_validator(mode="after")
    def _every_level(self) -> "SpelledOut":
        for aspect in ASPECTS:
            if set(self.of(aspect)) != {1, 2, 3}:
                raise ValueError(f"{aspect} needs wordings for the levels 1, 2 and 3")
        return self

    def of(self, aspect: Aspect) -> dict[Score, Wordings]:
        match aspect:
            case "frequency":
                return self.frequency
            case "duration":
                return self.duration
            case "impact":
                return self.impact


class General(Record):
    """Answers to how things are, by what there is to tell."""

    well: Wordings
    mixed: Wordings
    low: Wordings


class LeadIns(Record):
    """A few words before an answer, by manner."""

    open: Wordings
    deflecting: Wordings
    somatising: Wordings
    talkative: Wordings
    terse: Wordings

    def of(self, manner: Manner) -> tuple[str, ...]:
        wordings: tuple[str, ...] = getattr(self, manner)
        return wordings


class Lines(Record):
    """Everything that offline persons hear and say."""

    listening: Listening
    younger_below: Annotated[int, Field(ge=0, strict=True)]
    """Age in years from which on nobody says the younger ones' lines."""
    items: dict[int, ItemLines]
    spelled_out: SpelledOut
    nothing_there: Wordings
    greetings: Wordings
    general: General
    bodily: Wordings
    deflections: Wordings
    refusals: Wordings
    evasions: Wordings
    cool: Wordings
    repeats: Wordings
    small_talk: Wordings
    tangents: Wordings
    lead_ins: LeadIns
    opened: Wordings

    @model_validator(mode="after")
    def _every_item(self) -> "Lines":
        for item in sorted(set(self.items) ^ set(range(1, ITEMS + 1))):
            raise ValueError(f"item {item} is {'unknown' if item in self.items else 'missing'}")
        for item in sorted(INCREASING):
            if not self.items[item].increase:
                raise ValueError(f"item {item} has no wordings for an increase")
        seen: set[str] = set()
        for _, _, line in self.spoken:
            if line in seen:
                raise ValueError(f"a line stands twice: {line!r}")
            seen.add(line)
        return self

    @cached_property
    def spoken(self) -> tuple[tuple[int, int, str], ...]:
        """Item, level and text of every line about an item."""
        return tuple(
            (item, level, line)
            for item, known in self.items.items()
            for table in (known.lines, known.younger, known.increase)
            for level, wordings in table.items()
            for line in wordings
        )

    @cached_property
    def ear(self) -> Ear:
        return Ear(self.listening, {item: known.listens_for for item, known in self.items.items()})

    @cached_property
    def said(self) -> Callable[[str], tuple[tuple[int, int], ...]]:
        """The items and levels of the lines that an answer holds, in order of mention."""
        return lru_cache(_REMEMBERED)(self._said)

    @cached_property
    def _by_first_word(self) -> dict[str, list[tuple[int, int, str]]]:
        found: dict[str, list[tuple[int, int, str]]] = {}
        for item, level, line in self.spoken:
            found.setdefault(line.split()[0], []).append((item, level, line))
        return found

    def _said(self, text: str) -> tuple[tuple[int, int], ...]:
        return tuple(
            (item, level)
            for start in _SENTENCE_START.finditer(text)
            for item, level, line in self._by_first_word.get(start.group(), ())
            if text.startswith(line, start.start())
        )


def load_lines(path: str | Path) -> Lines:
    """Return what persons hear and say; a malformed file is an `InputError` of one line."""
    return load_yaml(path, Lines)
