"""What is said here about ICD-11's chapter of mental disorders: own short entries, by code.

Codes and titles are facts; every other word is the project's. It is not WHO text, no clinician has
reviewed it unless an entry says so, and it serves research on simulated patients only.
"""

import difflib
import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from src.errors import InputError
from src.prompts import SHOWN_AT_MOST, load_yaml, located

Code = Annotated[str, StringConstraints(pattern=r"^6[A-E][0-9][0-9A-Z]$")]
Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]

CODE_SHAPE = re.compile(r"(?=.*[0-9])[0-9A-Z]{2,6}")
"""What a code looks like, right or wrong; anything else is taken for a title."""
STEM = 5
"""Letters that two words share to count as one: `depression` and `depressive`."""


class Boundary(BaseModel):
    """A neighbour that is easily taken for the disorder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    code: Code
    note: Text
    """How to tell the two apart."""


class Entry(BaseModel):
    """One disorder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: Text
    essential: tuple[Text, ...] = Field(min_length=3, max_length=7)
    """Features that have to be there, each concrete enough to ask about."""
    threshold: Text
    """How long, how many, how impaired."""
    exclusions: tuple[Text, ...] = Field(min_length=1)
    boundaries: tuple[Boundary, ...] = Field(min_length=2, max_length=4)
    reviewed_by: Text | None
    """The clinician who reviewed the entry; null is nobody."""


class Family(BaseModel):
    """One group of disorders: one file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    family: Text
    """The short name that cohorts and tables use."""
    title: Text
    definition: Text
    source: Literal["project summary"]
    entries: dict[Code, Entry]
    other_titles: dict[Code, Text] = {}
    """Codes that have a title but no entry: residual ones (…Y, …Z) and those out of scope."""

    @model_validator(mode="after")
    def _each_code_once(self) -> Self:
        if both := sorted(self.entries.keys() & self.other_titles):
            raise ValueError(f"{both[0]} stands in entries and in other_titles")
        return self

    def blocks(self) -> frozenset[str]:
        """Return the first three characters of its codes; any other such code belongs here too."""
        return frozenset(code[:3] for code in self.titles())

    def titles(self) -> dict[str, str]:
        """Return the title of every code, in the order of codes."""
        titles = {code: entry.title for code, entry in self.entries.items()} | self.other_titles
        return dict(sorted(titles.items()))


def base(code: str) -> str:
    """Return the four-character code: no extension (`.1`), no second code (`&`, `/`)."""
    return re.split(r"[.&/]", code.strip().upper(), maxsplit=1)[0].strip()


def slug(name: str) -> str:
    """Return a family's id, which is also its file's name: `OC-related` is `oc_related`."""
    return re.sub(r"[^a-z0-9]+", "_", name.casefold()).strip("_")


class Reference:
    """Every family file of a folder, looked up by code."""

    def __init__(self, folder: str | Path) -> None:
        """Read the folder; a malformed file, or a boundary that leads nowhere, is refused."""
        self._families: dict[str, Family] = {}
        self._blocks: dict[str, Family] = {}
        self._entries: dict[str, Entry] = {}
        self._titles: dict[str, str] = {}
        for path in _files(folder):
            family = load_yaml(path, Family)
            if slug(family.family) != path.stem:
                expected = f"{slug(family.family)}.yaml"
                raise InputError(f"{path}: the family {family.family} belongs in {expected}")
            for block in sorted(family.blocks()):
                if block in self._blocks:
                    taken = self._blocks[block].family
                    raise InputError(f"{path}: codes in {block} belong to {taken} already")
                self._blocks[block] = family
            self._families[path.stem] = family
            self._entries |= family.entries
            self._titles |= family.titles()
        self._check_boundaries(folder)

    def _check_boundaries(self, folder: str | Path) -> None:
        for name, family in self._families.items():
            for code, entry in family.entries.items():
                for number, boundary in enumerate(entry.boundaries):
                    if boundary.code not in self._entries or boundary.code == code:
                        wrong = "is the entry itself" if boundary.code == code else "has no entry"
                        place = f"entries.{code}.boundaries[{number}].code"
                        raise InputError(f"{folder}/{name}.yaml: {place}: {boundary.code} {wrong}")

    @property
    def codes(self) -> tuple[str, ...]:
        """Every code that has an entry, in order."""
        return tuple(sorted(self._entries))

    @property
    def families(self) -> dict[str, Family]:
        """Every family by its id."""
        return dict(self._families)

    def entry(self, code: str) -> Entry:
        """Return what is written about a code; an unknown one is refused with the nearest."""
        return self._entries[self._known(code, self._entries)]

    def title(self, code: str) -> str:
        """Return the title of a code, with or without an entry."""
        return self._titles[self._known(code, self._titles)]

    def family_of(self, code: str) -> str | None:
        """Return the short name of the family in whose block the code lies; None is unmapped."""
        family = self._blocks.get(base(code)[:3])
        return family.family if family else None

    def category(self, name: str) -> str:
        """Return a family's definition and members, by a code, a block, its name or its title."""
        named = {slug(family.title): family for family in self._families.values()} | self._families
        family = named.get(slug(name)) or self._blocks.get(base(name)[:3])
        if family is None:
            known = ", ".join(self._families)
            raise InputError(
                f"{name[:SHOWN_AT_MOST]!r} is no family or code here; families: {known}"
            )
        members = [f"- {code} {title}" for code, title in family.titles().items()]
        return "\n".join([family.title, family.definition, "Members:", *members, _standing(None)])

    def disorder(self, code: str) -> str:
        """Return what a model reads about a disorder; a code without entry points to its family."""
        found = self._known(code, self._titles)
        head = f"{found} {self._titles[found]} (family: {self.family_of(found)})"
        if found not in self._entries:
            family = self._blocks[found[:3]]
            specific = ", ".join(family.entries) or "none here"
            kept = f"No entry of its own; the family's entries are: {specific}."
            return "\n".join([head, kept, family.definition, _standing(None)])
        entry = self._entries[found]
        return "\n".join(
            [
                head,
                "Essential features:",
                *(f"- {feature}" for feature in entry.essential),
                f"Threshold: {entry.threshold}",
                "Not this disorder when:",
                *(f"- {exclusion}" for exclusion in entry.exclusions),
                "Boundaries:",
                *(f"- {b.code} {self._titles[b.code]}: {b.note}" for b in entry.boundaries),
                _standing(entry.reviewed_by),
            ]
        )

    def nearest(self, code: str, *, count: int = 3) -> tuple[str, ...]:
        """Return the codes with an entry that a wrong code, a title or initials may have meant."""
        wanted = base(code)
        if CODE_SHAPE.fullmatch(wanted):
            return tuple(sorted(self.codes, key=lambda one: _distance(wanted, one))[:count])
        unlike = {one: _unlikeness(code, entry.title) for one, entry in self._entries.items()}
        return tuple(sorted(self.codes, key=unlike.__getitem__)[:count])

    def _known(self, code: str, known: Container[str]) -> str:
        found = base(code)
        if found in known:
            return found
        near = ", ".join(f"{one} {self._titles[one]}" for one in self.nearest(code))
        raise InputError(f"{code[:SHOWN_AT_MOST]!r} is no code of this reference; nearest: {near}")


