"""Settings of the players: what a field is for stands beside its value in conf/."""

from typing import Annotated, Literal

from pydantic import Field

from src.settings.form import Count, File, Positive, Settings, Share
from src.settings.models import CallSettings

ModelNames = Annotated[tuple[str, ...], Field(min_length=1)]
"""Names in `models:`, in order: the first one that its server lists is used."""


DonorWeight = Annotated[float, Field(gt=0, le=1)]
"""Above 0: what any of the donors alone says must still weigh something, renormalised or not."""


class TreeSettings(Settings):
    path: File
    turns_max: Count | None
    bm25: Literal["plus", "okapi"]


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


class GuidedSettings(Settings):
    kind: Literal["guided"]
    models: ModelNames
    prompt: File
    kickoff: File
    guidance: Literal["last", "first"]
    call: CallSettings


class MonolithSettings(Settings):
    kind: Literal["monolith"]
    models: ModelNames
    prompt: File
    kickoff: File
    rubric: File
    done_from: Count
    call: CallSettings


class GuardSettings(Settings):
    kind: Literal["screening", "assessment", "none"]
    rules: File
    prompt: File


class LoraSettings(Settings):
    kind: Literal["lora"]
    models: ModelNames
    adapters: str
    system_prompt: File | None
    stop: tuple[str, ...]
    stop_token_ids: tuple[int, ...]
    signs: File
    call: CallSettings


class BDISettings(Settings):
    kind: Literal["bdi"]
    models: ModelNames
    prompt: File
    rubric: File
    repair: File
    order: Literal["evidence_first", "score_first"]
    evidence_max: Positive | None
    repairs: Count
    call: CallSettings


class BudgetSettings(Settings):
    kind: Literal["budget"]
    texts: File
    max_messages: Annotated[int, Field(ge=2, le=200)]
    closing: bool


class OfflineSettings(Settings):
    kind: Literal["offline"]
    persons: File
    lines: File
    thresholds: OfflineThresholds


class LanguageFile(File):
    """What all reading goes by; the settings name it for the digest and cannot change it."""

    root: Literal["conf/lexicon/language.yaml"]


class LexicalSettings(Settings):
    kind: Literal["lexical"]
    cues: File
    language: LanguageFile
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
    donor_weights: tuple[DonorWeight, DonorWeight, DonorWeight]
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
