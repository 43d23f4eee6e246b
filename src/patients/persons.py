"""Who the offline persons are and what their manners come to."""

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from src.clinical.bdi import SENSITIVE
from src.errors import InputError
from src.patients.lines import INCREASING, Manner
from src.patients.listening import Line
from src.prompts import load_yaml
from src.records import ITEMS, Item, Record, Score

Share = Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, strict=True)]


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


def load_persons(path: str | Path) -> Persons:
    """Return the persons of a file; a malformed one is an `InputError` of one line."""
    return load_yaml(path, Persons)
