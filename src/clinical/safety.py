"""Urgent danger in what a person writes, found without a model; the second of two safety checks.

English only: for any other language the interviewer's own safety stop is the only one. The words
stand in `conf/lexicon/safety.yaml`. What is over, denied, told of others, imagined or a figure of
speech is no danger. A wish to be dead is a concern, to be explored and not to stop for, unless a
time is named; so is wanting to die, or a thought of ending one's life, where it is said to be rare,
fleeting or not to be acted on. Without that, both stop, as does a plain yes when asked. Who hurts
the speaker counts where a person is named, or where only people do such a thing. Rules of thumb
over phrases, no clinical instrument.
"""

import re
from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from src.clinical.phrases import Lexicon, Phrases
from src.clinical.text import about_other, clauses, polarity, sentences, spaced
from src.prompts import load_yaml
from src.records import Record

Kind = Literal["self_harm", "harm_to_others", "acute_medical", "abuse"]
_NAME = re.compile(r"<([a-z]+)>")
_AROUND = frozenset({"everyday", "unless"})
_HINTS = ("hints", "beside")
_SPEAKER = frozenset({"i", "i'm", "i've", "i'll", "i'd", "me", "my", "myself"})


def refuse_unknown_names(phrases: Record, names: Container[str]) -> None:
    """Raise `ValueError` where a phrase uses a name that nothing stands for."""
    for name in sorted(_NAME.findall(str(phrases.model_dump(exclude={"names"})))):
        if name not in names:
            raise ValueError(f"names: <{name}> is used and not there")


class Danger(Record):
    """What a message tells of a danger."""

    kind: Kind
    sentence: str
    urgent: bool
    """Only urgent danger stops an interview; anything else has to be asked about."""


class Told(Record):
    """Phrases of one kind of danger, by what else makes them urgent."""

    urgent: Phrases
    if_now: Phrases = ()
    """Urgent beside a word of the present or the last days, and nothing without one."""
    if_unqualified: Phrases = ()
    """A concern where rare, fleeting or not to be acted on; urgent otherwise."""
    concern: Phrases = ()
    hints: Phrases = ()
    beside: Phrases = ()
    """With a hint in the message, as many as needed in all are urgent; one alone is nothing."""
    everyday: Phrases = ()
    """Anywhere in the message, these say that its hints mean something else."""
    unless: Phrases = ()
    """Anywhere in the message, these say that it is known, harmless or feared."""


class Asked(Record):
    """Questions of the interviewer whose short answer tells of a danger."""

    urgent: Phrases = ()
    concern: Phrases = ()


class Settings(Record):
    """What takes a sentence out of the here and now, or puts it there."""

    now: Phrases
    past: Phrases
    over: Phrases
    """In the sentence after, these say that it is past."""
    renewed: Phrases
    """Beside a word of the past: it is not over."""
    aside: Phrases
    """Films, dreams, jokes, what somebody might do."""
    qualified: Phrases
    innocent: Phrases
    """Figures of speech, taken out before anything is looked for."""
    affirms: Phrases
    """Beginnings of an answer."""
    denies: Phrases


class Words(Settings):
    """`conf/lexicon/safety.yaml`."""

    names: dict[str, str]
    hints_needed: Annotated[int, Field(ge=2)]
    told: dict[Kind, Told]
    if_yes: dict[Kind, Asked]
    """Questions whose yes tells of a danger."""
    if_no: dict[Kind, Asked]
    """Questions whose no does."""

    @model_validator(mode="after")
    def _every_kind(self) -> Self:
        if missing := [kind for kind in get_args(Kind) if kind not in self.told]:
            raise ValueError(f"told: nothing is told of {missing[0]}")
        refuse_unknown_names(self, self.names)
        return self


