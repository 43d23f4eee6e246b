"""Where models lie on this machine: in a folder of their own, or where the hub's client keeps them.

Read without that client, which is in .venv-serving alone.
"""

import json
import os
import re
from pathlib import Path
from typing import Literal

from src.prompts import located

REPOSITORY = re.compile(r"[\w.-]+/[\w.-]+")
INDEX = "model.safetensors.index.json"
WEIGHTS = ("*.safetensors", "*.bin")
PART = re.compile(r"-\d+-of-\d+\.")
"""In the name of one file of several, which an index lists."""


def home() -> Path:
    """Return the folder of the hub's client, its token included."""
    given = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return _folder(os.environ.get("HF_HOME") or f"{given}/huggingface")


def cache() -> Path:
    """Return the folder where the hub's client keeps its copies."""
    return _folder(os.environ.get("HF_HUB_CACHE") or f"{home()}/hub")


def copies_of(repository: str) -> Path:
    """Return the folder for the copies of one repository, there or not."""
    return cache() / f"models--{repository.replace('/', '--')}"


def copy_of(repository: str, revision: str | None) -> Path:
    """Return the folder for a copy at a commit or branch, there or not; None: the main branch."""
    folder, wanted = copies_of(repository), revision or "main"
    try:
        commit = (folder / "refs" / wanted).read_text(encoding="utf-8").strip()
    except OSError:
        commit = wanted
    return folder / "snapshots" / commit


def held(folder: Path) -> Literal["yes", "no", "in part"]:
    """Say whether all of a copy is there; its index, where it has one, names the weights."""
    if not (folder / "config.json").is_file():
        return "no"
    try:
        index = json.loads((folder / INDEX).read_bytes())
        there = all((folder / name).is_file() for name in index["weight_map"].values())
    except (OSError, ValueError, LookupError, AttributeError):
        files = (file.name for ending in WEIGHTS for file in folder.glob(ending) if file.is_file())
        there = any(PART.search(name) is None for name in files)
    return "yes" if there else "in part"


def model_path(model: str) -> str:
    """Return a folder's absolute path, or the name of the hub's repository."""
    path = located(model)
    return str(path) if path.is_dir() or model.startswith(("models/", "/", ".", "~")) else model


def is_repository(model: str) -> bool:
    """Say whether a model's name is one of the hub's repositories."""
    return REPOSITORY.fullmatch(model) is not None and model_path(model) == model


def _folder(given: str) -> Path:
    return Path(os.path.expandvars(given)).expanduser()
