"""What an offline person understands of a message, from its words alone.

Neither the question's focus nor its source is looked at: a person has only what is said.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import Field

from src.records import Record

Aspect = Literal["frequency", "duration", "impact"]
ASPECTS: tuple[Aspect, ...] = ("frequency", "duration", "impact")
Line = Annotated[str, Field(min_length=2)]
Phrases = Annotated[tuple[Line, ...], Field(min_length=1)]

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*\*?")
_SHORT_IS = re.compile(r"\b(how|what|that|it|where|who|there)'s\b")
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]*")
_SHORTEST_STEM = 3
_NO_ITEM = 0
_REMEMBERED = 4096
Label = TypeVar("Label")


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case; a star at a word's end is kept."""
    return tuple(_WORD.findall(_SHORT_IS.sub(r"\1 is", text.lower().replace("\u2019", "'"))))


class PhraseBook(Generic[Label]):
    """Phrases and what they stand for, found by their first word."""

    def __init__(self, phrases: Iterable[tuple[str, Label]]) -> None:
        self._whole: dict[str, list[tuple[tuple[str, ...], Label]]] = {}
        self._stems: dict[str, list[tuple[tuple[str, ...], Label]]] = {}
        for phrase, label in phrases:
            words = words_of(phrase)
            table = self._stems if words[0].endswith("*") else self._whole
            table.setdefault(words[0].rstrip("*"), []).append((words, label))

    def at(self, words: Sequence[str], position: int) -> list[tuple[int, Label]]:
        """Return the length and label of every phrase that begins at a word."""
        word = words[position]
        known = list(self._whole.get(word, ()))
        for end in range(_SHORTEST_STEM, len(word) + 1):
            known += self._stems.get(word[:end], ())
        if not known:
            return []
        return [
            (len(phrase), label)
            for phrase, label in known
            if len(phrase) <= len(words) - position
            and all(_fits(p, w) for p, w in zip(phrase, words[position:], strict=False))
        ]

    def anywhere(self, words: Sequence[str]) -> set[Label]:
        """Return the labels of all phrases, overlapping ones included."""
        return {label for i in range(len(words)) for _, label in self.at(words, i)}

    def in_order(self, words: Sequence[str]) -> list[Label]:
        """Return labels in order of mention; where phrases overlap the longest counts."""
        found: list[Label] = []
        position = 0
        while position < len(words):
            here = self.at(words, position)
            longest = max((length for length, _ in here), default=0)
            found += [label for length, label in here if length == longest]
            position += max(longest, 1)
        return found


def _fits(pattern: str, word: str) -> bool:
    return word.startswith(pattern[:-1]) if pattern.endswith("*") else word == pattern


class Listening(Record):
    """Phrases that tell how something is asked."""

    direct: Phrases
    open: Phrases
    warm: Phrases
    asks: Phrases
    general: Phrases
    more: Phrases
    frequency: Phrases
    duration: Phrases
    impact: Phrases
    passed_over: Phrases


@dataclass(frozen=True, kw_only=True, slots=True)
class Heard:
    """What was understood of one message."""

    items: tuple[int, ...]
    """Items asked about, in order of mention."""
    mentioned: tuple[int, ...]
    """Items that only the statements around the question touch on."""
    direct: bool
    open: bool
    warm: bool
    general: bool
    aspect: Aspect | None
    more: bool

    @property
    def follows_up(self) -> bool:
        return self.more or self.aspect is not None

    @property
    def gentle(self) -> bool:
        return self.open or self.warm or self.follows_up


class Ear:
    """Understand messages, and remember what they come to (pure, so the memory is no state)."""

    def __init__(self, listening: Listening, topics: Mapping[int, Phrases]) -> None:
        cues = ((phrase, cue) for cue, phrases in listening for phrase in phrases)
        self._cues: PhraseBook[str] = PhraseBook(cues)
        raising = [(phrase, item) for item, phrases in topics.items() for phrase in phrases]
        passed = [(phrase, _NO_ITEM) for phrase in listening.passed_over]
        self._topics = PhraseBook(raising + passed)
        self.hear = lru_cache(_REMEMBERED)(self._hear)

    def _hear(self, text: str) -> Heard:
        asking: list[tuple[str, ...]] = []
        around: list[tuple[str, ...]] = []
        cues: set[str] = set()
        other_cues: set[str] = set()
        for sentence in _SENTENCE.findall(text):
            words = words_of(sentence)
            found = self._cues.anywhere(words)
            asks = "?" in sentence or "asks" in found
            (asking if asks else around).append(words)
            (cues if asks else other_cues).update(found)
        if not asking:
            asking, around, cues = around, [], other_cues
        everywhere = cues | other_cues
        items = self._items(asking)
        return Heard(
            items=items,
            mentioned=tuple(item for item in self._items(around) if item not in items),
            direct="direct" in everywhere,
            open="open" in cues,
            warm="warm" in everywhere,
            general="general" in cues,
            aspect=next((aspect for aspect in ASPECTS if aspect in cues), None),
            more="more" in cues,
        )

    def _items(self, sentences: Sequence[Sequence[str]]) -> tuple[int, ...]:
        found = (item for words in sentences for item in self._topics.in_order(words))
        return tuple(dict.fromkeys(item for item in found if item != _NO_ITEM))
