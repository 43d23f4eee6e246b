"""Who the offline persons are, how they behave, and what they say: the files' records.

A file that is malformed ends in one line with its place.
"""

from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from src.clinical.bdi import SENSITIVE
from src.errors import InputError
from src.patients.listening import ASPECTS, Aspect, Ear, Line, Listening, Phrases
from src.prompts import load_yaml
from src.records import ITEMS, Item, Record, Score

Manner = Literal["open", "deflecting", "somatising", "talkative", "terse"]
Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, strict=True)]
Wordings = Annotated[tuple[Line, ...], Field(min_length=3)]

INCREASING = frozenset({16, 18})
"""Sleep and appetite, of which there may also be too much."""
_REMEMBERED = 4096


class Person(Record):
    """One invented person."""

    number: Annotated[int, Field(ge=1, strict=True)]
    name: Line
    age: Annotated[int, Field(ge=18, le=110, strict=True)]
    circumstance: Line
    manner: Manner
    inconsistency: Share
    """Share of items that come out otherwise in another conversation."""
    truth: Annotated[tuple[Score, ...], Field(min_length=ITEMS, max_length=ITEMS)]
    """Levels in BDI-II order."""
    volunteers: tuple[Item, ...]
    """Items never asked about that may come up once there is trust."""
    increasing: tuple[Item, ...] = ()
    """Of sleep and appetite, what has become more, not less."""
    asides: Annotated[tuple[Line, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _items_fit(self) -> "Person":
        for item in self.increasing:
            if item not in INCREASING:
                raise ValueError(f"item {item} does not increase; 16 and 18 may")
        for item in self.volunteers:
            if item not in SENSITIVE or not self.truth[item - 1]:
                raise ValueError(f"item {item} cannot be volunteered: asked about, or level 0")
        return self

    @property
    def total(self) -> int:
        return sum(self.truth)


class Persons(Record):
    """The persons of one file."""

    persons: Annotated[tuple[Person, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _numbered(self) -> "Persons":
        for place, person in enumerate(self.persons, 1):
            if person.number != place:
                raise ValueError(f"person {place} has the number {person.number}")
        return self

    def person(self, number: int) -> Person:
        """Return a person by number; an unknown one is an `InputError`."""
        if not 1 <= number <= len(self.persons):
            raise InputError(f"no offline person {number}: there are 1 to {len(self.persons)}")
        return self.persons[number - 1]


class ItemLines(Record):
    """The words that raise an item, and what is said of it at each level."""

    listens_for: Phrases
    lines: dict[Score, Wordings]
    increase: dict[Score, Wordings] = Field(default_factory=dict)
    """Levels 1 to 3 of those who have more of it, not less."""

    @model_validator(mode="after")
    def _every_level(self) -> "ItemLines":
        for level in range(4):
            if level not in self.lines:
                raise ValueError(f"level {level} has no wording")
        if self.increase and set(self.increase) != {1, 2, 3}:
            raise ValueError("increase needs wordings for the levels 1, 2 and 3")
        return self

    def wordings(self, level: int, *, increasing: bool = False) -> tuple[str, ...]:
        """Return what is said at a level."""
        return self.increase[level] if increasing and level else self.lines[level]


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
            for table in (known.lines, known.increase)
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

    def _said(self, text: str) -> tuple[tuple[int, int], ...]:
        found = [
            (text.index(line), item, level) for item, level, line in self.spoken if line in text
        ]
        return tuple((item, level) for _, item, level in sorted(found))


class Habits(Record):
    """What a manner comes to."""

    answers: Annotated[int, Field(ge=1, strict=True)]
    """Topics answered of those stacked in one message."""
    leaks: Count
    """Symptoms let slip when asked how things are."""
    extra: Share
    """Chance of one more symptom when asked openly and warmly (talkative: however asked)."""
    aside: Share
    """Chance of something quite different."""
    volunteers: Share
    """Chance per trusting turn of saying something private."""


class MannerHabits(Record):
    """The habits of each manner."""

    open: Habits
    deflecting: Habits
    somatising: Habits
    talkative: Habits
    terse: Habits

    def of(self, manner: Manner) -> Habits:
        habits: Habits = getattr(self, manner)
        return habits


class Thresholds(Record):
    """The chances and limits that all persons share."""

    closed_understates: Share
    deflects: Share
    lead_in: Share
    inconsistent_downward: Share
    inconsistent_leap: Share
    trust_after: Count
    manners: MannerHabits


def load_persons(path: str | Path) -> Persons:
    """Return the persons of a file; a malformed one is an `InputError` of one line."""
    return load_yaml(path, Persons)


def load_lines(path: str | Path) -> Lines:
    """Return what persons hear and say; a malformed file is an `InputError` of one line."""
    return load_yaml(path, Lines)
