"""The notation of cue files: phrases of words and stems with choices and gaps, found fast.

`stem*` takes any ending, `(a|b c)` one of these, `word?` and `(a|b)?` are optional, `..` is up to
four words without a negation, `n't` any word that ends so, `<name>` a list defined elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from src.clinical.text import compiled, contracted

_ELEMENT = re.compile(r"\([^()]*\)\??|\.\.|[^ ()]+")
_PLAIN = re.compile(r"(?:(?:[a-z0-9']+\*?|\.\.)(?: |$))+")


def _wellformed(phrase: str) -> str:
    named = re.sub(r"<[a-z]+>", "name", phrase)
    elements = _ELEMENT.findall(named)
    if " ".join(elements) != named:
        raise ValueError("malformed phrase: brackets do not pair, or stand too close")
    for element in elements:
        inner = element.rstrip("?").strip("()")
        if not all(_PLAIN.fullmatch(part) for part in inner.split("|")):
            raise ValueError(f"malformed phrase at {element!r}")
    if phrase.endswith(("..", "?")):
        raise ValueError("malformed phrase: what ends it may be left out")
    return phrase


def _parted(text: object) -> object:
    if not isinstance(text, str):
        return text
    return [" ".join(phrase.split()) for phrase in text.split(";") if phrase.strip()]


Phrases = Annotated[
    tuple[Annotated[str, AfterValidator(_wellformed)], ...], BeforeValidator(_parted)
]
"""Phrases of a cue file, written as one text, parted by semicolons."""


@dataclass(frozen=True)
class Cue:
    """One phrase of a lexicon."""

    value: int | str
    """Grade of an item's cue, or the kind of a word."""
    item: int
    source: str
    own_negation: bool

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compile when first needed: most phrases of a long list never are."""
        return re.compile(r"(?:^|(?<= ))" + self.source)


class Lexicon:
    """Phrases, found through one word that each must contain."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words
        self._index: dict[str, list[tuple[str, Cue]]] = {}
        """By the first three letters: the beginning of a word that must stand, and the phrase."""

    def add(self, phrases: Iterable[str], value: int | str, item: int = 0) -> None:
        for phrase in phrases:
            full = contracted(re.sub(r"<([a-z]+)>", lambda m: self._words[m.group(1)], phrase))
            elements = _ELEMENT.findall(full)
            source = "".join(_element(element) for element in elements)
            own = bool(compiled(r"\b<negators>\b|n't").search(full))
            cue = Cue(value, item, source, own)
            for anchor in _anchors(elements):
                self._index.setdefault(anchor[:3], []).append((anchor, cue))

    def find(self, clause: str, *values: int | str) -> Iterator[tuple[Cue, re.Match[str]]]:
        """Yield every phrase in a clause that ends in a blank, or those of some values only."""
        seen: set[int] = set()
        for word in dict.fromkeys(clause.split()):
            for anchor, cue in self._index.get(word[:3], ()):
                if not word.startswith(anchor) or id(cue) in seen:
                    continue
                if values and cue.value not in values:
                    continue
                if match := cue.pattern.search(clause):
                    seen.add(id(cue))
                    yield cue, match


def _word(word: str) -> str:
    if word == "..":
        return compiled("(?:(?!<barriers> )[^ ]+ ){0,4}").pattern
    if word == "n't":
        return "[a-z]+n't "
    return re.escape(word[:-1]) + "[a-z']* " if word.endswith("*") else re.escape(word) + " "


def _element(element: str) -> str:
    options = element.rstrip("?").strip("()").split("|")
    ways = "|".join("".join(map(_word, option.split())) for option in options)
    return f"(?:{ways})" + ("?" if element.endswith("?") else "")


def _anchors(elements: Sequence[str]) -> set[str]:
    """Return the beginnings of the longest words of an element that must stand."""
    standing = [
        [max(option.replace("*", "").split(), key=len) for option in element.strip("()").split("|")]
        for element in elements
        if element != ".." and not element.endswith("?")
    ]
    usable = [keys for keys in standing if "n't" not in keys]
    return set(max(usable, key=lambda keys: min(map(len, keys))))
