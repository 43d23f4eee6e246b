"""What an offline person understands of a message, from its words alone.

Neither the question's focus nor its source is looked at: a person has only what is said.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Generic, Literal, TypeVar, get_args

Aspect = Literal["frequency", "duration", "impact"]
Cue = Literal["direct", "open", "warm", "asks", "general", "more", "passed_over", Aspect]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
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


class Ear:
    """Understand messages, and remember what they come to (pure, so the memory is no state)."""

    def __init__(
        self, cues: Mapping[Cue, Sequence[str]], topics: Mapping[int, Sequence[str]]
    ) -> None:
        every = {**topics, _NO_ITEM: cues["passed_over"]}
        self._topics = PhraseBook((p, item) for item, phrases in every.items() for p in phrases)
        self._cues = {cue: PhraseBook((p, cue) for p in phrases) for cue, phrases in cues.items()}
        self.hear = lru_cache(_REMEMBERED)(lambda text: Heard(self, text))

    def notices(self, cue: Cue, words: str) -> bool:
        return bool(self._cues[cue].find(words))

    def topics(self, words: str) -> tuple[int, ...]:
        return tuple(item for item in dict.fromkeys(self._topics.find(words)) if item != _NO_ITEM)


class Heard:
    """What was understood of one message."""

    def __init__(self, ear: Ear, text: str) -> None:
        said = [(plain(sentence), "?" in sentence) for sentence in _SENTENCE.findall(text)]
        asking = [words for words, asks in said if asks or ear.notices("asks", words)]
        around = [words for words, _ in said if words not in asking]
        question = " / ".join(asking or around)
        everything = " / ".join(asking + around)
        self.items = ear.topics(question)
        """Items asked about, in order of mention."""
        self.mentioned = tuple(n for n in ear.topics(everything) if n not in self.items)
        """Items that only the statements around the question touch on."""
        self.direct = ear.notices("direct", everything)
        self.warm = ear.notices("warm", everything)
        self.open = ear.notices("open", question)
        self.general = ear.notices("general", question)
        self.more = ear.notices("more", question)
        self.aspect = next((one for one in ASPECTS if ear.notices(one, question)), None)
        self.follows_up = self.more or self.aspect is not None
        self.gentle = self.open or self.warm or self.follows_up
        self.cold = self.direct or not OFFENDING.isdisjoint(self.items)
        """Whether it is of the kind that is refused."""
