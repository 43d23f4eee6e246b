"""The guard: what a model's message must not contain, and what is said in place of one.

Words and limits stand in the rules file; only what makes a form (marks, lines, brackets) is known
here. English only.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher
from string import Template
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, StrictBool, model_validator

from src.clinical.phrases import Lexicon, Phrases
from src.clinical.text import content_words, sentences, spaced, words
from src.interview.roles import Turns
from src.interviewers.tree import Statement, Text, refuse, refuse_repeated
from src.prompts import fill, load_prompt, load_yaml
from src.records import Record
from src.settings import GuardSettings

Breach = Literal[
    "clinical_term",
    "direct_question",
    "several_questions",
    "format",
    "list",
    "too_long",
    "question_in_closing",
    "repeated_question",
    "early_end",
]
_QUOTED = re.compile(r'"[^"\n]*"|“[^”\n]*”')
_ASKS = re.compile(r"\?[!?]*[^\w?]*$")
_PART = re.compile(r"[,;:]|\s[–—-]\s|\b(?:and|or|but)\b", re.IGNORECASE)
_MARKS = re.compile(
    r"[{}\[\]`]|</?[a-z]|\*\*|__|^#+ |^-{3,}$|(?<!\w)\*[^*\n]+\s[^*\n]*\*(?!\w)", re.MULTILINE
)
_ACT = re.compile(r"\*[^*\n]+\*|\([^()\n]+\)")
_ITEMS = re.compile(r"^\s*(?:[-•*–]|\(?\d+[.)])\s", re.MULTILINE)
_INLINE_ITEMS = re.compile(r"(?:^|[\s(])1\)\s.*[\s(]2\)\s", re.DOTALL)


class Strip(Record):
    """What is taken off a message instead of asking again."""

    quotes: StrictBool
    labels: tuple[str, ...]


class Limits(Record):
    words: Annotated[int, Field(ge=1)]
    sentences: Annotated[int, Field(ge=1)]
    questions: Annotated[int, Field(ge=1)] = 1
    clauses: Annotated[int, Field(ge=1)]
    """Interrogative clauses within one question mark."""
    series: Annotated[int, Field(ge=1)]
    """Short things named one after the other in a question."""
    series_words: Annotated[int, Field(ge=1)]
    """Words of each of them, at most."""
    same: Annotated[float, Field(gt=0, le=1)]
    """Likeness of two questions from which on they are one."""
    same_words: Annotated[int, Field(ge=1)]
    """Words that carry meaning, from which on their order does not matter to that."""


class Lists(Record):
    """Phrases by their use."""

    clinical: Phrases
    direct: Phrases
    innocent: Phrases
    """Taken out before the two lists above are looked for."""
    aside: Phrases
    """Talk about the message, the task or oneself as a model."""
    question_words: Phrases
    requests: Phrases
    gestures: Phrases
    tags: Phrases
    """Ends that make a statement look like a question."""


class Rules(Lists):
    """Word lists, limits and texts of the guard."""

    strip: Strip
    limits: Limits
    labels: tuple[str, ...]
    reasons: dict[Breach, str]
    opening: Text
    questions: Annotated[tuple[Text, ...], Field(min_length=2)]
    closing: Statement

    @model_validator(mode="after")
    def _complete_and_distinct(self) -> "Rules":
        for name in get_args(Breach):
            if not self.reasons.get(name):
                refuse("the reason is missing", "reasons", name)
        refuse_repeated((text, ("questions", n)) for n, text in enumerate(self.questions))
        return self


def objection(
    template: Template, reasons: Mapping[Any, str], text: str, breaches: Iterable[str]
) -> str:
    """Return how a model is told what is wrong with its draft, a line for each breach."""
    known = {str(name): reason for name, reason in reasons.items()}
    lines = "\n".join(f"- {known[breach]}" for breach in breaches)
    return fill(template, {"draft": text.strip(), "reasons": lines})


class Guard:
    """Checks messages by the rules file; without chance and without state."""

    def __init__(self, settings: GuardSettings, *, rules: Rules | None = None) -> None:
        """Read the rules, if not given, and the text that asks again, or raise `InputError`."""
        self._rules = rules or load_yaml(settings.rules.path, Rules)
        self._again = load_prompt(settings.prompt.path, frozenset({"draft", "reasons"}))
        rules, self._lexicon = self._rules, Lexicon({})
        for name in Lists.model_fields:
            self._lexicon.add(getattr(rules, name), name)
        self.words_max = rules.limits.words
        self._label = _labelled(rules.labels, start=r"(?:^|\()\W*")
        self._stripped = _labelled(rules.strip.labels, start=r"\A\W*")

    def clean(self, text: str) -> str:
        """Return a message without the speaker's label and the quotes around all of it."""
        plain = text.strip()
        if self._rules.strip.labels:
            plain = self._stripped.sub("", plain, count=1).strip()
        inner = plain[1:-1]
        if self._rules.strip.quotes and plain[:1] + plain[-1:] in {'""', "“”", "''"}:
            return plain if plain[0] in inner or plain[-1] in inner else inner.strip()
        return plain

    def check(self, text: str, *, turns: Turns, closing: bool) -> tuple[Breach, ...]:
        """Return the names of the breaches in a message that would follow these turns."""
        limits = self._rules.limits
        plain = _QUOTED.sub(" … ", text)
        asked = [sentence for sentence in sentences(plain) if _ASKS.search(sentence)]
        real = [sentence for sentence in asked if not self._tagged(sentence)]
        terms = self._unfit(text, turns[-1].answer.text if turns else "")
        long = len(text.split()) > limits.words or len(sentences(text)) > limits.sentences
        requests = sum(self._begins("requests", sentence) for sentence in sentences(plain))
        several = max(len(real), requests) > limits.questions or any(
            self._clauses(one) > limits.clauses for one in real
        )
        holds: dict[Breach, bool] = {
            "clinical_term": "clinical" in terms,
            "direct_question": "direct" in terms,
            "several_questions": several and not closing,
            "format": self._formatted(text),
            "list": self._lists(text, asked),
            "too_long": long,
            "question_in_closing": closing and bool(asked or requests),
            "repeated_question": not closing and self._repeats(real or sentences(plain), turns),
        }
        return tuple(name for name, held in holds.items() if held)

    def objection(self, text: str, breaches: tuple[str, ...]) -> str:
        """Return what is said to a model whose draft may not be sent."""
        return objection(self._again, self._rules.reasons, text, breaches)

    def safe_line(self, turns: Turns, *, closing: bool) -> str:
        """Return a line that suits any conversation, and that this one has not had yet."""
        if closing:
            return self._rules.closing
        if not turns:
            return self._rules.opening
        said = Counter(turn.question.text for turn in turns)
        fit = [
            line
            for line in self._rules.questions
            if not said[line] and not self.check(line, turns=turns, closing=False)
        ]
        return fit[0] if fit else min(self._rules.questions, key=said.__getitem__)

    def _begins(self, name: str, text: str) -> bool:
        return any(not match.start() for _, match in self._lexicon.find(spaced(text), name))

    def _unfit(self, text: str, reply: str) -> set[int | str]:
        """Return the lists with a word in the message, unless it gives back the person's own."""
        own = self._without_innocent(reply)
        return {
            cue.value
            for sentence in sentences(text)
            for cue, _ in self._lexicon.find(self._without_innocent(sentence), "clinical", "direct")
            if _ASKS.search(sentence) or not cue.pattern.search(own)
        }

    def _without_innocent(self, text: str) -> str:
        plain = spaced(text)
        for cue, _ in self._lexicon.find(plain, "innocent"):
            plain = cue.pattern.sub("… ", plain)
        return plain

    def _tagged(self, sentence: str) -> bool:
        """Say whether only a tag at the end makes a question of a statement."""
        tail = spaced(sentence.rpartition(",")[2])
        return any(match.group() == tail for _, match in self._lexicon.find(tail, "tags"))

    def _clauses(self, sentence: str) -> int:
        return sum(self._begins("question_words", part) for part in _PART.split(sentence))

    def _formatted(self, text: str) -> bool:
        if not words(text) or _MARKS.search(text) or self._label.search(text):
            return True
        acts = any(self._begins("gestures", act.strip("*()")) for act in _ACT.findall(text))
        return acts or any(True for _ in self._lexicon.find(spaced(text), "aside"))

    def _lists(self, text: str, asked: list[str]) -> bool:
        if len(_ITEMS.findall(text)) > 1 or text.count("•") > 1 or _INLINE_ITEMS.search(text):
            return True
        return any(self._series(one) > self._rules.limits.series for one in asked)

    def _repeats(self, said: list[str], turns: Turns) -> bool:
        earlier = [one for turn in turns for one in _questions(turn.question.text)]
        return any(self._same(one, other) for one in said for other in earlier)

    def _same(self, one: str, other: str) -> bool:
        """Compare what two questions are about, and unless that says much, how they are put."""
        limits = self._rules.limits
        a, b = _topics(one), _topics(other)
        if len(a & b) < limits.same * len(a | b):
            return False
        wording = SequenceMatcher(None, words(one), words(other), autojunk=False).ratio()
        return min(len(a), len(b)) >= limits.same_words or wording >= limits.same

    def _series(self, sentence: str) -> int:
        """Return how many short things a question names in a row."""
        limits = self._rules.limits
        longest = run = 0
        for part in filter(str.strip, _PART.split(sentence)):
            if self._begins("question_words", part):
                run = 0
                continue
            run += 1
            short = len(part.split()) <= limits.series_words
            longest = max(longest, run if short or run > 1 else 0)
            run = run if short else 0  # a longer part may end a series, no more
        return longest


def _questions(text: str) -> list[str]:
    """Return the questions in a message, or its sentences where it has none."""
    parted = sentences(_QUOTED.sub(" … ", text))
    return [one for one in parted if _ASKS.search(one)] or parted


def _topics(question: str) -> set[str]:
    return {word.removesuffix("s") for word in content_words(question)}


def _labelled(labels: tuple[str, ...], *, start: str) -> re.Pattern[str]:
    names = "|".join(map(re.escape, labels))
    return re.compile(rf"{start}(?:{names})(?: \d+)?\W{{0,3}}:", re.IGNORECASE | re.MULTILINE)
