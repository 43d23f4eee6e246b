"""Source cases, and the files that hold them: invented ones with a profile, or JSON lines."""

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from src.errors import InputError
from src.patients.profiles import OLDEST, Age, PatientProfile, Sex, Text
from src.prompts import load_yaml, located, read_text, refusals
from src.records import Record

NO_DISORDER = "No disorder"
FAMILIES = {
    "6A0": "Neurodevelopmental",
    "6A2": "Psychotic",
    "6A4": "Catatonia",
    "6A6": "Mood",
    "6A7": "Mood",
    "6A8": "Mood",
    "6B0": "Anxiety/fear",
    "6B2": "OC-related",
    "6B4": "Stress-associated",
    "6B6": "Dissociative",
    "6B8": "Feeding/eating",
    "6C0": "Elimination",
    "6C2": "Bodily distress",
    "6C4": "Substance/addictive",
    "6C5": "Substance/addictive",
    "6C7": "Impulse control",
    "6C9": "Disruptive/dissocial",
    "6D1": "Personality",
    "6D3": "Paraphilic",
    "6D5": "Factitious",
    "6D7": "Neurocognitive",
    "6D8": "Neurocognitive",
    "6E0": "Neurocognitive",
    "6E2": "Perinatal",
    "6E4": "Psychological factors",
    "6E6": "Secondary",
    "6E8": "Residual",
}
"""Family of a code by its first three characters (facts of ICD-11's chapter 6)."""
_BASE = re.compile(r"6[A-E][0-9][0-9A-Z]")
_SEX = re.compile(r"\b(fe)?male\b", re.IGNORECASE)
_YEARS = re.compile(r"\b(\d{1,3})[ -]years?\b", re.IGNORECASE)
_SPACE = re.compile(r"\s+")


class Reference(Record):
    """One disorder that the case's own source gives."""

    code: str
    """ICD-11 base code, four characters."""
    name: Text

    @field_validator("code")
    @classmethod
    def _is_of_chapter_six(cls, code: str) -> str:
        if not _BASE.fullmatch(code) or code[:3] not in FAMILIES:
            raise ValueError("no base code of ICD-11's chapter 6")
        return code


class Case(Record):
    """A source record as a clinician would write it, and what it is a case of."""

    id: Annotated[str, Field(pattern=r"^case-[\w.-]+$")]
    source: Text
    """Where the record is from: `invented`, or the file's name."""
    text: Text
    sex: Sex | None = None
    age: Age | None = None
    """In years; sex and age are None where the record does not say."""
    references: tuple[Reference, ...] = ()
    """The most fitting first; none where the person has no disorder."""
    category: str = ""
    """The group in the source's own words, where it names one."""

    @property
    def family(self) -> str:
        """Return the first reference's family, or `No disorder`."""
        return FAMILIES[self.references[0].code[:3]] if self.references else NO_DISORDER


class CaseFile(Record):
    """One case with the profile that plays it, where there is one."""

    case: Case
    profile: PatientProfile | None = None

    @model_validator(mode="after")
    def _belong_together(self) -> "CaseFile":
        if self.profile is None:
            return self
        for what, ours, theirs in (
            ("case", self.case.id, self.profile.case),
            ("sex", self.case.sex, self.profile.demographics.sex),
            ("age", self.case.age, self.profile.demographics.age),
        ):
            if ours != theirs:
                raise ValueError(f"the profile's {what} is {theirs}, the case's {ours}")
        text = _SPACE.sub(" ", self.case.text)
        for domain, quote in self.profile.safety.quotes:
            if _SPACE.sub(" ", quote) not in text:
                raise ValueError(f"safety.{domain}: the quote does not stand in the case's text")
        return self


class CaseRow(Record):
    """One line of a JSONL file of clinical records, in MentalDx Bench's form."""

    id: Annotated[str, Field(min_length=1)]
    code: str
    """ICD-11 code; empty where the person has no disorder."""
    name: str = Field(alias="English_disease_name")
    diagnostic_category: str
    input: Text
    """The record itself."""

    @field_validator("code")
    @classmethod
    def _is_a_code(cls, code: str) -> str:
        base = re.split(r"[.&/]", code.strip(), maxsplit=1)[0]
        if base and (not _BASE.fullmatch(base) or base[:3] not in FAMILIES):
            raise ValueError("no code of ICD-11's chapter 6")
        return base

    def case(self, source: str) -> Case:
        """Return the case; sex and age are the first that the record's text names."""
        sex, years = _SEX.search(self.input), _YEARS.search(self.input)
        found: Literal["female", "male"] | None = None
        if sex:
            found = "female" if sex[1] else "male"
        age = int(years[1]) if years else None
        names = Reference(code=self.code, name=self.name or self.code) if self.code else None
        return Case(
            id=f"case-{self.id}",
            source=source,
            text=self.input,
            sex=found,
            age=age if age is not None and age <= OLDEST else None,
            references=(names,) if names else (),
            category=self.diagnostic_category,
        )


def load_cases(path: str | Path) -> tuple[CaseFile, ...]:
    """Return the cases of a folder of YAML files, of one of them, or of a `.jsonl` file, by id."""
    where = located(path)
    if where.suffix == ".jsonl":
        return tuple(CaseFile(case=case) for case in load_records(path))
    files = sorted(where.glob("*.yaml")) if where.is_dir() else [where]
    if not files:
        raise InputError(f"{path}: no case (*.yaml) lies in this folder")
    shown = [Path(path) / file.name if where.is_dir() else Path(path) for file in files]
    cases = [load_yaml(file, CaseFile) for file in shown]
    _each_once(path, [one.case.id for one in cases])
    return tuple(sorted(cases, key=lambda one: one.case.id))


def load_records(path: str | Path) -> tuple[Case, ...]:
    """Return the cases of a JSONL file, in its order; every line that is refused is named."""
    lines = enumerate(read_text(path).removesuffix("\n").split("\n"), 1)
    cases = [_record(path, number, line) for number, line in lines if line.strip()]
    if not cases:
        raise InputError(f"{path}: holds no record")
    _each_once(path, [case.id for case in cases])
    return tuple(cases)


def _record(path: str | Path, number: int, line: str) -> Case:
    place = f"{path}: line {number}"
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: is no JSON") from error
    try:
        return CaseRow.model_validate(row).case(Path(path).name)
    except ValidationError as error:
        raise InputError(f"{place}: {'; '.join(refusals(error))}") from error


def _each_once(path: str | Path, ids: Iterable[str]) -> None:
    seen: set[str] = set()
    for one in ids:
        if one in seen:
            raise InputError(f"{path}: {one} stands in it twice")
        seen.add(one)