class SafetyCheck:
    """Reads one message at a time; without chance and without state."""

    def __init__(self, path: str) -> None:
        """Read the words; a malformed file is an `InputError`."""
        words = load_yaml(path, Words)
        self._lexicon = Lexicon(words.names)
        for name in Settings.model_fields:
            self._lexicon.add(getattr(words, name), name)
        self._hints_needed = words.hints_needed
        self._told = self._added("told", words.told, Told)
        self._answers = (
            ("affirms", self._added("if_yes", words.if_yes, Asked)),
            ("denies", self._added("if_no", words.if_no, Asked)),
        )

    def danger(self, text: str, *, previous: Sequence[str] = ()) -> Danger | None:
        """Return the danger a message tells of, an urgent one before a concern.

        `previous` are the messages before it, of both sides, the last one the interviewer's.
        """
        found = [*self._in_account(text), *self._in_answer(text, previous[-1:])]
        return next((one for one in found if one.urgent), found[0] if found else None)

    def _added(
        self, name: str, lists: Mapping[Kind, Record], fields: type[Record]
    ) -> dict[str, tuple[Kind, str]]:
        """Add phrases by kind and grade; return both by the value they were added with."""
        values: dict[str, tuple[Kind, str]] = {}
        for kind, phrases in lists.items():
            for grade in fields.model_fields:
                values[value := f"{name}.{kind}.{grade}"] = kind, grade
                self._lexicon.add(getattr(phrases, grade), value)
        return {value: told for value, told in values.items() if told[1] not in _AROUND}

    def _says(self, text: str, *values: str) -> bool:
        return any(True for _ in self._lexicon.find(text, *values))

    def _in_account(self, text: str) -> Iterator[Danger]:
        """Yield what the sentences tell, one by one and, where they only hint, together."""
        whole = spaced(text)
        qualified = self._says(whole, "qualified")
        hints: dict[Kind, dict[str, str]] = {}
        for sentence in self._told_now(text):
            now = self._says(spaced(sentence), "now")
            for kind, grade, phrase in self._phrases(sentence):
                if self._says(whole, f"told.{kind}.unless") or (grade == "if_now" and not now):
                    continue
                if grade in _HINTS:
                    hints.setdefault(kind, {})[f"{grade}: {phrase}"] = sentence
                    continue
                mild = grade == "if_unqualified" and qualified and not now
                yield Danger(kind=kind, sentence=sentence, urgent=grade != "concern" and not mild)
        for kind, found in hints.items():
            first = next((found[one] for one in found if one.startswith(_HINTS[0])), None)
            meant = first is not None and not self._says(whole, f"told.{kind}.everyday")
            if first and meant and len(found) >= self._hints_needed:
                yield Danger(kind=kind, sentence=first, urgent=True)

    def _told_now(self, text: str) -> Iterator[str]:
        """Yield the sentences that are an account of something not over."""
        for sentence, after in pairwise([*sentences(text), ""]):
            plain = spaced(sentence)
            past = self._says(plain, "past") or self._says(spaced(after), "over")
            if not self._says(plain, "aside") and (not past or self._says(plain, "renewed")):
                yield sentence

    def _phrases(self, sentence: str) -> Iterator[tuple[Kind, str, str]]:
        """Yield what a sentence affirms of the speaker: kind, grade and the words."""
        earlier = ""
        for clause in clauses(sentence):
            plain = self._without_innocent(f"{clause} ")
            for cue, match in self._lexicon.find(plain, *self._told):
                before, after = plain[: match.start()], plain[match.end() :]
                own = not _SPEAKER.isdisjoint(match.group().split())
                held = cue.own_negation or polarity(before, after) > 0
                if held and (own or not about_other(earlier + before)):
                    yield *self._told[str(cue.value)], match.group()
            earlier += plain

    def _without_innocent(self, plain: str) -> str:
        for cue, _ in self._lexicon.find(plain, "innocent"):
            plain = cue.pattern.sub("… ", plain)
        return plain

    def _in_answer(self, text: str, asked: Sequence[str]) -> Iterator[Danger]:
        """Yield what a short answer takes over from the question before it."""
        parts = sentences(text)
        questions = [spaced(one) for last in asked for one in sentences(last) if "?" in one]
        if not parts or not questions:
            return
        first = spaced(parts[0])
        for answer, values in self._answers:
            begins = any(not match.start() for _, match in self._lexicon.find(first, answer))
            if not begins:
                continue
            for cue, _ in self._lexicon.find(questions[-1], *values):
                kind, grade = values[str(cue.value)]
                past = self._says(questions[-1] + first, "past")
                mild = past or self._says(spaced(text), "qualified")
                yield Danger(kind=kind, sentence=parts[0], urgent=grade == "urgent" and not mild)
