"""The organisers' files: build them from interviews, and find every breach in anyone's.

Nothing here touches the disk: files come and go as their content, by path in their folder. A
folder holds one file for all personas (`combined`) or a folder for each of them (`per_persona`).
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from src.clinical.bdi import name
from src.evaluation.metrics import KEY_SYMPTOMS, Symptom, Total
from src.prompts import refusals
from src.records import Interview, Record, SelectedRun, visible
from src.settings import PERSONAS

Layout = Literal["per_persona", "combined"]
RUNS, MANUAL_RUNS = 3, 1
"""At most so many runs, and of them so many manual ones."""
FILE_NAME = re.compile(r"(manual_)?(interactions|results)_run([1-3])\.json")
KNOWN_NAMES = "[manual_]interactions_runN.json, [manual_]results_runN.json, N from 1 to 3"
OF_PERSONA = re.compile(r"persona-0*([1-9][0-9]?)")
NUMBERS = frozenset(map(str, range(1, PERSONAS + 1)))
ALL = "the folder"
LINE_AT_MOST = 300


class Entry(Record):
    """One persona's place in one run: an interview, and what it concluded by itself."""

    run: int
    persona: int
    interview: Interview
    selected: SelectedRun


def build(entries: Iterable[Entry], layout: Layout) -> dict[str, str]:
    """Return the files' texts by path; the personas in order of their numbers."""
    rows: defaultdict[str, list[dict[str, object]]] = defaultdict(list)
    for entry in sorted(entries, key=lambda entry: (entry.run, entry.persona)):
        folder = f"persona-{entry.persona:02d}/" if layout == "per_persona" else ""
        symptoms = [name(item) for item in entry.selected.key_symptoms]
        parts: dict[str, dict[str, object]] = {
            "interactions": {"conversation": messages(entry.interview)},
            "results": {"bdi-score": entry.selected.total, "key-symptoms": symptoms},
        }
        for kind, part in parts.items():
            row = {"LLM": str(entry.persona)} | part
            rows[f"{folder}{kind}_run{entry.run}.json"].append(row)
    return {
        path: json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        for path, content in sorted(rows.items())
    }


def messages(interview: Interview) -> list[dict[str, str]]:
    """Return what was said in the official form, the closing as a last message."""
    roles = {"interviewer": "user", "patient": "assistant"}
    said = [{"role": roles[one.speaker], "message": one.text} for one in visible(interview.turns)]
    closing = interview.closing
    return said + ([{"role": "user", "message": closing.text}] if closing else [])


def _named(persona: object) -> bool:
    return isinstance(persona, str) and (persona in NUMBERS or persona.isalpha())


def _persona(given: str) -> str:
    if not _named(given):
        raise ValueError(f'a persona is a text from "1" to "{PERSONAS}" (in 2025 its first name)')
    return given


class Message(Record):
    role: str
    message: Annotated[str, Field(pattern=r"\S")]


class Row(Record):
    """An entry of either kind of file."""

    LLM: Annotated[str, AfterValidator(_persona)]

    @property
    def said(self) -> tuple[str, ...]:
        """What was said up to the persona's last message; a closing makes no difference."""
        return ()


class Talk(Row):
    """An entry of an interactions file."""

    conversation: Annotated[list[Message], Field(min_length=2)]

    @model_validator(mode="after")
    def _sides_take_turns(self) -> "Talk":
        sides = ({"user"}, {"assistant", self.LLM} - NUMBERS)
        for n, message in enumerate(self.conversation):
            if message.role not in sides[n % 2]:
                side = ("user", "assistant")[n % 2]
                raise ValueError(f"message {n + 1} is of {side}, not of {message.role!r}")
        return self

    @property
    def said(self) -> tuple[str, ...]:
        whole = len(self.conversation) // 2 * 2
        return tuple(one.message.strip() for one in self.conversation[:whole])


class Conclusion(Row):
    """An entry of a results file."""

    score: Annotated[Total, Field(alias="bdi-score")]
    symptoms: Annotated[list[Symptom], Field(alias="key-symptoms", max_length=KEY_SYMPTOMS)]

    @field_validator("symptoms")
    @classmethod
    def _differ(cls, items: list[int]) -> list[int]:
        if len(set(items)) < len(items):
            raise ValueError("a symptom stands there twice")
        return items


FORMS: dict[str, type[Row]] = {"interactions": Talk, "results": Conclusion}


@dataclass(frozen=True)
class Given:
    """One entry of somebody's files."""

    path: PurePosixPath
    kind: str
    run: str
    """`run1` or `manual_run1`."""
    persona: str
    said: tuple[str, ...]
    """Nothing in a results file, or where it has a breach."""


