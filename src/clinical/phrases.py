"""The notation of cue files: phrases of words and stems with choices and gaps, found fast.

`stem*` takes any ending, `(a|b c)` one of these, `word?` and `(a|b)?` are optional, `..` is up to
four words without a negation, `n't` any word that ends so, `<name>` a list defined elsewhere.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

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


class Cue(NamedTuple):
    value: int | str
    """Grade of an item's cue, or the kind of a word."""
    item: int
    pattern: re.Pattern[str]
    own_negation: bool


class Lexicon:
    """Phrases, found through the first three letters of one word that each must contain."""

    def __init__(self, words: Mapping[str, str]) -> None:
        self._words = words
        self._index: dict[str, list[Cue]] = {}

    def add(self, phrases: Iterable[str], value: int | str, item: int = 0) -> None:
        for phrase in phrases:
            full = contracted(re.sub(r"<([a-z]+)>", lambda m: self._words[m.group(1)], phrase))
            elements = _ELEMENT.findall(full)
            source = "".join(_element(element) for element in elements)
            pattern = re.compile(r"(?:^|(?<= ))" + source)
            own = bool(compiled(r"\b<negators>\b|n't").search(full))
            cue = Cue(value, item, pattern, own)
            for key in _anchors(elements):
                self._index.setdefault(key, []).append(cue)

    def find(self, clause: str, *values: int | str) -> Iterator[tuple[Cue, re.Match[str]]]:
        """Yield every phrase in a clause that ends in a blank, or those of some values only."""
        seen: set[int] = set()
        for key in dict.fromkeys(word[:3] for word in clause.split()):
            for cue in self._index.get(key, ()):
                if id(cue) in seen or (values and cue.value not in values):
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
    return {key[:3] for key in max(usable, key=lambda keys: min(map(len, keys)))}
