"""Compose the configuration with Hydra, validate it once, and hand out plain frozen settings.

The only module that knows Hydra. Whatever is wrong ends here, in one line, before anything is
written or spent.
"""

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from hydra import compose, initialize_config_dir
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError

from src.errors import InputError
from src.prompts import ROOT, one_line
from src.settings import PERSONA_FORM, PERSONA_TEXT, File, Settings

CONF = ROOT / "conf"
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
        plain = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except OverrideParseException as error:
        raise InputError(_quoting(str(error.override))) from error
    except (HydraException, OmegaConfBaseException) as error:
        raise InputError(_hydra_line(str(error), overrides)) from error
    assert isinstance(plain, dict)
    return {str(key): value for key, value in plain.items()}


def changed(plain: dict[str, object], overrides: Sequence[str]) -> dict[str, object]:
    """Return a resolved configuration with `key=value` overrides applied (for from=FOLDER)."""
    config = OmegaConf.create(plain)
    for override in overrides:
        _check_form(override)
        try:
            parsed = OverridesParser.create().parse_override(override)
            value = parsed.value()
        except HydraException as error:
            raise InputError(_quoting(override)) from error
        if parsed.is_sweep_override() or parsed.is_add() or parsed.is_delete():
            raise InputError(f"{override}: with from= a key takes one value")
        if OmegaConf.select(config, parsed.key_or_group, default=_ABSENT) is _ABSENT:
            raise InputError(f"{parsed.key_or_group}: no such key")
        if isinstance(plain.get(parsed.key_or_group), dict):
            raise InputError(f"{override}: with from= only single values can be changed")
        OmegaConf.update(config, parsed.key_or_group, value, force_add=False)
    try:
        result = OmegaConf.to_container(config, resolve=True)
    except OmegaConfBaseException as error:
        raise InputError(_hydra_line(str(error), overrides)) from error
    assert isinstance(result, dict)
    return {str(key): value for key, value in result.items()}


def validated(plain: dict[str, object], model: type[SettingsModel]) -> SettingsModel:
    """Return plain values as settings; the first refusal is one line."""
    try:  # by way of JSON, where a list may become a tuple although numbers stay strict
        return model.model_validate_json(json.dumps(plain))
    except ValidationError as error:
        raise InputError(one_line(error).removeprefix("the file: ")) from error


def options(root: str) -> dict[str, list[str]]:
    """Return every group of a command's choices with the names of its options."""
    found: dict[str, list[str]] = {}
    for entry in OmegaConf.select(OmegaConf.load(CONF / f"{root}.yaml"), "defaults", default=()):
        if isinstance(entry, str):
            found |= options(entry) if entry != "_self_" else {}
        else:
            group = next(iter(entry)).partition("@")[0]
            found[group] = _named(group)
    return dict(sorted(found.items()))


def _named(group: str) -> list[str]:
    return sorted(file.stem for file in (CONF / group).glob("*.yaml"))


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


def _hydra_line(message: str, overrides: Sequence[str]) -> str:
    """Return Hydra's several lines as one that names what to choose from."""
    if found := re.search(r"Ambiguous value for argument '(\w+)=", message):
        return _quoting(next(o for o in overrides if o.startswith(f"{found.group(1)}=")))
    lines = [line.strip() for line in message.strip().splitlines() if line.strip()]
    if found := re.search(r"Could not find '(\w+)/(\S+)'", lines[0]):
        group, option = found.groups()
        return f"{group}={option}: no such option; choose from {', '.join(_named(group))}"
    if found := re.search(r"Could not (?:override|append to config|delete).*?'([^']+)'", lines[0]):
        return f"{found.group(1)}: no such key; --cfg lists all"
    return lines[0]


def folder(name: str) -> Path:
    """Return where run folders lie: an absolute path, or a folder of the checkout."""
    return (ROOT / Path(name).expanduser()).resolve()
