"""Every setting of every command as frozen, strict pydantic models; conf/ holds the values.

A field says here what it may be; what it is for stands beside its value in conf/.
"""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator, model_validator

PERSONAS = 20
PERSONA_FORM = f"a number from 1 to {PERSONAS}, a list of different ones such as [1,2,7], or all"
PERSONA_TEXT = re.compile(r"all|[1-9]\d*|\[\s*[1-9]\d*(\s*,\s*[1-9]\d*)*\s*\]")
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class Settings(BaseModel):
    """Frozen, strict, and refusing unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class File(RootModel[str]):
    """A file whose content decides how an interview goes: part of the digest by its hash."""

    model_config = ConfigDict(frozen=True, strict=True)

    @property
    def path(self) -> str:
        return self.root


class TreeSettings(Settings):
    path: File
    turns_max: Count | None
    bm25: Literal["plus", "okapi"]


class LimitSettings(Settings):
    interviews: Positive
    deadline: Annotated[float, Field(gt=0)] | None
    attempts: Positive


class HabitSettings(Settings):
    answers: Positive
    leaks: Count
    extra: Share
    aside: Share
    volunteers: Share


class MannerSettings(Settings):
    open: HabitSettings
    deflecting: HabitSettings
    somatising: HabitSettings
    talkative: HabitSettings
    terse: HabitSettings


class OfflineThresholds(Settings):
    closed_understates: Share
    deflects: Share
    lead_in: Share
    inconsistent_downward: Share
    inconsistent_leap: Share
    trust_after: Count
    manners: MannerSettings


class LexicalThresholds(Settings):
    strongest: Positive
    enjoyment_cap: Annotated[int, Field(ge=0, le=3)]
    topics_max: Positive
    plain: Share
    graded: Share
    denied: Share
    short: Share
    tentative: Share
    repeated: Share
    most: Share


class ScriptedSettings(Settings):
    kind: Literal["scripted"]
    lines: File


class OfflineSettings(Settings):
    kind: Literal["offline"]
    persons: File
    lines: File
    thresholds: OfflineThresholds


class LexicalSettings(Settings):
    kind: Literal["lexical"]
    cues: File
    thresholds: LexicalThresholds


class CoverageSettings(Settings):
    kind: Literal["coverage"]
    texts: File
    max_messages: Annotated[int, Field(ge=2, le=200)]
    closing: bool
    confidence_threshold: Share
    confident_turn: Count
    confident_base: Literal["assessable", "all"]
    revisit: Literal["above", "at_least"]
    stable_turn: Count
    stable_span: Annotated[int, Field(ge=2)]
    stable_below: Positive
    coverage: Literal["guard", "stop"]
    coverage_share: Share
    coverage_base: Literal["all", "assessable"]
    coverage_rounding: Literal["ceil", "int"]
    severity_weight: Annotated[float, Field(ge=0)]
    focus_size: Annotated[int, Field(ge=1, le=17)]
    first_focus: Annotated[tuple[Annotated[int, Field(ge=1, le=21)], ...], Field(min_length=1)]
    well_assessed_max: Count
    low_budget: Count
    signals: Literal["lexical", "none"]


class AnalystSettings(Settings):
    imputation: Literal["appendix", "strict", "off"]
    renormalise: bool
    donor_confidence: Share
    donor_score: Annotated[int, Field(ge=1, le=3)]
    donor_weights: tuple[Share, Share, Share]
    imputed_cap: Annotated[int, Field(ge=1, le=3)]
    imputed_rounding: Literal["half_down", "half_up"]
    selected: Positive
    min_share: Share
    min_interviews: Positive


class MedianSettings(AnalystSettings):
    kind: Literal["median"]


class ConsensusSettings(AnalystSettings):
    kind: Literal["consensus"]
    agreement: Literal["all", "assessed"]


class RunSettings(Settings):
    """Everything that `python -m src.run` can be told."""

    name: FolderName
    persona: tuple[int, ...] | Literal["all"]
    samples: Annotated[int, Field(ge=1, le=1000)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    scorer_when: Literal["turn", "end"]
    bands: Literal["erisk", "manual"]
    tree: TreeSettings
    limits: LimitSettings
    interviewer: ScriptedSettings
    patient: OfflineSettings
    scorer: LexicalSettings
    orchestrator: CoverageSettings
    analyst: Annotated[ConsensusSettings | MedianSettings, Field(discriminator="kind")]
    run: FolderName | None
    outputs: Annotated[str, Field(min_length=1)]
    only: Literal["analysis"] | None
    redo: tuple[Annotated[str, Field(pattern=r"^[1-9]\d*/[1-9]\d*$")], ...]
    reason: Annotated[str, Field(min_length=1)] | None
    retry_failed: bool
    repeat: str | None = Field(alias="from")

    @field_validator("persona", mode="before")
    @classmethod
    def _some_personas(cls, value: object) -> object:
        """Accept one number for a list of one; a doubled or unknown number helps nobody."""
        if value == "all":
            return value
        numbers = value if isinstance(value, list) else [value]
        good = all(type(number) is int and 1 <= number <= PERSONAS for number in numbers)
        if not (good and numbers and len(set(numbers)) == len(numbers)):
            raise ValueError(PERSONA_FORM)
        return tuple(numbers)

    @model_validator(mode="after")
    def _redo_says_why(self) -> "RunSettings":
        if self.redo and self.reason is None:
            raise ValueError("redo needs a reason, kept with what it supersedes: reason=TEXT")
        if self.reason is not None and not self.redo:
            raise ValueError("reason belongs to redo: redo=[7/3] reason=TEXT")
        if self.redo and self.only:
            raise ValueError("redo holds interviews again, only=analysis holds none: choose one")
        return self

    @property
    def personas(self) -> tuple[int, ...]:
        """Numbers of the personas to interview, in the order given."""
        return tuple(range(1, PERSONAS + 1)) if self.persona == "all" else self.persona


class ScoreSettings(Settings):
    """Everything that `python -m src.score FILE` can be told."""

    scorer: LexicalSettings
    turns: Literal["last", "all"]
    bands: Literal["erisk", "manual"]
    gold: str | None
    out: str | None
