"""Adapters on disk: which personas are there, under which names they are served, of what rank."""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serving.cached import is_repository
from src.errors import InputError
from src.prompts import located, one_line, shown

FOLDER = re.compile(r"persona-0*([1-9]\d?)")
CONFIG = "adapter_config.json"
WEIGHTS = ("adapter_model.safetensors", "adapter_model.bin")
READS_WIDTH = ("q_proj.lora_A.weight", "up_proj.lora_A.weight")
HEAD_AT_MOST = 2**24
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM takes for --max-lora-rank."""


class AdapterConfig(BaseModel):
    """What is read of peft's adapter_config.json."""

    model_config = ConfigDict(frozen=True)

    r: Annotated[int, Field(ge=1)]
    rank_pattern: dict[str, int] = {}
    base_model_name_or_path: str | None = None
    use_dora: bool = False
    bias: str = "none"
    modules_to_save: tuple[str, ...] | None = None

    @property
    def rank(self) -> int:
        return max(self.r, *self.rank_pattern.values(), 1)


@dataclass(frozen=True)
class Adapter:
    """One persona's adapter, its folder absolute."""

    persona: int
    folder: Path
    config: AdapterConfig
    weights: Path

    @cached_property
    def content(self) -> str:
        """Return the hash of its configuration and weights, 64 hex digits."""
        digest = hashlib.sha256()
        for path in (self.folder / CONFIG, self.weights):
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()

    @cached_property
    def width(self) -> int | None:
        """Return the hidden size of the model that it was made for; None where it cannot be told.

        It stands in the head of a safetensors file: eight bytes of length, then JSON.
        """
        try:
            with self.weights.open("rb") as file:
                length = int.from_bytes(file.read(8), "little")
                head = json.loads(file.read(min(length, HEAD_AT_MOST)))
            return next(
                (
                    int(value["shape"][1])
                    for key, value in head.items()
                    if key.endswith(READS_WIDTH)
                ),
                None,
            )
        except (OSError, ValueError, TypeError, AttributeError, KeyError, IndexError):
            return None

    @property
    def name(self) -> str:
        """Return the served name; other weights have another, so that no stale cache answers."""
        return f"persona-{self.persona:02d}-{self.content[:8]}"


def find_adapters(folder: str | Path, personas: Sequence[int] | None = None) -> tuple[Adapter, ...]:
    """Return the adapters in a folder by persona, all or those named; a lack is an `InputError`."""
    root = located(folder)
    found: dict[int, Path] = {}
    for path in sorted(root.iterdir()) if root.is_dir() else ():
        if (match := FOLDER.fullmatch(path.name)) and path.is_dir():
            number = int(match[1])
            if number in found:
                raise InputError(
                    f"{shown(root)}: {found[number].name} and {path.name} are both persona {number}"
                )
            found[number] = path
    wanted = sorted(found) if personas is None else list(personas)
    if twice := sorted({number for number in wanted if wanted.count(number) > 1}):
        raise InputError(f"persona: {twice[0]} stands there twice")
    if missing := sorted(set(wanted) - set(found)):
        numbers = ",".join(map(str, missing))
        raise InputError(
            f"{shown(root)}: no adapter of persona {missing[0]}; "
            f"python -m serving.models fetch=true persona=[{numbers}]"
        )
    if not wanted:
        raise InputError(f"{shown(root)}: no adapter; python -m serving.models fetch=true")
    return tuple(read_adapter(number, found[number]) for number in wanted)


def read_adapter(persona: int, folder: Path) -> Adapter:
    """Return one adapter; what vLLM could not load is an `InputError`."""
    path = folder / CONFIG
    try:
        config = AdapterConfig.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise InputError(f"{shown(path)}: {one_line(error)}") from error
    weights = next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)
    if weights is None:
        raise InputError(f"{shown(folder)}: holds no {WEIGHTS[0]}")
    if config.use_dora or config.bias != "none" or config.modules_to_save:
        raise InputError(f"{shown(path)}: vLLM takes no DoRA, no bias and no modules_to_save")
    if allowed_rank(config.rank) is None:
        raise InputError(
            f"{shown(path)}: rank {config.rank} is above {RANKS[-1]}, the most that vLLM takes"
        )
    return Adapter(persona, folder, config, weights)


def refuse_another_base(adapters: Sequence[Adapter], model: str, width: int | None) -> None:
    """Raise an `InputError` for an adapter made for a model of another hidden size."""
    for adapter in adapters:
        if None not in (adapter.width, width) and adapter.width != width:
            raise InputError(
                f"{shown(adapter.folder)}: made for a model of width {adapter.width}, {model} has "
                f"{width}; serve the model that it was made for, or name others by adapters=FOLDER"
            )


def refuse_a_namesake(adapters: Sequence[Adapter], model: str) -> list[str]:
    """Return a warning for each adapter that names another repository as its base.

    Another one of the same publisher is another model, an `InputError`; another publisher's may be
    a copy of this one. What is no repository of the hub is not compared.
    """
    lines = []
    for adapter in adapters:
        base = adapter.config.base_model_name_or_path or ""
        if base.lower() == model.lower() or not (is_repository(base) and is_repository(model)):
            continue
        told = f"{shown(adapter.folder)}: made for {base}, not for {model}"
        if base.partition("/")[0].lower() == model.partition("/")[0].lower():
            raise InputError(
                f"{told}; serve the model that it was made for, or name others by adapters=FOLDER"
            )
        lines.append(f"{told}; it answers well only if they are one model")
    return lines


def allowed_rank(rank: int) -> int | None:
    """Return the smallest rank that vLLM allows and that holds this one; None above them all."""
    return next((allowed for allowed in RANKS if allowed >= rank), None)


def highest_rank(adapters: Sequence[Adapter]) -> int:
    """Return what --max-lora-rank must be for all of them."""
    return max(allowed_rank(adapter.config.rank) or RANKS[-1] for adapter in adapters)
