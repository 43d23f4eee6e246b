"""Compose the configuration with Hydra, validate it once, and hand out plain frozen settings.

The only module that knows Hydra. Whatever is wrong ends here, in one line, before anything is
written or spent.
"""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    RootModel,
    ValidationError,
    field_validator,
    model_validator,
)

from src.errors import InputError
from src.prompts import ROOT, one_line

CONF = ROOT / "conf"
PERSONAS = 20
PERSONA_FORM = f"a number from 1 to {PERSONAS}, a list of different ones such as [1,2,7], or all"
PERSONA_TEXT = re.compile(r"all|[1-9]\d*|\[\s*[1-9]\d*(\s*,\s*[1-9]\d*)*\s*\]")
Share = Annotated[float, Field(ge=0, le=1)]
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
    turns_max: Annotated[int, Field(ge=0)] | None
    bm25: Literal["plus", "okapi"]


class LimitSettings(Settings):
    interviews: Positive
    deadline: Annotated[float, Field(gt=0)] | None
    attempts: Positive


class ScriptedSettings(Settings):
    kind: Literal["scripted"]
    lines: File


class OfflineSettings(Settings):
    kind: Literal["offline"]
    persons: File
    lines: File


class LexicalSettings(Settings):
    kind: Literal["lexical"]
    cues: File


class CoverageSettings(Settings):
    kind: Literal["coverage"]
    texts: File
    max_messages: Annotated[int, Field(ge=2, le=200)]
    closing: bool
    confidence_threshold: Share
    confident_turn: Annotated[int, Field(ge=0)]
    confident_base: Literal["assessable", "all"]
    revisit: Literal["above", "at_least"]
    stable_turn: Annotated[int, Field(ge=0)]
    stable_span: Annotated[int, Field(ge=2)]
    stable_below: Positive
    coverage: Literal["guard", "stop"]
    coverage_share: Share
    coverage_base: Literal["all", "assessable"]
    coverage_rounding: Literal["ceil", "int"]
    severity_weight: Annotated[float, Field(ge=0)]
    focus_size: Annotated[int, Field(ge=1, le=17)]
    first_focus: Annotated[tuple[Annotated[int, Field(ge=1, le=21)], ...], Field(min_length=1)]
    well_assessed_max: Annotated[int, Field(ge=0)]
    low_budget: Annotated[int, Field(ge=0)]
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
    repeat: Annotated[str, Field(alias="from")] | None

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


SettingsModel = TypeVar("SettingsModel", bound=Settings)


def read_settings(root: str, model: type[SettingsModel], overrides: Sequence[str]) -> SettingsModel:
    """Return the composed and validated configuration of a command.

    `root` names the file in conf/ that lists the command's choices. Anything that cannot be used
    is an `InputError`.
    """
    return validated(compose_plain(root, overrides), model)


def compose_plain(root: str, overrides: Sequence[str]) -> dict[str, object]:
    """Return what Hydra composes, every interpolation resolved, as plain values."""
    for override in overrides:
        _check_form(override)
    try:
        with initialize_config_dir(str(CONF), version_base="1.3"):
            config = compose(root, overrides=list(overrides))
        config.pop("experiment", None)
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OverrideParseException as error:
        raise InputError(_quoting(str(error.override))) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(_hydra_line(str(error))) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def changed(plain: dict[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """Return a resolved configuration with `key=value` overrides applied (for from=FOLDER)."""
    config = OmegaConf.create(plain)
    for override in overrides:
        _check_form(override)
        try:
            parsed = OverridesParser.create().parse_override(override)
        except OverrideParseException as error:
            raise InputError(_quoting(override)) from error
        if OmegaConf.select(config, parsed.key_or_group, default=_ABSENT) is _ABSENT:
            raise InputError(f"{parsed.key_or_group}: no such key")
        if isinstance(plain.get(parsed.key_or_group), dict):
            raise InputError(f"{override}: with from= only single values can be changed")
        OmegaConf.update(config, parsed.key_or_group, parsed.value(), force_add=False)
    result = OmegaConf.to_container(config, resolve=True)
    assert isinstance(result, dict)
    return {str(key): value for key, value in result.items()}


def validated(plain: dict[str, object], model: type[SettingsModel]) -> SettingsModel:
    """Return plain values as settings; the first refusal is one line."""
    try:  # by way of JSON, where a list may become a tuple although numbers stay strict
        return model.model_validate_json(json.dumps(plain))
    except ValidationError as error:
        raise InputError(one_line(error).removeprefix("the file: ")) from error


def options() -> dict[str, list[str]]:
    """Return every group of conf/ with the names of its options."""
    skipped = {"personas", "lexicon", "checks"}  # data files, not options
    return {
        folder.name: sorted(file.stem for file in folder.glob("*.yaml"))
        for folder in sorted(CONF.iterdir())
        if folder.is_dir() and folder.name not in skipped
    }


def files(settings: BaseModel) -> dict[str, File]:
    """Return the files named anywhere in the settings by dotted key, in order."""
    found: dict[str, File] = {}
    for key in type(settings).model_fields:
        value = getattr(settings, key)
        if isinstance(value, File):
            found[key] = value
        elif isinstance(value, BaseModel):
            found |= {f"{key}.{inner}": file for inner, file in files(value).items()}
    return found


_ABSENT = object()


def _check_form(override: str) -> None:
    """Refuse what Hydra would take in a sense that nobody means."""
    key, _, value = override.partition("=")
    if override.startswith("-"):
        hint = (
            "give a list instead, such as persona=[1,2,7]"
            if override in {"-m", "--multirun"}
            else "choices are written key=value; --help lists them"
        )
        raise InputError(f"{override}: {hint}")
    if "=" not in override:
        raise InputError(f"{override}: neither key=value nor a file that exists")
    if key == "persona" and not PERSONA_TEXT.fullmatch(value):
        raise InputError(f"persona={value}: {PERSONA_FORM}")
    if re.search(r"(^|[\[,])[+-]?\d[\d.]*_[\d_.]*($|[\],])", value):
        raise InputError(f"{override}: write the number without _")


def _quoting(override: str) -> str:
    key, _, value = override.partition("=")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    typed = shlex.quote(f'{key}="{escaped}"')
    return f"{key}: the value holds a comma, quote or other special character; type {typed}"


def _hydra_line(message: str) -> str:
    """Return Hydra's several lines as one that names what to choose from."""
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    if found := re.match(r"Could not find '(\w+)/(\S+)'", lines[0]):
        group, option = found.groups()
        return f"{group}={option}: no such option; choose from {', '.join(options()[group])}"
    if found := re.search(r"Could not (?:override|append to config|delete).*?'([^']+)'", lines[0]):
        return f"{found.group(1)}: no such key; --cfg lists all"
    return lines[0]


def folder(name: str) -> Path:
    """Return where run folders lie: an absolute path, or a folder of the checkout."""
    return (ROOT / Path(name).expanduser()).resolve()
