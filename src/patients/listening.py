"""What an offline person understands of a message, from its words alone.

Neither the question's focus nor its source is looked at: a person has only what is said.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, Literal, TypeVar, get_args

Aspect = Literal["frequency", "duration", "impact"]
Cue = Literal["direct", "open", "warm", "asks", "general", "more", "passed_over", Aspect]
Label = TypeVar("Label")

OFFENDING = frozenset({9, 21})
"""Items that cool a person when asked about."""
_NO_ITEM = 0
_REMEMBERED = 4096
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*\*?")
_SHORT_IS = re.compile(r"\b(how|what|that|it|where|who|there)'s\b")
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]*")


def plain(text: str) -> str:
    """Return the words of a text in lower case, a blank between; a star at a word's end stays."""
    return " ".join(_WORD.findall(_SHORT_IS.sub(r"\1 is", text.lower().replace("\u2019", "'"))))


class PhraseBook(Generic[Label]):
    """Phrases and what they stand for; `word*` is any word that begins so."""

    def __init__(self, phrases: Iterable[tuple[str, Label]]) -> None:
        labels: dict[str, list[Label]] = {}
        for phrase, label in phrases:
            labels.setdefault(plain(phrase), []).append(label)
        ordered = sorted(labels, key=lambda phrase: (-len(phrase.split()), "*" in phrase))
        # The empty group behind each phrase tells which one it was, and costs nothing till then.
        ways = "|".join(re.escape(phrase).replace(r"\*", r"\S*") + "()" for phrase in ordered)
        self._pattern = re.compile(rf"(?<!\S)(?:{ways})(?!\S)")
        self._labels = [labels[phrase] for phrase in ordered]

    def find(self, words: str) -> list[Label]:
        """Return labels in order of mention; where phrases overlap the longest counts."""
        found = (match.lastindex or 0 for match in self._pattern.finditer(words))
        return [label for group in found for label in self._labels[group - 1]]


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

    @property
    def cold(self) -> bool:
        """Whether it is of the kind that is refused."""
        return self.direct or not OFFENDING.isdisjoint(self.items)


class Ear:
    """Understand messages, and remember what they come to (pure, so the memory is no state)."""

    def __init__(
        self, cues: Mapping[Cue, Sequence[str]], topics: Mapping[int, Sequence[str]]
    ) -> None:
        every = {**topics, _NO_ITEM: cues["passed_over"]}
        self._topics = PhraseBook((p, item) for item, phrases in every.items() for p in phrases)
        self._cues = {cue: PhraseBook((p, cue) for p in phrases) for cue, phrases in cues.items()}
        self.hear = lru_cache(_REMEMBERED)(self._hear)

    def _hear(self, text: str) -> Heard:
        said = [(plain(sentence), "?" in sentence) for sentence in _SENTENCE.findall(text)]
        asking = [words for words, asks in said if asks or self._is("asks", words)]
        around = [words for words, _ in said if words not in asking]
        question = " / ".join(asking or around)
        everything = " / ".join(asking + around)
        items = self._items(question)
        return Heard(
            items=items,
            mentioned=tuple(item for item in self._items(everything) if item not in items),
            direct=self._is("direct", everything),
            open=self._is("open", question),
            warm=self._is("warm", everything),
            general=self._is("general", question),
            aspect=next((one for one in get_args(Aspect) if self._is(one, question)), None),
            more=self._is("more", question),
        )

    def _is(self, cue: Cue, words: str) -> bool:
        return bool(self._cues[cue].find(words))

    def _items(self, words: str) -> tuple[int, ...]:
        return tuple(item for item in dict.fromkeys(self._topics.find(words)) if item != _NO_ITEM)
