"""Plain reading of what people write: sentences, clauses, words, negation, frequency, intensity.

Nothing here knows a symptom. English only, its words in `conf/lexicon/language.yaml`; clause
boundaries and negation scope are rules of thumb over words, without a parser.
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from src.prompts import load_yaml
from src.records import Record

LANGUAGE = "conf/lexicon/language.yaml"

_WORD = re.compile(r"[a-z0-9]+(?:'[a-z]+)?")
_PLAIN = str.maketrans("\u2018\u2019\u02bc`\u201c\u201d\u2013\u00a0\u2022", "''''\"\"\u2014 -")
_MARKDOWN = re.compile(r"[*_#>~]+")
_BULLETS = re.compile(r"^\s*(?:(?:-|\d+[.)])\s+)+", re.MULTILINE)
_BOUNDARY = re.compile(r"[.!?…]+[\"'”’)\]*_]*(?=\s|$)|\n+")
_LEAD = re.compile(r"^(?:\s|[-•>#]\s|\d+[.)]\s)+")
_REACH = 7
"""Words that a negation reaches forward, at most; a clause's end stops it earlier."""


def _alternatives(text: str) -> str:
    source = "|".join(part.strip() for part in text.split(";"))
    try:
        re.compile(source)
    except re.error as error:
        raise ValueError(f"no regular expression: {error}") from error
    return f"(?:{source})"


Alternatives = Annotated[str, AfterValidator(_alternatives)]
Inside = Annotated[re.Pattern[str], BeforeValidator(lambda text: rf"\b{_alternatives(text)}\b")]


class Language(Record):
    """The lists of `conf/lexicon/language.yaml`, which says what each is for."""

    stop_words: Annotated[frozenset[str], BeforeValidator(str.split)]
    contractions: dict[Inside, str]
    abbreviations: Alternatives
    acts: Alternatives
    negators: Alternatives
    cancelled: Alternatives
    unwanted: Alternatives
    strained: Alternatives
    dismissed: Alternatives
    barriers: Alternatives
    endings: Alternatives
    troubles: Alternatives
    open: Alternatives
    subjects: Alternatives
    being: Alternatives
    clause_starts: Alternatives
    joints: Alternatives
    scope_ends: Alternatives
    others: Alternatives
    frequencies: tuple[tuple[int, Inside], ...]
    low: Alternatives
    high: Alternatives
    utter: Alternatives
    lasting: Alternatives
    tentative: Alternatives
    fillers: Alternatives
    goes_on: Alternatives
    to_you: Alternatives


@cache
def language() -> Language:
    """Return the language's lists, read once; a malformed file is an `InputError`."""
    return load_yaml(LANGUAGE, Language)


@cache
def compiled(frame: str) -> re.Pattern[str]:
    """Return a pattern in which `<name>` stands for a list of the language."""
    return re.compile(re.sub(r"<([a-z_]+)>", lambda name: getattr(language(), name[1]), frame))


@lru_cache(maxsize=20_000)
def normalise(text: str) -> str:
    """Return lower-case text with straight apostrophes, no markdown, emoji or stage directions.

    Frequent long forms are contracted ("do not" to "don't") so that one spelling is matched.
    """
    stage = compiled(
        r"(?i)(?<![\w*])(?:\*(?!\*)\s*[a-z]+(?:s|ing)\b[^*\n]{0,80}\*(?!\*)|"
        r"[(\[]\s*<acts>[^)\]\n]{0,60}[)\]])"
    )
    plain = _MARKDOWN.sub("", stage.sub(" ", text.translate(_PLAIN))).lower()
    plain = "".join(c if c < "\u0250" or c in "—…" else " " for c in plain)
    return " ".join(contracted(_BULLETS.sub("", plain)).split())


def contracted(plain: str) -> str:
    """Return lower-case text with its frequent long forms contracted."""
    for long, short in language().contractions.items():
        plain = long.sub(short, plain)
    return plain


def sentences(text: str) -> list[str]:
    """Return the sentences, each an exact piece of the text, without surrounding blanks.

    An ellipsis before a lower-case word is a hesitation, not an end.
    """
    abbreviated = compiled(r"(?i)\b<abbreviations>$")
    pieces, start = [], 0
    for end in _BOUNDARY.finditer(text):
        mark, rest = end.group(), text[end.end() :].lstrip()
        hesitates = mark[:1] in ".…" and ("…" in mark or ".." in mark) and rest[:1].islower()
        if hesitates or (mark == "." and abbreviated.search(text[start : end.end()])):
            continue
        pieces.append(text[start : end.end()])
        start = end.end()
    pieces.append(text[start:])
    cut = (_LEAD.sub("", piece).strip() for piece in pieces)
    return [piece for piece in cut if _WORD.search(normalise(piece))]


def words(text: str) -> list[str]:
    """Return the lower-case words, apostrophes kept, hyphens parted."""
    return _WORD.findall(normalise(text))


def spaced(text: str) -> str:
    """Return the words, each with a blank behind, as phrases are looked for."""
    return "".join(f"{word} " for word in words(text))


def content_words(text: str) -> list[str]:
    """Return the words that carry meaning, in order: no stop words, no lone letters."""
    return [word for word in words(text) if word not in language().stop_words and len(word) > 1]


