"""The guard of an assessment: form, and seven concerns about what an interviewer tells a person.

The concerns are those of AISC (PsyCIDRA, Appendix C.4). Words stand in the rules file, and they are
English: in any other language only marks, codes, length and the number of questions are looked at.
"""

import re
from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, StringConstraints, model_validator

from src.clinical.phrases import Cue, Lexicon, Phrases
from src.clinical.safety import SafetyCheck, refuse_unknown_names
from src.clinical.text import polarity, sentences, spaced, words
from src.interview.roles import Turns
from src.interviewers.guard import Breach, Guard, Limits, Rules, Strip, objection
from src.prompts import load_prompt, load_yaml
from src.records import Record
from src.settings import GuardSettings

Concern = Literal[
    "diagnosis",
    "treatment",
    "tone",
    "unanswered_crisis",
    "human_claim",
    "boundary",
    "data_request",
]
_SCREENING = frozenset({"clinical_term", "direct_question", "early_end"})
"""Breaches that an assessment doesn't know: it may speak of illness, and its budget ends it."""
GUARDED = frozenset((*get_args(Breach), *get_args(Concern))) - _SCREENING
"""Flags of a message of which a draft was refused."""
ENGLISH = "en"
_CODE = re.compile(r"\b6[A-E]\d[0-9A-Z](?:\.\w{1,2})?\b")
_QUOTED = re.compile(r'"[^"\n]*"|“[^”\n]*”|«[^»\n]*»')
_QUESTION = re.compile(r"[?؟]")
_MARKS = re.compile(r"[{}\[\]`<>]|\*\*|^#+ |^\s*(?:[-•*]|\d+[.)])\s", re.MULTILINE)

Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class AssessmentTexts(Record):
    """What the person reads that no model wrote, `prompts/assessment/<language>.yaml`."""

    name: Line
    """The language's, as prompts say it."""
    greeting: Line
    closing: Line
    safety: Line
    """Stands where an interview was stopped for someone's safety; nothing follows it."""
    participant_stop: Line
    """Answers a person who wants to end."""
    wishes: Phrases = ()
    """How a person asks for that; English alone is looked for."""
    concern_line: Line
    """A safe line behind a message that tells of danger."""
    safe_lines: Annotated[tuple[Line, ...], Field(min_length=4)]


def load_texts(language: str) -> AssessmentTexts:
    """Return the texts of a language; without a file for it, an `InputError`."""
    return load_yaml(f"prompts/assessment/{language}.yaml", AssessmentTexts)


class Sought(Record):
    """Phrases of one concern."""

    phrases: Phrases
    opens: Phrases = ()
    """A concern at the beginning of a sentence."""
    named: Phrases = ()
    """A concern in a statement, unless the person used the word."""
    own: Phrases = ()
    """A concern, denied or not, unless the sentence asks and the person used the last word."""
    unless: Phrases = ()
    """Anywhere in the sentence, these say that it is none."""


class AssessmentRules(Record):
    """`prompts/assessment_rules.yaml`."""

    strip: Strip
    limits: Limits
    labels: tuple[str, ...]
    aside: Phrases
    question_words: Phrases
    requests: Phrases
    gestures: Phrases
    tags: Phrases
    names: dict[str, str]
    concerns: dict[Concern, Sought]
    innocent: Phrases
    answers: Phrases
    """What takes up a message that tells of danger, or asks about it."""
    asks_human: Phrases
    says_yes: Phrases
    """Beginnings of a message that claim it, behind a reply that asks."""
    reasons: dict[Breach | Concern, Line]

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for name in (*get_args(Breach), *get_args(Concern)):
            if name not in self.reasons and name not in _SCREENING:
                raise ValueError(f"reasons: the reason for {name} is missing")
        if missing := [one for one in get_args(Concern) if one not in self.concerns]:
            raise ValueError(f"concerns: {missing[0]} is missing")
        refuse_unknown_names(self, self.names)
        return self


