"""The sheet that a scorer's model fills in: its schema, and the strict reading of what came."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from src.clinical.bdi import NAMES
from src.errors import ModelFailed
from src.llm.structured import Schema, closed_object, strict_json, strict_object
from src.prompts import one_line
from src.records import Assessment, Score, SymptomScore

FIELDS = tuple(re.sub(r"[^a-z]+", "_", name.lower()) for name in NAMES)
"""The official names in snake case; index 0 is item 1."""
Order = Literal["evidence_first", "score_first"]
"""The order of a schema is the order of thought: the paper prints `score_first`."""
PARTS: dict[str, Schema] = {
    "evidence": {"type": "string"},
    "confidence": {"type": "number", "minimum": 0, "maximum": 1},
    "score": {"type": "integer", "enum": [0, 1, 2, 3]},
}
REASONS_AT_MOST = 6
"""So many wrong items are named at once; the rest would be more of the same."""


class Entry(BaseModel):
    """What a model says of one item; numbers are numbers, never text or truth values."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    evidence: Annotated[str, AfterValidator(str.strip)]
    confidence: Annotated[float, Field(ge=0, le=1)]
    score: Score

    @model_validator(mode="after")
    def _a_score_is_known(self) -> "Entry":
        if self.score > 0 and self.confidence == 0:
            raise ValueError("a score above 0 with confidence 0 contradicts itself")
        return self


def assessment_schema(order: Order, evidence_max: int | None = None) -> Schema:
    """Return the schema of 21 named items, each with its three parts in the given order.

    `evidence_max` bounds the characters of an item's evidence: a small model may find no end.
    """
    bound = {} if evidence_max is None else {"maxLength": evidence_max}
    parts = PARTS | {"evidence": {**PARTS["evidence"], **bound}}
    if order == "score_first":
        parts = dict(reversed(parts.items()))
    return closed_object(dict.fromkeys(FIELDS, closed_object(parts)))


def parse_assessment(text: str) -> Assessment:
    """Return the assessment that a model's answer holds, without calls.

    Raises `ModelFailed`, kind `unparseable` or `schema_violated`, with a reason that a model can
    act on. Nothing is salvaged and nothing made up: a missing item is no zero.
    """
    sheet = strict_object(strict_json(text), frozenset(FIELDS), what="the answer")
    entries: list[SymptomScore] = []
    wrong: list[str] = []
    for field in FIELDS:
        try:
            entries.append(SymptomScore(**Entry.model_validate(sheet[field]).model_dump()))
        except ValidationError as error:
            wrong.append(_reason(field, error))
    if wrong:
        raise ModelFailed("; ".join(wrong[:REASONS_AT_MOST]), kind="schema_violated")
    return Assessment(symptoms=tuple(entries))


def _reason(field: str, error: ValidationError) -> str:
    line = one_line(error)
    own = line.removeprefix("the file: ")
    return f"{field}.{line}" if own == line else f"{field}: {own}"
