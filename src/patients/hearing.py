"""What the rule-based patients of cases understand of a message, whatever they have to tell.

By phrases alone, `conf/cases/hearing.yaml`; English only.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Annotated, Literal, get_args

from pydantic import Field

from src.patients.lines import Phrases, Wordings, each
from src.patients.listening import PhraseBook, plain
from src.patients.profiles import DenialDomain, Fact
from src.prompts import load_yaml
from src.records import Record

Cue = Literal["asks", "closed", "open", "more", "safe", "greeting", "closing", "terse"]
Line = Literal[
    "greetings", "farewell", "as_said", "that_is_all", "withheld", "unsure", "no_again", "safe"
]
Subject = Literal["course", "function", "history", "family", "treatment"]
Area = DenialDomain | Subject
TROUBLES = frozenset(get_args(DenialDomain)) - {"other"}
"""Areas that one can be free of; no phrase stands for `other`."""
AREAS = TROUBLES | frozenset(get_args(Subject))
_ENDS = str.maketrans({"؟": "?", "!": ".", "\n": ".", "…": "."})
_REMEMBERED = 4096


@dataclass(frozen=True, kw_only=True)
class Heard:
    """What is understood of one message."""

    asking: str
    """Words of the sentences that ask, a stroke between."""
    words: str
    """All its words."""
    cues: frozenset[Cue]
    areas: tuple[Area, ...]
    """Areas asked about, in order of mention."""
    mentioned: tuple[Area, ...]
    """Areas that come up at all."""


class Hearing(Record):
    """What these patients listen for, and say where a profile has no words for it."""

    facts_max: Annotated[int, Field(ge=1, strict=True)]
    second: Annotated[float, Field(ge=0, le=1)]
    early: Annotated[int, Field(ge=1, strict=True)]
    trust_after: Annotated[int, Field(ge=1, strict=True)]
    listening: Annotated[dict[Cue, Phrases], each("cue", get_args(Cue))]
    areas: Annotated[dict[Area, Phrases], each("area", AREAS)]
    lines: Annotated[dict[Line, Wordings], each("line", get_args(Line))]

    @cached_property
    def _books(self) -> tuple[PhraseBook[Area], dict[Cue, PhraseBook[Cue]]]:
        cues = {cue: PhraseBook([(cue, phrases)]) for cue, phrases in self.listening.items()}
        return PhraseBook(self.areas.items()), cues

    @cached_property
    def hear(self) -> Callable[[str], Heard]:
        """What a message is understood as (remembered: it depends on the words alone)."""
        return lru_cache(_REMEMBERED)(self._heard)

    def says(self, cue: Cue, text: str) -> bool:
        """Whether one of a cue's phrases stands in a text."""
        return bool(self._books[1][cue].find(plain(text)))

    def areas_of(self, fact: Fact) -> frozenset[str]:
        """Return the areas that a fact belongs to: its kind, and the troubles its topics name."""
        heard = {area for topic in fact.topics for area in self._books[0].find(plain(topic))}
        return frozenset({fact.kind} & AREAS | heard & TROUBLES)

    def _heard(self, text: str) -> Heard:
        areas, cues = self._books
        said = [(plain(one), "?" in one) for one in _sentences(text)]
        words = " / ".join(one for one, _ in said if one)
        asking = " / ".join(one for one, asks in said if one and (asks or cues["asks"].find(one)))
        return Heard(
            asking=asking,
            words=words,
            cues=frozenset(cue for cue, book in cues.items() if book.find(asking or words)),
            areas=tuple(dict.fromkeys(areas.find(asking))),
            mentioned=tuple(dict.fromkeys(areas.find(words))),
        )


load_hearing = partial(load_yaml, model=Hearing)


def named(topics: Iterable[str], words: str) -> int:
    """Return how many letters of the words are topics (both of them plain) that begin a word."""
    return sum(len(topic) for topic in topics if f" {topic}" in f" {words}")


def _sentences(text: str) -> list[str]:
    return text.translate(_ENDS).replace("?", "?.").split(".")