def clauses(sentence: str) -> list[str]:
    """Return the clauses of a sentence as words joined by single blanks."""
    end = compiled(r"[;:()\"]|—|\s-+\s|,\s*(?=<clause_starts>\b)|\s(?=<joints>\b)")
    return [" ".join(found) for p in end.split(normalise(sentence)) if (found := _WORD.findall(p))]


def polarity(before: str, after: str = "") -> Literal[-1, 0, 1]:
    """Say whether words around a phrase leave it affirmed (1), negated (-1) or merely named (0).

    `before` and `after` are the clause's words on either side, `before` ending in a blank.
    """
    if compiled(r"\b<unwanted> ").search(before):
        return 0
    denied = r"(?:[^ ]+ ){0,2}(?:isn't|hasn't been|wasn't|has never been|not) (?:[^ ]+ ){0,2}"
    if compiled(rf"not anymore|no more|no longer|{denied}<dismissed>").match(after):
        return -1
    scope = compiled(r"(?:^|(?<= ))<negators> (?:(?!(?:but|if|because|and) )[^ ]+ ){0,5}$")
    return -1 if scope.search(compiled(r"(?:^|(?<= ))<cancelled> ").sub("", before)) else 1


def marked_words(text: str, ignore: Sequence[str] = ()) -> list[str]:
    """Return the words of a reply in order; a negated one is written `not <word>`.

    `ignore` names turns of speech that say nothing; they end a clause.
    """
    marked = []
    end = compiled(r"[^\w\s'-]|\s-+\s|\b<scope_ends>\b")
    nothing = re.compile(rf"\b(?:{'|'.join(map(re.escape, ignore)) or '(?!)'})\b")
    for sentence in sentences(text):
        for clause in end.split(nothing.sub(".", normalise(sentence))):
            marked += _marked(_WORD.findall(clause))
    return marked


def _marked(clause: Sequence[str]) -> list[str]:
    marked: list[str] = []
    left = 0
    for n, word in enumerate(clause):
        if left and compiled("<open>").fullmatch(word):
            break
        if left and compiled("<endings>|<troubles>").fullmatch(word):
            marked.append(f"not {word}")
            left = 0
        elif _negates(clause, n):
            marked += [] if n and word == "no" else [word]  # `for no reason` is no answer
            left = _REACH
        elif n or word != "well":  # `Well, I …` says nothing
            marked.append(f"not {word}" if left else word)
            left = max(left - 1, 0)
    return marked


def _negates(clause: Sequence[str], n: int) -> bool:
    word, (after,) = clause[n], clause[n + 1 : n + 2] or ("",)
    if word == "no" and not n:
        return not compiled("<subjects>").fullmatch(after)  # `No I'm fine` answers
    if word == "used":
        return after == "to" and not (n and compiled("<being>").fullmatch(clause[n - 1]))
    if word == "little":
        return n > 0 and clause[n - 1] in {"very", "so", "too"}
    if word == "to":
        return "too" in clause[max(n - 5, 0) : n]  # `too tired to laugh`
    return bool(compiled("<negators>|<endings>").fullmatch(word))


def strained(before: str) -> bool:
    """Say whether these words make what follows an effort ("hard to", "struggle to")."""
    return bool(compiled(r"<strained> (?:for me )?(?:to )?(?:[^ ]+ ){0,2}$").search(before))


def about_other(before: str, *, otherwise: bool = False) -> bool:
    """Say whether the last subject named in these words is someone else than the speaker."""
    subject = compiled(
        r"(?:^|(?<= ))(?:((?:he|she|they|he's|she's|they're|they've)(?= )(?!.* me )|"
        r"(?:(?<=^)|(?<=and )|(?<=that )|(?<=because )|(?<=but )|(?<=while )|(?<=when )|(?<=if )|"
        r"(?<=since )|(?<=so )|(?<=like ))(?:(?:my|our|the|his|her|a|some|most|best|one|of) ){0,3}"
        r"(?:[^ ]+ )?<others>(?:'s)?(?= )(?! and i ))|(?:i|i'm|i've|i'd|i'll|me|my|myself|we)(?= ))"
    )
    subjects = subject.findall(before)
    return bool(subjects[-1]) if subjects else otherwise


def frequency(text: str) -> int | None:
    """Return how often: 1 sometimes, 2 a lot, 3 all the time; None where it is not said.

    Appendix D's mapping; a denied constancy ("not all the time") is 1.
    """
    return next((level for level, said in language().frequencies if said.search(text)), None)


def intensity(text: str) -> int:
    """Return how strongly: -1 a bit, 0 unmarked, 1 really, 2 completely."""
    steps = ((-1, "low"), (2, "utter"), (1, "high"))
    return next((step for step, name in steps if _says(name, text)), 0)


def lasting(text: str) -> bool:
    """Say whether a long duration is named: weeks or more, or no relief from rest."""
    return _says("lasting", text)


def tentative(text: str) -> bool:
    """Say whether the speaker is unsure of it."""
    return _says("tentative", text)


def _says(name: str, text: str) -> bool:
    return bool(compiled(rf"\b<{name}>\b").search(text))
