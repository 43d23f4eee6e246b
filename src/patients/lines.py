"""Who the offline persons are, what they listen for and what they say: the records of two files."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import cached_property, lru_cache, partial
from typing import Annotated, Literal, TypeVar, get_args

from pydantic import AfterValidator, Field, model_validator

from src.clinical.bdi import BAND_NAMES, SENSITIVE
from src.errors import InputError
from src.patients.listening import NO_ITEM, Aspect, Cue, Heard, PhraseBook, plain
from src.prompts import load_yaml
from src.records import ITEMS, Item, Record, Score

Table = TypeVar("Table", bound=Mapping[object, object])
_REMEMBERED = 4096


def each(what: str, keys: Collection[object]) -> AfterValidator:
    """Refuse a table whose keys are not these."""

    def complete(table: Table) -> Table:
        for key in (*keys, *table):
            if key not in table or key not in keys:
                raise ValueError(f"{what} {key} is {'unknown' if key in table else 'missing'}")
        return table

    return AfterValidator(complete)


Manner = Literal["open", "deflecting", "somatising", "talkative", "terse"]
Line = Annotated[str, Field(min_length=2)]
Phrases = Annotated[tuple[Line, ...], Field(min_length=1)]
Wordings = Annotated[tuple[Line, ...], Field(min_length=3)]
AllLevels = Annotated[dict[Score, Wordings], each("level", range(4))]
Present = Annotated[dict[int, Wordings], each("level", range(1, 4))]
"""What is said where there is something to tell."""
Increasing = Literal[16, 18]
"""Sleep and appetite, of which there may also be too much."""


class Person(Record):
    """One invented person."""

    number: Annotated[int, Field(ge=1, strict=True)]
    name: Line
    age: Annotated[int, Field(ge=18, le=110, strict=True)]
    circumstance: Line
    manner: Manner
    inconsistency: Annotated[float, Field(ge=0.0, le=1.0, allow_inf_nan=False)]
    """Share of items that come out otherwise in another conversation."""
    truth: Annotated[tuple[Score, ...], Field(min_length=ITEMS, max_length=ITEMS)]
    """Levels in BDI-II order."""
    volunteers: tuple[Item, ...]
    """Items never asked about that may come up once there is trust."""
    increasing: tuple[Increasing, ...] = ()
    """What has become more, not less."""
    asides: Annotated[tuple[Line, ...], Field(min_length=2)]

    @model_validator(mode="after")
    def _private_items_are_there(self) -> "Person":
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
    lines: AllLevels
    younger: AllLevels = Field(default_factory=dict)
    """The same in the words of younger people; none where all speak alike."""


class Lines(Record):
    """Everything that offline persons hear and say."""

    listening: Annotated[dict[Cue, Phrases], each("cue", get_args(Cue))]
    younger_below: Annotated[int, Field(ge=0, strict=True)]
    """Age in years from which on nobody says the younger ones' lines."""
    items: Annotated[dict[Item, ItemLines], each("item", range(1, ITEMS + 1))]
    increase: Annotated[dict[int, Present], each("item", get_args(Increasing))]
    """What those say who have more of an item, not less."""
    spelled_out: Annotated[dict[Aspect, Present], each("aspect", get_args(Aspect))]
    """How often, for how long and at what cost."""
    general: Annotated[dict[str, Wordings], each("band", BAND_NAMES)]
    """Answers to how things are, by the band of the total."""
    lead_ins: Annotated[dict[Manner, Wordings], each("manner", get_args(Manner))]
    nothing_there: Wordings
    greetings: Wordings
    bodily: Wordings
    deflections: Wordings
    refusals: Wordings
    evasions: Wordings
    cool: Wordings
    repeats: Wordings
    small_talk: Wordings
    tangents: Wordings
    opened: Wordings

    @model_validator(mode="after")
    def _no_line_twice(self) -> "Lines":
        for line, times in Counter(line for _, _, line in self.spoken).items():
            if times > 1:
                raise ValueError(f"a line stands twice: {line!r}")
        return self

    def wordings(self, person: Person, item: int, level: int) -> Wordings:
        """Return what a person says of an item at a level."""
        if level and item in person.increasing:
            return self.increase[item][level]
        known, young = self.items[item], person.age < self.younger_below
        return ((young and known.younger) or known.lines)[level]

    @cached_property
    def spoken(self) -> tuple[tuple[int, int, str], ...]:
        """Item, level and text of every line about an item."""
        return tuple(
            (item, level, line)
            for item, known in self.items.items()
            for table in (known.lines, known.younger, self.increase.get(item, {}))
            for level, wordings in table.items()
            for line in wordings
        )

    @cached_property
    def hear(self) -> Callable[[str], Heard]:
        """What a message is understood as (remembered: it depends on the words alone)."""
        raising = [(item, known.listens_for) for item, known in self.items.items()]
        topics = PhraseBook([*raising, (NO_ITEM, self.listening["passed_over"])])
        cues = {cue: PhraseBook([(cue, phrases)]) for cue, phrases in self.listening.items()}
        return lru_cache(_REMEMBERED)(lambda text: Heard(text, cues, topics))

    @cached_property
    def said(self) -> Callable[[str], tuple[tuple[int, int], ...]]:
        """The items and levels of the lines that an answer holds, in order of mention."""
        book = PhraseBook(((item, level), [line]) for item, level, line in self.spoken)
        return lru_cache(_REMEMBERED)(lambda answer: tuple(book.find(plain(answer))))


load_persons = partial(load_yaml, model=Persons)
load_lines = partial(load_yaml, model=Lines)
