"""The organisers' files: build them from interviews, and find every breach in anyone's.

Nothing here touches the disk: files come and go as their content, by path in their folder. A
folder holds one file for all personas (`combined`) or a folder for each of them (`per_persona`).
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Literal

from src.clinical.bdi import item_number, name
from src.evaluation import official_rows as form
from src.evaluation.conversations import Gold
from src.evaluation.metrics import Outcome
from src.records import Interview, Record, SelectedRun

Layout = Literal["per_persona", "combined"]
KINDS = ("interactions", "results")
RUNS, MANUAL_RUNS = 3, 1
"""At most so many runs, and of them so many manual ones."""
FILE_NAME = re.compile(r"(manual_)?(interactions|results)_run([0-9]+)\.json")
MEANT_AS_ONE = re.compile(r"(manual)?[_-]?(interactions?|results?)|.*\.json$", re.IGNORECASE)
OF_PERSONA = re.compile(r"persona-0*([1-9][0-9]?)")
ALL = "the folder"


class Entry(Record):
    """One persona's place in one run: an interview, and what it concluded by itself."""

    run: int
    persona: int
    interview: Interview
    selected: SelectedRun


class Breach(Record):
    """One departure from the official form."""

    file: str
    persona: str | None
    rule: str
    text: str

    @property
    def line(self) -> str:
        """Return it for a terminal, whatever stands in foreign files."""
        persona = f"persona {self.persona[:40]}: " if self.persona is not None else ""
        text = f"{self.file}: {persona}{self.rule}: {self.text}"
        return "".join(sign if sign.isprintable() else "?" for sign in text)


@dataclass(frozen=True)
class OfficialFile:
    """One file, as far as it can be read."""

    path: PurePosixPath
    kind: str
    run: str
    """`run1` or `manual_run1`."""
    rows: list[tuple[str | None, Any]]
    """Persona, None where nobody can be made out, and content."""
    complete: bool
    """Whether of every entry it is known whose it is."""

    @property
    def personas(self) -> list[str]:
        return [persona for persona, _ in self.rows if persona is not None]


def build(entries: Iterable[Entry], layout: Layout) -> dict[str, str]:
    """Return the files' texts by path; the personas in order of their numbers."""
    rows: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: (entry.run, entry.persona)):
        folder = f"persona-{entry.persona:02d}/" if layout == "per_persona" else ""
        about: dict[str, object] = {"LLM": str(entry.persona)}
        rows[f"{folder}interactions_run{entry.run}.json"].append(
            about | {"conversation": messages(entry.interview)}
        )
        symptoms = [name(item) for item in entry.selected.key_symptoms]
        rows[f"{folder}results_run{entry.run}.json"].append(
            about | {"bdi-score": entry.selected.total, "key-symptoms": symptoms}
        )
    return {
        path: json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        for path, content in sorted(rows.items())
    }


def messages(interview: Interview) -> list[dict[str, str]]:
    """Return what was said in the official form, the closing as a last message."""
    spoken = [
        pair
        for turn in interview.turns
        for pair in (("user", turn.question.text), ("assistant", turn.answer.text))
    ]
    if interview.closing:
        spoken.append(("user", interview.closing.text))
    return [{"role": role, "message": text} for role, text in spoken]


