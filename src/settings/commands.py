"""Everything that a command can be told: the models behind conf/config.yaml and conf/score.yaml."""

import re
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from src.settings.clinical import (
    AgentSettings,
    DiagnosisSettings,
    DirectDiagnosisSettings,
    LanguageSettings,
    NoScorerSettings,
    ProfileOfflineSettings,
    ProfileSettings,
    RawCaseSettings,
    RuleDiagnosisSettings,
)
from src.settings.form import Positive, Seconds, Settings, Share
from src.settings.models import ModelSettings
from src.settings.players import (
    AnalystSettings,
    BDISettings,
    BudgetSettings,
    ConsensusSettings,
    CoverageSettings,
    GuardSettings,
    GuidedSettings,
    LexicalSettings,
    LoraSettings,
    MedianSettings,
    ModelNames,
    MonolithSettings,
    OfflineSettings,
    ScriptedSettings,
    TreeSettings,
)

PERSONAS = 20
PERSONA_FORM = f"a number from 1 to {PERSONAS}, a list of different ones such as [1,2,7], or all"
PERSONA_TEXT = re.compile(r"all|[1-9]\d*|\[\s*[1-9]\d*(\s*,\s*[1-9]\d*)*\s*\]")
RUNS_TO_SPLIT = 2
FolderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


def _some_personas(value: object) -> object:
    """Accept one number for a list of one; a doubled or unknown number helps nobody."""
    if value == "all":
        return value
    numbers = value if isinstance(value, list) else [value]
    good = all(type(number) is int and 1 <= number <= PERSONAS for number in numbers)
    if not (good and numbers and len(set(numbers)) == len(numbers)):
        raise ValueError(PERSONA_FORM)
    return tuple(numbers)


SomePersonas = Annotated[tuple[int, ...] | Literal["all"], BeforeValidator(_some_personas)]
CaseId = Annotated[str, Field(pattern=r"^case-[\w.-]+$")]
ScorerSettings = Annotated[LexicalSettings | BDISettings, Field(discriminator="kind")]


class LimitSettings(Settings):
    deadline: Seconds | None
    attempts: Positive


class PreflightSettings(Settings):
    samples: Annotated[str, Field(min_length=1)]
    truncated_max: Share


def refuse_unknown(asked: dict[str, tuple[str, ...]], models: dict[str, ModelSettings]) -> None:
    """Raise a `ValueError` for a model that a role asks and nobody describes."""
    for role, names in asked.items():
        for name in names:
            if name not in models:
                raise ValueError(f"{role}.models: no model {name}; there are {', '.join(models)}")


class CohortSettings(Settings):
    """A named set of cases, `conf/cohort`; its file and its cases are the patient's and `case`."""

    name: FolderName
    held_out: bool
    """Kept aside: run only with what was frozen before (frozen=RUN)."""