class AssessmentGuard:
    """Checks an interviewer's messages; without chance and without state."""

    def __init__(
        self,
        settings: GuardSettings,
        *,
        language: str,
        texts: AssessmentTexts,
        safety: SafetyCheck,
    ) -> None:
        """Read the rules and the text that asks again; malformed ones are an `InputError`."""
        rules = load_yaml(settings.rules.path, AssessmentRules)
        self._rules, self._texts, self._safety = rules, texts, safety
        self._again = load_prompt(settings.prompt.path, frozenset({"draft", "reasons"}))
        self._english = language == ENGLISH
        self._form = Guard(settings, rules=_form(rules))
        self._lexicon = Lexicon(rules.names)
        for concern, sought in rules.concerns.items():
            for use in Sought.model_fields:
                self._lexicon.add(getattr(sought, use), f"{concern}.{use}")
        for name in ("innocent", "answers", "asks_human", "says_yes"):
            self._lexicon.add(getattr(rules, name), name)

    def clean(self, text: str) -> str:
        """Return a message without the speaker's label and the quotes around all of it."""
        return self._form.clean(text)

    def check(self, text: str, *, turns: Turns, closing: bool) -> tuple[str, ...]:
        """Return the names of the breaches in a message that would follow these turns."""
        if not self._english:
            return tuple(self._seen_anywhere(text, closing=closing))
        form = self._form.check(text, turns=turns, closing=closing)
        return (*form, *self._concerns(text, turns))

    def objection(self, text: str, breaches: tuple[str, ...]) -> str:
        """Return what is said to a model whose draft may not be sent."""
        return objection(self._again, self._rules.reasons, text, breaches)

    def safe_line(self, turns: Turns, *, closing: bool) -> str:
        """Return the fixed line that suits the last reply and was said least."""
        if closing:
            return self._texts.closing
        if not turns:
            return self._texts.greeting
        said = Counter(turn.question.text for turn in turns)
        if self._english and self._endangered(turns) and not said[self._texts.concern_line]:
            return self._texts.concern_line
        return min(self._texts.safe_lines, key=said.__getitem__)

    def _seen_anywhere(self, text: str, *, closing: bool) -> Iterator[Breach | Concern]:
        """Yield what shows in any language."""
        limits, asked = self._rules.limits, len(_QUESTION.findall(_QUOTED.sub(" ", text)))
        if not text.strip() or _MARKS.search(text):
            yield "format"
        if len(text.split()) > limits.words:
            yield "too_long"
        if closing and asked:
            yield "question_in_closing"
        elif asked > limits.questions:
            yield "several_questions"
        if _CODE.search(text):
            yield "diagnosis"

    def _concerns(self, text: str, turns: Turns) -> tuple[Concern, ...]:
        replies = {word for turn in turns for word in words(turn.answer.text)}
        found = {
            concern
            for sentence in sentences(_QUOTED.sub(" … ", text))
            for concern in self._in_sentence(sentence, replies)
        }
        if _CODE.search(text):
            found.add("diagnosis")
        asked = bool(turns) and self._says(spaced(turns[-1].answer.text), "asks_human")
        if asked and any(
            not one.start() for _, one in self._lexicon.find(spaced(text), "says_yes")
        ):
            found.add("human_claim")
        if self._endangered(turns) and not self._says(spaced(text), "answers"):
            found.add("unanswered_crisis")
        return tuple(concern for concern in get_args(Concern) if concern in found)

    def _in_sentence(self, sentence: str, replies: set[str]) -> Iterator[Concern]:
        plain = spaced(sentence)
        for cue, _ in self._lexicon.find(plain, "innocent"):
            plain = cue.pattern.sub("… ", plain)
        asks = "?" in sentence
        for concern in self._rules.concerns:
            uses = {f"{concern}.{use}": use for use in ("phrases", "opens", "named", "own")}
            if not self._says(plain, f"{concern}.unless") and any(
                _counts(cue, match, use=uses[str(cue.value)], asks=asks, replies=replies)
                for cue, match in self._lexicon.find(plain, *uses)
            ):
                yield concern

    def _endangered(self, turns: Turns) -> bool:
        """Say whether the last reply tells of a danger or of a concern."""
        if not turns:
            return False
        last = turns[-1]
        return self._safety.danger(last.answer.text, previous=[last.question.text]) is not None

    def _says(self, text: str, value: str) -> bool:
        return any(True for _ in self._lexicon.find(text, value))


def _counts(cue: Cue, match: re.Match[str], *, use: str, asks: bool, replies: set[str]) -> bool:
    """Say whether a phrase found in a sentence is a concern, by its use."""
    theirs = match.group().split()[-1] in replies
    if use == "named":
        return not asks and not theirs
    if use == "own":
        return not (asks and theirs)
    if use == "opens" and match.start():
        return False
    return cue.own_negation or polarity(match.string[: match.start()]) > 0


def _form(rules: AssessmentRules) -> Rules:
    """Return what the guard of screening needs to look at form alone; none of its texts is said."""
    form = rules.model_dump(include=set(Rules.model_fields) - {"reasons", "innocent"})
    words = dict.fromkeys(("clinical", "direct", "innocent"), ())
    unsaid = {"opening": "Why?", "questions": ("Why?", "How?"), "closing": "Goodbye."}
    reasons = dict.fromkeys(get_args(Breach), "unsaid")
    return Rules.model_validate({**form, **words, **unsaid, "reasons": reasons})