class Check:
    """A folder's files and every breach in them."""

    def __init__(self, contents: Mapping[str, bytes], truths: Mapping[str, Gold]) -> None:
        """Read and check; `truths` (`read_gold`) say which first name is which persona."""
        self.breaches: list[Breach] = []
        self._truths = truths
        self._numbers = {
            truth.name.strip().lower(): key
            for key, truth in truths.items()
            if truth.name is not None and key != truth.name.strip().lower()
        }
        read = [self._read(path, content) for path, content in sorted(contents.items())]
        raw = [one for one in read if one is not None]
        self._numbered = any(
            isinstance(row, dict) and form.is_number(row.get("LLM"))
            for _, _, _, rows in raw
            for row in rows or ()
        )
        self.files = [self._file(*one) for one in raw]
        self._check_runs()
        self._check_folders()
        self._check_personas()
        self._check_conversations()

    @property
    def runs(self) -> list[str]:
        return sorted({file.run for file in self.files})

    @property
    def personas(self) -> list[str]:
        return sorted({p for file in self.files for p in file.personas}, key=_in_order)

    def outcomes(self, run: str) -> list[Outcome]:
        """Return a run's answers beside the truths that are known; the folder has no breach."""
        rows: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for file in self.files:
            for persona, row in file.rows if file.run == run else ():
                rows[str(persona)] |= row
        return [
            Outcome(
                person=persona,
                predicted=row["bdi-score"],
                gold=truth.total,
                k=sum(message["role"] == "user" for message in row["conversation"]),
                predicted_symptoms=tuple(map(item_number, row["key-symptoms"])),
                gold_symptoms=truth.symptoms,
            )
            for persona, row in sorted(rows.items(), key=lambda pair: _in_order(pair[0]))
            if (truth := self._truths.get(persona.lower()))
        ]

    def _add(self, file: object, rule: str, text: str, *, persona: str | None = None) -> None:
        self.breaches.append(Breach(file=str(file), persona=persona, rule=rule, text=text))

    def _read(
        self, path: str, content: bytes
    ) -> tuple[PurePosixPath, str, str, list[Any] | None] | None:
        """Return a file's path, kind, run and entries; None where it is no official file."""
        place = PurePosixPath(path)
        found = FILE_NAME.fullmatch(place.name)
        if found is None:
            if MEANT_AS_ONE.match(place.name):
                known = "[manual_]interactions_runN.json, [manual_]results_runN.json"
                self._add(path, "file name", f"the files' names are {known}")
            return None
        manual, kind, number = found.groups()
        if number not in {str(n) for n in range(1, RUNS + 1)}:
            self._add(path, "run number", f"runs are numbered 1 to {RUNS}, not {number}")
        try:
            rows = form.parsed(content)
        except ValueError as error:
            self._add(path, "JSON list", str(error))
            rows = None
        return place, kind, f"{manual or ''}run{number}", rows

    def _file(
        self, path: PurePosixPath, kind: str, run: str, rows: Sequence[Any] | None
    ) -> OfficialFile:
        """Check every entry of a file by itself."""
        found: list[tuple[str | None, Any]] = []
        for number, row in enumerate(rows or (), 1):
            given = row.get("LLM") if isinstance(row, dict) else None
            persona, wrong = form.persona_of(given, numbered=self._numbered, numbers=self._numbers)
            truth = self._truths.get((persona or "").lower())
            called = (truth.name if truth else None, None if form.is_number(given) else given)
            names = {one.strip().lower() for one in called if isinstance(one, str)}
            whose = persona if persona is not None else f"of entry {number}"
            if wrong and isinstance(row, dict) and "LLM" in row:
                self._add(path, "LLM", wrong, persona=whose)
            for rule, text in form.wrong_in_entry(row, kind, names):
                self._add(path, rule, text, persona=whose)
            found.append((persona, row))
        complete = rows is not None and all(persona is not None for persona, _ in found)
        return OfficialFile(path, kind, run, found, complete)

    def _check_runs(self) -> None:
        runs, manual = self.runs, [run for run in self.runs if run.startswith("manual")]
        if len(runs) > RUNS:
            self._add(ALL, "number of runs", f"at most {RUNS}, not {len(runs)}: {', '.join(runs)}")
        if len(manual) > MANUAL_RUNS:
            few = f"at most {MANUAL_RUNS}, not {len(manual)}: {', '.join(manual)}"
            self._add(ALL, "number of manual runs", few)

    def _check_folders(self) -> None:
        by_folder: defaultdict[PurePosixPath, set[str]] = defaultdict(set)
        for file in self.files:
            by_folder[file.path.parent].update(file.personas)
        root = PurePosixPath()
        if len(by_folder) > 1 and root in by_folder:
            self._add(ALL, "layout", "one file for all or a folder for each persona, not both")
        for folder, personas in by_folder.items():
            if len(by_folder) > 1 and len(personas) > 1 and folder != root:
                several = ", ".join(sorted(personas, key=_in_order))
                self._add(folder, "layout", f"a folder holds one persona, not {several}")
            named = OF_PERSONA.fullmatch(folder.name)
            for persona in personas if named and len(personas) == 1 else ():
                if named and form.is_number(persona) and persona != named[1]:
                    self._add(folder, "layout", "is named after another one", persona=persona)

    def _check_personas(self) -> None:
        """Check that every persona stands once in both files of every run."""
        for run in self.runs:
            of_run = [file for file in self.files if file.run == run]
            for kind in KINDS:
                self._check_once([file for file in of_run if file.kind == kind])
            for folder in dict.fromkeys(file.path.parent for file in of_run):
                self._check_pairs([file for file in of_run if file.path.parent == folder])
            if all(file.complete for file in of_run):
                here = {persona for file in of_run for persona in file.personas}
                for persona in self.personas:
                    if persona not in here:
                        self._add(run, "missing persona", "stands in other runs", persona=persona)

    def _check_once(self, files: Sequence[OfficialFile]) -> None:
        first: dict[str, PurePosixPath] = {}
        for file in files:
            for persona in file.personas:
                there = first.get(persona)
                if there is not None:
                    where = "there twice" if there == file.path else f"in {there} too"
                    self._add(file.path, "doubled persona", f"stands {where}", persona=persona)
                first.setdefault(persona, file.path)

    def _check_pairs(self, files: Sequence[OfficialFile]) -> None:
        """Check that the two files of one run in one folder are of the same personas."""
        if not all(file.complete for file in files):
            return  # whose entries they are is not known, and said already
        by_kind = {kind: {p for f in files if f.kind == kind for p in f.personas} for kind in KINDS}
        for file in files:
            (other,) = (kind for kind in KINDS if kind != file.kind)
            for persona in dict.fromkeys(file.personas):
                if persona not in by_kind[other]:
                    partner = file.path.name.replace(file.kind, other)
                    self._add(file.path, "unpaired", f"is not in {partner}", persona=persona)

    def _check_conversations(self) -> None:
        """Check that no two runs hand in the same conversation with a persona."""
        first: dict[tuple[str, tuple[tuple[str, str], ...]], OfficialFile] = {}
        for file in self.files:
            for persona, row in file.rows if file.kind == "interactions" else ():
                said = _said(row)
                if persona is None or not said:
                    continue
                other = first.setdefault((persona, said), file)
                if other.run != file.run:
                    text = f"the same as in {other.path}: runs share no information"
                    self._add(file.path, "shared conversation", text, persona=persona)


def _said(row: object) -> tuple[tuple[str, str], ...]:
    """Return what was said up to the persona's last message; a closing makes no difference."""
    given = row.get("conversation") if isinstance(row, dict) else None
    said = [
        ("user" if one.get("role") == "user" else "", str(one.get("message")).strip())
        for one in (given if isinstance(given, list) else ())
        if isinstance(one, dict)
    ]
    while said and said[-1][0] == "user":
        said.pop()
    return tuple(said)


def _in_order(persona: str) -> tuple[bool, int, str]:
    """Sort numbers by size, however long, and names after them."""
    number = form.is_number(persona)
    return not number, len(persona) if number else 0, persona
