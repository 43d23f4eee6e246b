"""Finished adapters on disk: what one was trained on, so that the same is not trained again."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from serving.dialogues import Dialogue
from serving.origin import ORIGIN
from serving.training import TrainSettings
from src.errors import boundary
from src.prompts import shown
from src.records import Record

TRAINING, LOSSES = "training.json", "losses.json"
BASE = "base"
"""Column of the losses of the base alone."""


class Training(Record):
    """What an adapter was made of, and how well it learnt."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    subject: str
    base: str
    learnt: tuple[int, ...]
    """Samples whose interviews it learnt from."""
    held_out: tuple[int, ...]
    windows: int
    settings: dict[str, object]
    losses: tuple[float, ...]
    """Loss in nats per token by step."""
    base_loss: float
    own_loss: float
    """Loss on the held-out replies."""
    seconds: float
    device: str
    peft: str


class Losses(Record):
    """Loss in nats per token on each person's held-out replies, by who speaks."""

    digests: dict[str, str]
    table: dict[str, dict[str, float]]


def digest_of_training(settings: TrainSettings, base: Path, dialogues: Sequence[Dialogue]) -> str:
    """Return 16 hex digits over everything that an adapter comes out of.

    Checkpointing changes what a step takes, not what comes out of it.
    """
    inputs = {
        "base": [settings.base.model_dump(mode="json"), _identity(base)],
        "training": settings.training.model_dump(mode="json", exclude={"checkpointing"}),
        "seed": settings.seed,
        "held_out": settings.held_out,
        "dialogues": [[one.sample, one.lines] for one in dialogues],
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]


def finished(folder: Path, digest: str) -> Training | None:
    """Return what a folder's adapter was made of, where it is exactly what is wanted."""
    try:
        known = Training.model_validate_json((folder / TRAINING).read_bytes())
    except (OSError, ValidationError):
        return None
    return known if known.digest == digest else None


def measured(out: Path, digests: Mapping[str, str]) -> Losses | None:
    """Return the losses that were measured last, where they are of exactly these adapters."""
    try:
        known = Losses.model_validate_json((out / LOSSES).read_bytes())
    except (OSError, ValidationError):
        return None
    return known if known.digests == dict(digests) else None


def keep_losses(out: Path, losses: Losses) -> None:
    """Put the losses in place in one step."""
    draft = out / f".{LOSSES}"
    with boundary(shown(out / LOSSES)):
        draft.write_text(losses.model_dump_json(indent=1) + "\n", encoding="utf-8")
        draft.replace(out / LOSSES)


def no_better(losses: Losses) -> list[str]:
    """Return, a line each, where a person's own adapter is not below the base and all others."""
    return [
        f"{subject}: its own adapter loses {row[subject]:.3f} a token, {other} {loss:.3f}"
        for subject, row in losses.table.items()
        for other, loss in row.items()
        if other != subject and not row[subject] < loss
    ]


def _identity(base: Path) -> object:
    """Return what tells one base from another without reading gigabytes."""
    origin = base / ORIGIN
    if origin.is_file():
        return json.loads(origin.read_text(encoding="utf-8"))
    weights = sorted((file.name, file.stat().st_size) for file in base.glob("*.safetensors"))
    return [hashlib.sha256((base / "config.json").read_bytes()).hexdigest(), weights]
