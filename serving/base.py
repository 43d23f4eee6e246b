"""Where the base model of an adapter lies on this machine."""

from pathlib import Path

from serving.cached import copies_of, copy_of
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
    main = copy_of(name, None)
    if main.is_dir():
        return main
    snapshots = sorted((copies_of(name) / "snapshots").glob("*/config.json"))
    return snapshots[0].parent if len(snapshots) == 1 else None
