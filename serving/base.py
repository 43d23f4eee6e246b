"""Where the base model of an adapter lies on this machine."""

import os
from pathlib import Path

from serving.training import BaseModelSettings
from src.errors import InputError
from src.prompts import located, shown


def base_folder(base: BaseModelSettings) -> Path:
    """Return the folder that holds the base; a missing one is an `InputError`.

    Without a path of its own it is looked for where the hub's client keeps its copies; nothing is
    fetched.
    """
    folder = located(base.path) if base.path is not None else _kept(base.name)
    if folder is None or not (folder / "config.json").is_file():
        place = shown(folder) if folder else "this machine"
        raise InputError(f"{place} holds no {base.name}: {base.missing}")
    return folder


def _kept(name: str) -> Path | None:
    """Return the copy of the hub's client that its main branch, or its only one, names."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = (
        Path(os.environ.get("HF_HUB_CACHE") or home / "hub") / f"models--{name.replace('/', '--')}"
    )
    main = cache / "refs" / "main"
    if main.is_file():
        return cache / "snapshots" / main.read_text(encoding="utf-8").strip()
    snapshots = sorted((cache / "snapshots").glob("*/config.json"))
    return snapshots[0].parent if len(snapshots) == 1 else None
