"""The run folder: append, read, and say what is owed. The only disk I/O of a run.

    outputs/<run>/<subject>/
        manifest.json   what the interviews are held with, and the hash of every part of it
        inputs/         copies of the prompts, tree, persons and cues that the hashes are of
        journal.jsonl   a line for each call, finished turn and ended interview, in their order
        results/        <analyst>-<digest8>.json
        summary.md      for a person to read

The journal is locked while a process has the subject open: two never write one folder.
"""

import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

from pydantic import Field, ValidationError

from src.errors import FolderError, boundary
from src.journal import Journal
from src.records import INTENDED_USE, Call, Interview, Record, Turn

MANIFEST, JOURNAL, INPUTS, RESULTS = "manifest.json", "journal.jsonl", "inputs", "results"


Form = TypeVar("Form", bound=Record)


class InputCopy(Record):
    """A file that the interviews depend on, as it was."""

    path: str
    sha256: str
    copy_name: str
    """Its name in the folder `inputs`."""


class Manifest(Record):
    """What a subject's interviews are held with."""

    intended_use: str = INTENDED_USE
    run: str
    subject: str
    digest: str
    identity: dict[str, str]
    """Everything that decides how an interview goes, by dotted key; files by their hash."""
    config: dict[str, object]
    """The resolved configuration of the first command."""
    files: dict[str, InputCopy]
    version: str
    commit: str | None
    dirty: bool | None
    """Whether the checkout held changes that no commit has."""
    python: str
    models: dict[str, str] = Field(default_factory=dict)
    """By role: which of `models` was chosen, once for the folder."""
    served: dict[str, str] = Field(default_factory=dict)
    """By role: the name under which its server lists the model or adapter."""
    rendered: str | None = None
    """Hash of the tokens that a persona's server made of the first question of
    `prompts/preflight.yaml`, template included; None where no server told them."""
    hosts: tuple[str, ...] = ()
    """Hosts that saw text of an interview; none without models."""
    created: datetime


@dataclass
class SampleState:
    """What the journal knows of one sample."""

    turns: list[Turn] = field(default_factory=list)
    ended: Interview | None = None
    failures: int = 0

    def owed(self, *, attempts: int, retry_failed: bool) -> bool:
        """Whether the same command has to go on with it (a failed way to a server: by itself)."""
        if self.ended is None:
            return True
        failure = self.ended.failure
        return failure is not None and (
            retry_failed or (failure.transport and self.failures < attempts)
        )


def digest_of(identity: Mapping[str, str]) -> str:
    """Return 16 hex digits over the identity."""
    return hashlib.sha256(json.dumps(dict(identity), sort_keys=True).encode()).hexdigest()[:16]