def _files(folder: str | Path) -> Iterator[Path]:
    """Name the files as the folder was named, so that error lines read as the user wrote it."""
    place = located(folder)
    names = sorted(path.name for path in place.glob("*.yaml")) if place.is_dir() else []
    if not names:
        raise InputError(f"{folder}: is no folder with family files")
    yield from (Path(folder) / name for name in names)


def _distance(wanted: str, code: str) -> tuple[int, int]:
    """Order by the characters shared from the left, then by place within the chapter."""
    shared = next((n for n in range(4) if wanted[n : n + 1] != code[n]), 4)
    digits = "".join(sign for sign in wanted if sign.isascii() and sign.isalnum())[:4] or "0"
    return -shared, abs(int(digits.ljust(4, "0"), 36) - int(code, 36))


def _unlikeness(wanted: str, title: str) -> tuple[bool, int, float]:
    """Order by initials (`PTSD`), then by words shared, then by the likeness of the spelling."""
    ours, theirs = (re.findall(r"[a-z]+", text.casefold()) for text in (title, wanted))
    shared = {word[:STEM] for word in ours} & {word[:STEM] for word in theirs}
    spelling = difflib.SequenceMatcher(None, " ".join(ours), " ".join(theirs)).ratio()
    return theirs != ["".join(word[0] for word in ours)], -len(shared), -spelling


def _standing(reviewed_by: str | None) -> str:
    """Return the last line of every text: who reviewed it, and what it is not."""
    review = f"Reviewed by {reviewed_by}" if reviewed_by else "No clinician reviewed this"
    return f"{review}; the project's own summary, not WHO text, not for clinical use."
