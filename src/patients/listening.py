"""What an offline person understands of a message, from its words alone.

Neither the question's focus nor its source is looked at: a person has only what is said.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Generic, Literal, TypeVar, get_args

Aspect = Literal["frequency", "duration", "impact"]
Cue = Literal["direct", "open", "warm", "asks", "general", "more", "passed_over", Aspect]
ASPECTS: tuple[Aspect, ...] = get_args(Aspect)
Label = TypeVar("Label")

OFFENDING = frozenset({9, 21})
"""Items that cool a person when asked about."""
NO_ITEM = 0
"""What looks like a topic and is none."""
_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*\*?")
_SHORT_IS = re.compile(r"\b(how|what|that|it|where|who|there)'s\b")
_SENTENCE = re.compile(r"[^.?!\n]+[.?!]*")


def plain(text: str) -> str:
    """Return the words of a text in lower case, a blank between; a star at a word's end stays."""
    return " ".join(_WORD.findall(_SHORT_IS.sub(r"\1 is", text.lower().replace("\u2019", "'"))))


class PhraseBook(Generic[Label]):
    """Phrases and what they stand for; `word*` is any word that begins so."""

    def __init__(self, meanings: Iterable[tuple[Label, Iterable[str]]]) -> None:
        labels: dict[str, list[Label]] = {}
        for label, phrases in meanings:
            for phrase in phrases:
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


class Heard:
    """What was understood of one message."""

    def __init__(
        self, text: str, cues: Mapping[Cue, PhraseBook[Cue]], topics: PhraseBook[int]
    ) -> None:
        """Take what tells how something is asked, and what raises items or `NO_ITEM`."""
        said = [(plain(sentence), "?" in sentence) for sentence in _SENTENCE.findall(text)]
        asking = [words for words, asks in said if asks or cues["asks"].find(words)]
        around = [words for words, _ in said if words not in asking]
        question = " / ".join(asking or around)
        everything = " / ".join(asking + around)
        raised = dict.fromkeys(topics.find(question))
        self.items = tuple(item for item in raised if item != NO_ITEM)
        """Items asked about, in order of mention."""
        touched = dict.fromkeys(topics.find(everything))
        self.mentioned = tuple(item for item in touched if item not in {NO_ITEM, *raised})
        """Items that only the statements around the question touch on."""
        self.direct = bool(cues["direct"].find(everything))
        self.warm = bool(cues["warm"].find(everything))
        self.open = bool(cues["open"].find(question))
        self.general = bool(cues["general"].find(question))
        self.more = bool(cues["more"].find(question))
        self.aspect = next((one for one in ASPECTS if cues[one].find(question)), None)
        self.follows_up = self.more or self.aspect is not None
        self.gentle = self.open or self.warm or self.follows_up
        self.cold = self.direct or not OFFENDING.isdisjoint(self.items)
        """Whether it is of the kind that is refused."""