class SubjectFolder:
    """One subject's folder in a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._journal = Journal(path / JOURNAL)

    # reading

    def manifest(self) -> Manifest | None:
        """Return the manifest, or None where the folder is new."""
        path = self.path / MANIFEST
        if not path.exists():
            return None
        try:
            return Manifest.model_validate_json(path.read_bytes())
        except (OSError, ValidationError) as error:
            raise FolderError(f"{path}: damaged; choose another folder with run=NAME") from error

    def refuse_other(self, identity: Mapping[str, str]) -> None:
        """Raise a `FolderError` if the folder's interviews were held with anything else."""
        held = self.manifest()
        if held is None or held.identity == identity:
            return
        both = sorted(held.identity.keys() | identity.keys())
        key = next(k for k in both if held.identity.get(k) != identity.get(k))
        if key in held.files and key in identity:
            raise FolderError(
                f"{self.path}: {held.files[key].path} is not what {key} was; give run=NAME for a "
                f"folder of its own, or from={self.path} to go by the copy"
            )
        was, now = (str(side.get(key, "absent"))[:24] for side in (held.identity, identity))
        raise FolderError(
            f"{self.path} was made with {key}={was}, not {now}; "
            "give run=NAME for a folder of its own"
        )

    def load(self) -> dict[int, SampleState]:
        """Return what the journal holds by sample number; a torn last line is passed over."""
        states: dict[int, SampleState] = defaultdict(SampleState)

        def take(entry: Mapping[str, Any]) -> None:
            sample = int(entry.get("sample", 0))
            state = states[sample]
            match entry["tag"]:
                case "turn":
                    state.turns.append(Turn.model_validate(entry["turn"]))
                case "end":
                    ending = {**entry["interview"], "turns": state.turns}
                    state.ended = Interview.model_validate(ending)
                    state.failures += state.ended.failure is not None
                case "redo":
                    states[sample] = SampleState()

        self._journal.each(take)
        states.pop(0, None)  # lines about the whole journal
        return dict(states)

    def calls(self) -> tuple[list[Call], int]:
        """Return every call that is written down, and how many a kill has cut off."""
        calls: list[Call] = []
        asked: list[str] = []

        def take(entry: Mapping[str, Any]) -> None:
            if entry["tag"] == "call":
                calls.append(Call.model_validate(entry["call"]))
            elif entry["tag"] == "asked":
                asked.append(entry["role"])

        self._journal.each(take)
        return calls, len(asked) - len(calls)

    def spans(self) -> list[tuple[float, float]]:
        """Return when each call began and ended, in seconds since 1970."""
        found: list[tuple[float, float]] = []

        def take(entry: Mapping[str, Any]) -> None:
            if entry["tag"] == "call":
                ended = datetime.fromisoformat(entry["at"]).timestamp()
                found.append((ended - entry["call"]["seconds"], ended))

        self._journal.each(take)
        return found

    # writing

    def open(self, manifest: Manifest, inputs: Mapping[str, str]) -> None:
        """Lock the journal, mend a torn last line, and write manifest and copies where new."""
        with boundary(str(self.path)):
            self.path.mkdir(parents=True, exist_ok=True)
        self._journal.open()
        self.refuse_other(manifest.identity)
        with boundary(str(self.path)):
            self._journal.mend()
            held = self.manifest()
            if held and set(manifest.hosts) - set(held.hosts):  # who saw text is never forgotten
                hosts = tuple(dict.fromkeys([*held.hosts, *manifest.hosts]))
                known = held.model_copy(update={"hosts": hosts})
                self._replace(MANIFEST, known.model_dump_json(indent=2) + "\n")
            if held is None:
                for name, text in inputs.items():
                    self._replace(f"{INPUTS}/{name}", text)
                self._replace(MANIFEST, manifest.model_dump_json(indent=2) + "\n")
                self._journal.write({"tag": "about", "intended_use": manifest.intended_use})

    def close(self) -> None:
        """Release the lock."""
        self._journal.close()

    async def keep_turn(self, sample: int, turn: Turn) -> None:
        """Return once the turn is on disk."""
        await self._journal.append(
            {"tag": "turn", "sample": sample, "turn": turn.model_dump(mode="json")}
        )

    async def keep_end(self, interview: Interview) -> None:
        """Return once the ending is on disk; its turns are there already."""
        ending = interview.model_dump(mode="json", exclude={"turns"})
        await self._journal.append({"tag": "end", "sample": interview.sample, "interview": ending})

    def note_asked(self, sample: int, role: str, turn: int) -> None:
        """Note that a call is on its way: one that a kill cuts off is known to be missing."""
        self._journal.write({"tag": "asked", "sample": sample, "turn": turn, "role": role})

    async def keep_call(self, sample: int, turn: int, call: Call) -> None:
        """Return once what became of a call is on disk."""
        entry = {"tag": "call", "sample": sample, "turn": turn, "call": call.model_dump()}
        await self._journal.append(entry)

    async def keep_redo(self, sample: int, reason: str) -> None:
        """Mark everything held so far of a sample as superseded; it stays in the journal."""
        await self._journal.append({"tag": "redo", "sample": sample, "reason": reason})

    def has_result(self, name: str) -> bool:
        """Whether an analyst's result is there."""
        return (self.path / RESULTS / f"{name}.json").exists()

    def read_result(self, name: str, form: type[Form]) -> Form | None:
        """Return an analyst's result; None where there is none of this form."""
        path = self.path / RESULTS / f"{name}.json"
        try:
            return form.model_validate_json(path.read_bytes())
        except (OSError, ValidationError):  # it is made again from the journal
            return None

    def write_result(self, name: str, content: Mapping[str, object]) -> Path:
        """Write an analyst's result whole or not at all, and return its path."""
        with boundary(str(self.path)):
            return self._replace(f"{RESULTS}/{name}.json", json.dumps(content, indent=2) + "\n")

    def write_summary(self, text: str) -> Path:
        """Write the page for a person to read."""
        with boundary(str(self.path)):
            return self._replace("summary.md", text)

    def _replace(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            with draft.open("w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)
        except OSError:
            with suppress(OSError):
                draft.unlink()
            raise
        return path


def subject_folders(run: Path) -> Iterator[SubjectFolder]:
    """Yield the subjects of a run folder, or the one subject where the folder is a subject's."""
    if (run / MANIFEST).exists():
        yield SubjectFolder(run)
        return
    for manifest in sorted(run.glob(f"*/{MANIFEST}")):
        yield SubjectFolder(manifest.parent)