class RunSettings(Settings):
    """Everything that `python -m src.run` can be told."""

    name: FolderName
    persona: SomePersonas
    case: tuple[CaseId, ...] | Literal["all"] | None
    cohort: CohortSettings | None = None
    frozen: Annotated[str, Field(min_length=1)] | None
    samples: Annotated[int, Field(ge=1, le=1000)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    scorer_when: Literal["turn", "end"]
    bands: Literal["erisk", "manual"]
    tree: TreeSettings
    interviews: Positive
    """Under way at once."""
    limits: LimitSettings
    privacy: Literal["local", "remote"]
    local_hosts: tuple[str, ...]
    endpoints: Annotated[str, Field(min_length=1)]
    max_cost: Annotated[float, Field(gt=0)] | None
    max_tokens: Positive | None
    preflight: PreflightSettings
    price_list: Annotated[str, Field(min_length=1)]
    estimate: Annotated[str, Field(min_length=1)]
    models: dict[str, ModelSettings]
    interviewer: Annotated[
        ScriptedSettings | GuidedSettings | MonolithSettings | AgentSettings,
        Field(discriminator="kind"),
    ]
    guard: GuardSettings
    patient: Annotated[
        OfflineSettings | LoraSettings | ProfileSettings | RawCaseSettings | ProfileOfflineSettings,
        Field(discriminator="kind"),
    ]
    scorer: Annotated[LexicalSettings | BDISettings | NoScorerSettings, Field(discriminator="kind")]
    lexicon: LexicalSettings
    orchestrator: Annotated[CoverageSettings | BudgetSettings, Field(discriminator="kind")]
    analyst: Annotated[
        ConsensusSettings
        | MedianSettings
        | DiagnosisSettings
        | DirectDiagnosisSettings
        | RuleDiagnosisSettings,
        Field(discriminator="kind"),
    ]
    language: LanguageSettings
    backbone: ModelNames
    run: FolderName | None
    outputs: Annotated[str, Field(min_length=1)]
    dry_run: bool
    only: Literal["analysis"] | None
    redo: tuple[Annotated[str, Field(pattern=r"^([1-9]\d*|case-[\w.-]+)/[1-9]\d*$")], ...]
    reason: Annotated[str, Field(min_length=1)] | None
    retry_failed: bool
    repeat: str | None = Field(alias="from")

    @field_validator("case", mode="before")
    @classmethod
    def _some_cases(cls, value: object) -> object:
        """Accept one id for a list of one, and a bare number for an id."""
        if value is None or value == "all":
            return value
        ids = value if isinstance(value, list) else [value]
        named = [f"case-{i:03d}" if isinstance(i, int) else str(i) for i in ids]
        named = [i if i.startswith("case-") else f"case-{i}" for i in named]
        if not named or len(set(named)) < len(named):
            raise ValueError("a case id, a list of different ones, or all")
        return tuple(named)

    @model_validator(mode="after")
    def _held_out_is_frozen(self) -> "RunSettings":
        if self.cohort and self.cohort.held_out and self.frozen is None:
            raise ValueError(
                f"cohort={self.cohort.name} is held out: name the run whose settings are final, "
                "frozen=RUN"
            )
        return self

    @model_validator(mode="after")
    def _players_fit(self) -> "RunSettings":
        if isinstance(self.interviewer, AgentSettings) and not self.orchestrator.closing:
            raise ValueError(
                "orchestrator.closing=false: interviewer=agent and direct close, and read the "
                "person's last message for danger when they do"
            )
        if isinstance(self.analyst, AnalystSettings) and self.scorer.kind == "none":
            raise ValueError(f"analyst={self.analyst.kind} needs a scorer, scorer=none is chosen")
        return self

    @model_validator(mode="after")
    def _redo_says_why(self) -> "RunSettings":
        if self.redo and self.reason is None:
            raise ValueError("redo needs a reason, kept with what it supersedes: reason=TEXT")
        if self.reason is not None and not self.redo:
            raise ValueError("reason belongs to redo: redo=[7/3] reason=TEXT")
        if self.redo and self.only:
            raise ValueError("redo holds interviews again, only=analysis holds none: choose one")
        return self

    @model_validator(mode="after")
    def _models_are_known(self) -> "RunSettings":
        refuse_unknown(self.asked_models, self.models)
        return self

    @property
    def asked_models(self) -> dict[str, tuple[str, ...]]:
        """Names in `models` that each role may ask, in order; roles without a model are not in."""
        roles = ("interviewer", "patient", "scorer", "analyst")
        found = {role: getattr(getattr(self, role), "models", ()) for role in roles}
        return {role: names for role, names in found.items() if names}

    @property
    def of_cases(self) -> bool:
        """Whether the patients are cases, rather than personas by number."""
        return isinstance(self.patient, ProfileSettings | RawCaseSettings | ProfileOfflineSettings)

    @property
    def personas(self) -> tuple[int, ...]:
        """Numbers of the personas to interview, in the order given."""
        return tuple(range(1, PERSONAS + 1)) if self.persona == "all" else self.persona


class ScoreSettings(Settings):
    """Everything that `python -m src.score FILE` can be told."""

    models: dict[str, ModelSettings]
    scorer: ScorerSettings
    privacy: Literal["local", "remote"]
    local_hosts: tuple[str, ...]
    endpoints: Annotated[str, Field(min_length=1)]
    interviews: Positive
    seed: Annotated[int, Field(ge=0, lt=2**31)]
    price_list: Annotated[str, Field(min_length=1)]
    estimate: Annotated[str, Field(min_length=1)]
    dry_run: bool
    max_cost: Annotated[float, Field(gt=0)] | None
    max_tokens: Positive | None
    check: Literal["rubric"] | None
    turns: Literal["last", "all"]
    bands: Literal["erisk", "manual"]
    gold: str | None
    out: str | None

    @model_validator(mode="after")
    def _models_are_known(self) -> "ScoreSettings":
        refuse_unknown(self.asked_models, self.models)
        return self

    @property
    def asked_models(self) -> dict[str, tuple[str, ...]]:
        """Names in `models` that the scorer may ask, in order; none for a scorer without one."""
        return {"scorer": self.scorer.models} if isinstance(self.scorer, BDISettings) else {}


class SubmitSettings(Settings):
    """Everything that `python -m src.submit` can be told."""

    runs: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(max_length=3)]
    out: Annotated[str, Field(min_length=1)] | None
    layout: Literal["per_persona", "combined"]
    split_batches: bool
    offline: bool
    adapters: Annotated[str, Field(min_length=1)]
    bands: Literal["erisk", "manual"]
    check: Annotated[str, Field(min_length=1)] | None

    @field_validator("runs", mode="before")
    @classmethod
    def _some_runs(cls, value: object) -> object:
        """Accept one folder for a list of one."""
        folders = [value] if isinstance(value, str) else value
        return tuple(folders) if isinstance(folders, list) else folders

    @model_validator(mode="after")
    def _writes_or_checks(self) -> "SubmitSettings":
        if (self.check is None) == (not self.runs):
            raise ValueError("give runs=[FOLDER,…] out=FOLDER to write, or check=FOLDER to check")
        if self.check is None and self.out is None:
            raise ValueError("runs=… needs out=FOLDER, a new or an empty one")
        if self.check is not None and self.out is not None:
            raise ValueError("check=FOLDER writes nothing: leave out out=")
        if self.split_batches and len(self.runs) != RUNS_TO_SPLIT:
            raise ValueError("split_batches=true takes two runs: one for Run 1, one for 2 and 3")
        return self
