"""Signs of trouble in what a person says, found by phrases: present, denied or left open.

English only; rules of thumb over clauses, as elsewhere in `src.clinical.text`. A short answer takes
its topic from the question before it.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from src.clinical.icd11 import Code
from src.clinical.phrases import Lexicon, Phrases
from src.clinical.safety import refuse_unknown_names
from src.clinical.text import about_other, clauses, polarity, sentences, spaced, tentative
from src.prompts import load_yaml
from src.records import Message, Record
from src.settings.form import Positive

Line = Annotated[str, Field(min_length=1)]
SPEAKER = frozenset({"i", "i'm", "i've", "me", "my", "myself"})
"""Words within a phrase by which it is about the person, whoever else is named before."""


class Sign(Record):
    """One thing that speaks for some disorders."""

    finding: Line
    said: Phrases
    asked: Phrases = ()


class Disorder(Record):
    """What makes a candidate of a code, by its signs."""

    core: Annotated[tuple[str, ...], Field(min_length=1)]
    core_needed: Positive = 1
    also: tuple[str, ...] = ()
    needed: Positive
    """Signs in all."""
    requires: tuple[str, ...] = ()
    """Signs without which it is not even a candidate."""
    against: tuple[str, ...] = ()

    @property
    def signs(self) -> tuple[str, ...]:
        return *self.core, *self.also, *self.against


class Answers(Record):
    """Beginnings of short answers."""

    affirms: Phrases
    denies: Phrases


class Limits(Record):
    """Thresholds; `conf/lexicon/diagnosis.yaml` says what each is for."""

    words_partial: Positive
    words_sufficient: Positive
    core_points: Positive
    against_points: Positive
    margin: int
    differential_max: Positive
    settled_high: Positive
    settled_moderate: Positive


class Lines(Record):
    """What the report says in words of its own."""

    source: Line
    unheard: Line
    no_timeframe: Line
    speaks_for: Line
    speaks_against: Line
    context: Line
    presenting: Line
    nothing: Line
    told: Line
    denied: Line
    unclear: Line
    unassessed: Line
    supporting: Line
    incomplete: Line
    outweighed: Line
    duration: Line
    synthesis: Line
    withheld: Line
    intact: Line
    sufficiency: dict[Literal["sufficient", "partial", "insufficient"], Line]
    safety: dict[Literal["indicated", "not_indicated", "not_assessed"], Line]


class DiagnosisCues(Record):
    """`conf/lexicon/diagnosis.yaml`."""

    safety: Line
    names: dict[str, str]
    answers: Answers
    timeframes: Phrases
    past: Phrases
    """In a sentence, these say that what it tells is over."""
    limits: Limits
    impairment: tuple[str, ...]
    alternatives: dict[str, Line]
    lines: Lines
    signs: dict[str, Sign]
    disorders: dict[Code, Disorder]

    @model_validator(mode="after")
    def _every_name_is_there(self) -> Self:
        refuse_unknown_names(self, self.names)
        return self

    @model_validator(mode="after")
    def _every_sign_is_there(self) -> Self:
        named = {code: {*d.signs, *d.requires} for code, d in self.disorders.items()}
        named |= {"alternatives": {*self.alternatives}, "impairment": {*self.impairment}}
        for place, signs in named.items():
            if unknown := sorted(signs - self.signs.keys()):
                raise ValueError(f"{place}: no sign is called {unknown[0]}")
        if unused := sorted(self.signs.keys() - set(chain.from_iterable(named.values()))):
            raise ValueError(f"signs: nothing uses {unused[0]}")
        return self


def load_cues(path: str) -> DiagnosisCues:
    return load_yaml(path, DiagnosisCues)


class Seen(Record):
    """Where a sign came up."""

    state: Literal["present", "denied", "unclear"]
    exchange: int
    quote: str
    """A sentence of the person."""
    timeframe: str | None = None


class SignReader:
    """Reads a transcript for signs; without chance and without state."""

    def __init__(self, cues: DiagnosisCues) -> None:
        """Take the phrases in."""
        self._lexicon = Lexicon(cues.names)
        self._said = {f"said.{name}": name for name in cues.signs}
        self._asked = {f"asked.{name}": name for name in cues.signs}
        for name, sign in cues.signs.items():
            self._lexicon.add(sign.said, f"said.{name}")
            self._lexicon.add(sign.asked, f"asked.{name}")
        for value in ("timeframes", "past"):
            self._lexicon.add(getattr(cues, value), value)
        for value in ("affirms", "denies"):
            self._lexicon.add(getattr(cues.answers, value), value)

    def read(self, said: Sequence[Message]) -> dict[str, Seen]:
        """Return every sign that came up, each with what was made of it in the end."""
        found: dict[str, list[Seen]] = {}
        asked = ""
        for number, message in enumerate(said):
            if message.speaker == "interviewer":
                asked = message.text
                continue
            exchange = number // 2 + 1
            told = [*self._told(message.text, exchange)]
            touched = {name for name, _ in told}
            answered = self._answered(message.text, asked, exchange)
            for name, seen in [*told, *(one for one in answered if one[0] not in touched)]:
                found.setdefault(name, []).append(seen)
        return {name: _summed(seen) for name, seen in found.items()}

    def _told(self, text: str, exchange: int) -> Iterator[tuple[str, Seen]]:
        """Yield what the sentences affirm or deny of the person."""
        for sentence in sentences(text):
            plain = spaced(sentence)
            over = self._first(plain, "past") is not None
            timeframe = self._first(plain, "timeframes")
            earlier = ""
            for clause in clauses(sentence):
                for cue, match in self._lexicon.find(f"{clause} ", *self._said):
                    before, after = clause[: match.start()], f"{clause} "[match.end() :]
                    sense = 1 if cue.own_negation else polarity(before, after)
                    own = not SPEAKER.isdisjoint(match.group().split())
                    if not sense or (not own and about_other(earlier + before)):
                        continue
                    doubtful = over or tentative(clause)
                    yield (
                        self._said[str(cue.value)],
                        Seen(
                            state="denied" if sense < 0 else "unclear" if doubtful else "present",
                            exchange=exchange,
                            quote=sentence,
                            timeframe=timeframe,
                        ),
                    )
                earlier += f"{clause} "

    def _answered(self, text: str, asked: str, exchange: int) -> list[tuple[str, Seen]]:
        """Return what an answer says of the topics of the question before it."""
        parts = sentences(text)
        questions = [spaced(one) for one in sentences(asked) if "?" in one]
        if not parts or not questions:
            return []
        found = self._lexicon.find(" ".join(questions), *self._asked)
        topics = dict.fromkeys(self._asked[str(cue.value)] for cue, _ in found)
        state: Literal["present", "denied", "unclear"] = "unclear"
        if self._begins(parts[0], "denies"):
            state = "denied"
        elif self._begins(parts[0], "affirms") and len(topics) == 1:
            state = "present"
        timeframe = self._first(spaced(text), "timeframes")
        seen = Seen(state=state, exchange=exchange, quote=parts[0], timeframe=timeframe)
        return [(name, seen) for name in topics]

    def _begins(self, sentence: str, value: str) -> bool:
        return any(not match.start() for _, match in self._lexicon.find(spaced(sentence), value))

    def _first(self, plain: str, value: str) -> str | None:
        """Return the first words of a kind."""
        found = sorted(match.span() for _, match in self._lexicon.find(plain, value))
        return plain[slice(*found[0])].strip() if found else None


def _summed(seen: Sequence[Seen]) -> Seen:
    """Return what was made of a sign: what was said more often, else it is left open."""
    present, denied = ([s for s in seen if s.state == state] for state in ("present", "denied"))
    if len(present) == len(denied):
        return seen[0].model_copy(update={"state": "unclear"})
    telling = present if len(present) > len(denied) else denied
    return next((one for one in telling if one.timeframe), telling[0])
