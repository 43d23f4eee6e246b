"""The cue file of the diagnoser without a model, `conf/lexicon/diagnosis.yaml`."""

from itertools import chain
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from src.clinical.icd11 import Code
from src.clinical.phrases import Phrases
from src.clinical.safety import refuse_unknown_names
from src.prompts import load_yaml
from src.records import Record
from src.settings.form import Positive

Line = Annotated[str, Field(min_length=1)]


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
    """What an answer says of its question's topic: by its beginning, or anywhere at first."""

    affirms: Phrases
    denies: Phrases
    healthy: Phrases
    """Anywhere in the first sentence, these deny a trouble."""


class Limits(Record):
    """Thresholds; `conf/lexicon/diagnosis.yaml` says what each is for."""

    words_partial: Positive
    words_sufficient: Positive
    words_elaborate: Positive
    topics_elaborate: Positive
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
