"""Runs with models against the fake server: whole commands, and what they leave behind."""

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

from fake_plan import names_of
from fake_process import ServerProcess
from terminal import ROOT, program, tacit, variables

KEY = "sk-proj-h7Kq2mXw9vRz"
"""Stands for a user's key: no file and no output may hold it."""
ENVIRONMENT = {"OPENAI_API_KEY": KEY}
MODELS = ("gemma", "persona", "gpt5nano", "gpt56luna", "gpt6luna")
NO_LIMITS = [f"models.{model}.rate.{of}=null" for model in MODELS for of in ("requests", "tokens")]
IMPATIENT = [
    f"models.{model}.retry={{tries: 2, first_wait: 0.01, longest_wait: 0.05}}" for model in MODELS
]
NO_SIGNALS = "orchestrator.signals=none"
"""Spares half a second of each start, where cues play no part."""
Lines = list[dict[str, Any]]
Ended = subprocess.CompletedProcess[str]


def at(url: str) -> list[str]:
    """Return the arguments that send every model's calls to one server."""
    return [f"models.{model}.base_url={url}" for model in MODELS]


def run(url: str, outputs: Path, *more: str, limits: bool = False) -> Ended:
    """Run `src.run` to its end with a key set; without limits unless told."""
    usual = at(url) if limits else [*at(url), *NO_LIMITS]
    return tacit("src.run", *usual, f"outputs={outputs}", *more, environment=ENVIRONMENT)


def start(url: str, outputs: Path, *more: str, limits: bool = False) -> "subprocess.Popen[str]":
    """Start `src.run` likewise."""
    usual = at(url) if limits else [*at(url), *NO_LIMITS]
    return subprocess.Popen(
        [*program("src.run"), *usual, f"outputs={outputs}", *more],
        cwd=ROOT, env=variables(ENVIRONMENT), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def ended(process: "subprocess.Popen[str]") -> Ended:
    """Wait for a command's end."""
    out, errors = process.communicate(timeout=170)
    return subprocess.CompletedProcess(process.args, process.returncode, out, errors)


def journal(folder: Path) -> Lines:
    """Return a journal's whole lines."""
    path = folder / "journal.jsonl"
    whole = path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""
    return [json.loads(line) for line in whole.splitlines()]


def turns(folder: Path) -> Lines:
    """Return every finished turn, with its `sample`."""
    return [line["turn"] | {"sample": line["sample"]} for line in tagged(folder, "turn")]


def tagged(folder: Path, tag: str) -> Lines:
    return [line for line in journal(folder) if line["tag"] == tag]


def endings(folder: Path) -> dict[int, dict[str, Any]]:
    """Return how each sample ended last."""
    return {line["sample"]: line["interview"] for line in tagged(folder, "end")}


def result(folder: Path) -> dict[str, Any]:
    """Return the one stored answer."""
    (path,) = (folder / "results").iterdir()
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def manifest(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    return found


def chats(server: ServerProcess, subject: str = "") -> Lines:
    """Return the log of the chat requests, of one subject or of all."""
    found = [entry for entry in server.log() if entry["path"] == "chat"]
    return [entry for entry in found if not subject or entry["subject"] in names_of(subject)]


def bodies(server: ServerProcess, subject: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each chat request of a subject with its body."""
    return [(entry, server.body(entry["number"])) for entry in chats(server, subject)]


def labels(entries: Lines) -> Counter[tuple[Any, ...]]:
    """Count entries, of a log or of a journal, by sample, turn and role."""
    return Counter((e["sample"], e["turn"], e.get("role") or e["call"]["role"]) for e in entries)


def holds_key(folder: Path) -> list[Path]:
    """Return the files in which the key stands."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return [path for path in files if KEY.encode() in path.read_bytes()]
