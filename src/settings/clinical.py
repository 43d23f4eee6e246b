"""Settings of PsyCIDRA's players: what a field is for stands beside its value in conf/."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from src.settings.form import Count, File, Positive, Settings
from src.settings.models import CallSettings
from src.settings.players import ModelNames

AgentTools = tuple[Literal["notepad", "skills", "icd", "safety"], ...]
Language = Annotated[str, Field(pattern=r"^[a-z]{2}$")]


def _several(value: object) -> object:
    """Accept one number for a list of one."""
    return tuple(value) if isinstance(value, list) else (value,)


class LanguageSettings(Settings):
    interview: Language
    report: Language


class ToolsFile(File):
    """What an interviewer's tools are called and say of themselves; named for the digest."""

    root: Literal["prompts/toolbox.yaml"]


class ProtocolFile(File):
    """How a model without tool calls of its own is told to use tools; named for the digest."""

    root: Literal["prompts/tool_protocol.md"]


class AgentSettings(Settings):
    """An interviewer that may use tools; without any but `safety` it is the direct baseline."""

    kind: Literal["agent"]
    models: tuple[str, ...]
    script: File | None
    """Plays the model's part by rules, so that no model is needed; else null."""
    prompt: File
    kickoff: File
    texts: File
    tools: AgentTools
    toolbox: ToolsFile
    protocol: ProtocolFile
    skills: File
    reference: File
    safety: File | None
    """The check without a model on every message of the patient; null: none."""
    rounds: Positive
    plan_max: Positive
    call: CallSettings

    @model_validator(mode="after")
    def _model_or_script(self) -> "AgentSettings":
        if bool(self.models) == (self.script is not None):
            raise ValueError("models or a script: one of them plays the interviewer")
        return self


class ProfileSettings(Settings):
    """A patient played by a model from a profile."""

    kind: Literal["profile"]
    models: ModelNames
    cases: File
    prompt: File
    signs: File
    call: CallSettings


class RawCaseSettings(Settings):
    """A patient played by a model from the source record alone."""

    kind: Literal["raw_case"]
    models: ModelNames
    cases: File
    prompt: File
    signs: File
    call: CallSettings


class ProfileOfflineSettings(Settings):
    """A rule-based patient that says what a profile holds."""

    kind: Literal["profile_offline"]
    cases: File
    lines: File


class NoScorerSettings(Settings):
    kind: Literal["none"]


class RequestsFile(File):
    """How a report is asked for, and once more; named for the digest."""

    root: Literal["prompts/diagnosis_requests.yaml"]


class LookUpFile(File):
    """What a diagnoser's one tool says of itself; named for the digest."""

    root: Literal["prompts/diagnosis_tool.yaml"]


class ReportSettings(Settings):
    """What every analyst that writes a diagnostic report is told."""

    include_stopped: bool
    """Whether interviews that a safety stop ended are analysed too: in simulations alone."""
    prefixes: Annotated[tuple[Positive, ...], BeforeValidator(_several)]
    """The first so many exchanges are analysed as well, beside the whole."""
    reference: File


class BoundsSettings(Settings):
    """How long a report can get by its schema: a small model may find no end."""

    text: Positive
    """Characters of a text."""
    entries: Positive
    """Entries of a list."""


class DiagnosisSettings(ReportSettings):
    """PsyDARA: looks entries up, then reports in a given order of fields."""

    kind: Literal["diagnosis"]
    models: ModelNames
    prompt: File
    requests: RequestsFile
    tool: LookUpFile
    protocol: ProtocolFile
    rounds: Positive
    repairs: Count
    bounds: BoundsSettings | None
    call: CallSettings


class DirectDiagnosisSettings(ReportSettings):
    """The baseline: hypotheses from the transcript at once."""

    kind: Literal["direct"]
    models: ModelNames
    prompt: File
    requests: RequestsFile
    repairs: Count
    bounds: BoundsSettings | None
    call: CallSettings


class RuleDiagnosisSettings(ReportSettings):
    """A diagnoser without a model, to try the machinery."""

    kind: Literal["diagnosis_offline"]
    cues: File