class Check:
    """A folder's files and every breach in them, one printable line each."""

    def __init__(self, contents: Mapping[str, bytes]) -> None:
        self.breaches: list[str] = []
        self.files: dict[PurePosixPath, str] = {}  # run by file
        self.entries: list[Given] = []  # those of which it is known whose they are
        self._unclear: set[str] = set()  # runs with others
        for path, content in sorted(contents.items()):
            self._read(PurePosixPath(path), content)
        for check in (self._runs, self._folders, self._pairs, self._conversations):
            check()

    @property
    def runs(self) -> list[str]:
        return sorted(set(self.files.values()))

    @property
    def personas(self) -> set[str]:
        return {entry.persona for entry in self.entries}

    def _add(self, file: object, text: str, *, persona: object = None) -> None:
        whose = "" if persona is None else f"persona {str(persona)[:40]}: "
        line = f"{file}: {whose}{text}"[:LINE_AT_MOST]
        self.breaches.append("".join(sign if sign.isprintable() else "?" for sign in line))

    def _read(self, path: PurePosixPath, content: bytes) -> None:
        """Check a file and its entries by themselves."""
        found = FILE_NAME.fullmatch(path.name)
        if found is None:
            self._add(path, f"file name: the files' names are {KNOWN_NAMES}")
            return
        manual, kind, number = found.groups()
        run = self.files[path] = f"{manual or ''}run{number}"
        try:
            rows = json.loads(content.decode())
        except (ValueError, RecursionError) as error:
            rows = error
        if not isinstance(rows, list) or not rows:
            why = f" ({rows})" if isinstance(rows, Exception) else ""
            self._add(path, f"JSON list: is no list of personas, or an empty one{why}")
            self._unclear.add(run)
            return
        for n, row in enumerate(rows, 1):
            persona = row.get("LLM") if isinstance(row, dict) else None
            said: tuple[str, ...] = ()
            try:
                said = FORMS[kind].model_validate(row).said
            except ValidationError as error:
                whose = persona if isinstance(persona, str | int) else f"of entry {n}"
                for refusal in refusals(error):
                    self._add(path, refusal.removeprefix("the file: "), persona=whose)
            if _named(persona):
                self.entries.append(Given(path, kind, run, str(persona), said))
            else:
                self._unclear.add(run)

    def _runs(self) -> None:
        manual = [run for run in self.runs if run.startswith("manual")]
        for what, runs, most in (("runs", self.runs, RUNS), ("manual runs", manual, MANUAL_RUNS)):
            if len(runs) > most:
                few = f"at most {most}, not {len(runs)}: {', '.join(runs)}"
                self._add(ALL, f"number of {what}: {few}")
        if len({persona.isdigit() for persona in self.personas}) > 1:
            self._add(ALL, "LLM: personas by number or by first name, not both")

    def _folders(self) -> None:
        by_folder: defaultdict[PurePosixPath, set[str]] = defaultdict(set)
        for entry in self.entries:
            by_folder[entry.path.parent].add(entry.persona)
        if len(by_folder) > 1 and PurePosixPath() in by_folder:
            self._add(ALL, "layout: one file for all or a folder for each persona, not both")
        for folder, personas in by_folder.items():
            named = OF_PERSONA.fullmatch(folder.name)
            if len(by_folder) > 1 and len(personas) > 1 and folder.name:
                several = ", ".join(sorted(personas, key=lambda persona: persona.zfill(2)))
                self._add(folder, f"layout: a folder holds one persona, not {several}")
            elif named and named[1] not in personas and personas <= NUMBERS:
                self._add(folder, "layout: is named after another one", persona=max(personas))

    def _pairs(self) -> None:
        """Check that of every run a persona stands once in an interactions and a results file."""
        places: defaultdict[tuple[str, str], dict[str, list[PurePosixPath]]]
        places = defaultdict(lambda: {kind: [] for kind in FORMS})
        for entry in self.entries:
            places[entry.run, entry.persona][entry.kind].append(entry.path)
        for (run, persona), by_kind in sorted(places.items()):
            for kind, paths in by_kind.items():
                for path in paths[1:]:
                    text = f"doubled persona: stands in {paths[0]} already"
                    self._add(path, text, persona=persona)
                if not paths and run not in self._unclear:
                    ((other, there),) = ((k, p) for k, p in by_kind.items() if p)
                    partner = there[0].name.replace(other, kind)
                    self._add(there[0], f"unpaired: is not in {partner}", persona=persona)

    def _conversations(self) -> None:
        """Check that no two runs hand in the same conversation with a persona."""
        first: dict[tuple[str, tuple[str, ...]], Given] = {}
        for entry in self.entries:
            other = first.setdefault((entry.persona, entry.said), entry)
            if entry.said and other.run != entry.run:
                text = f"the same conversation as in {other.path}: runs share no information"
                self._add(entry.path, text, persona=entry.persona)
