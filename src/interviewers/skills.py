"""The skills: guidance for one situation each, found in an index and read on demand.

A skill is `<folder>/<family>/<id>.md`: title, situation and reviewer in its front matter, then
three headings with what an interviewer may do there.
"""

import difflib
import re
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import Field, StringConstraints, ValidationError, field_validator

from src.errors import InputError
from src.prompts import located, one_line, read_text, shown
from src.records import Record

HEADINGS = ("## When to use", "## What to do", "## What to avoid")
NEAREST = 3
"""Ids that are offered in answer to a wrong one."""
COMPARED = 80
"""Characters of a wrong id that are compared: a model may send a page."""
FENCE = "---"
NOT_REVIEWED = "No clinician reviewed this."
Name = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9]*(?:_[a-z0-9]+)*$")]
Line = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, pattern=r"^[^\n]+$")]


class _FrontMatter(Record):
    title: Line
    when: Line
    reviewed_by: Line | None
    """Must be given, so that nobody forgets that it is null."""


class Skill(Record):
    """What to do in one situation of an interview (section 4.1; the paper's own are not public)."""

    id: Name
    family: Name
    title: Line
    when: Line
    """The situation in which to load it: with id and title, all that the system prompt shows."""
    text: Annotated[str, Field(min_length=1)]
    """Three headings, in the order of `HEADINGS`, each with something under it."""
    reviewed_by: Line | None
    """The clinician who reviewed it; null is nobody."""

    @field_validator("text")
    @classmethod
    def _under_three_headings(cls, text: str) -> str:
        parts = re.split(r"^(#.*)$", text.strip(), flags=re.MULTILINE)
        before, *rest = (part.strip() for part in parts)
        found = tuple(rest[0::2])
        if before or found != HEADINGS:
            wanted = ", ".join(f"'{heading}'" for heading in HEADINGS)
            raise ValueError(f"the headings must be {wanted}, in this order and nothing before")
        for heading, body in zip(found, rest[1::2], strict=True):
            if not body:
                raise ValueError(f"nothing stands under '{heading}'")
        return text.strip()


class Skills:
    """A folder of skills, read once. Wrong ids are a `KeyError`: ask `ids` first."""

    def __init__(self, folder: str | Path) -> None:
        """Read all families; a folder or file that cannot be used is an `InputError`."""
        self._skills: dict[str, Skill] = {}
        for path in _files(folder):
            skill = _read(path)
            if same := self._skills.get(skill.id):
                other = f"{same.family}/{same.id}.md"
                raise InputError(f"{shown(path)}: {other} has this id already")
            self._skills[skill.id] = skill

    @property
    def skills(self) -> tuple[Skill, ...]:
        """All skills by family and id."""
        return tuple(self._skills.values())

    @property
    def ids(self) -> tuple[str, ...]:
        """All ids by family and id."""
        return tuple(self._skills)

    @property
    def index(self) -> str:
        """List every skill in one line of id, title and situation, under its family's name."""
        families = groupby(self.skills, key=lambda skill: skill.family)
        return "\n\n".join(
            "\n".join([f"{family}:", *(f"- {s.id}: {s.title} | {s.when}" for s in skills)])
            for family, skills in families
        )

    def text(self, skill_id: str) -> str:
        """Return a skill's guidance; the last line says who reviewed it."""
        skill = self._skills[skill_id]
        review = f"Reviewed by {skill.reviewed_by}." if skill.reviewed_by else NOT_REVIEWED
        return f"{skill.text}\n\n{review}"

    def nearest(self, skill_id: str) -> tuple[str, ...]:
        """Return up to three ids that look most like a wrong one, the likest first."""
        wanted = skill_id.strip().lower()[:COMPARED]
        return tuple(difflib.get_close_matches(wanted, self._skills, n=NEAREST, cutoff=0.0))


def _files(folder: str | Path) -> Iterator[Path]:
    """Yield the files in order of family and name; anything else that lies there is refused."""
    place = located(folder)
    families = _entries(place) if place.is_dir() else []
    if not families:
        raise InputError(f"{folder}: is no folder of skills")
    for family in families:
        if not family.is_dir():
            raise InputError(f"{shown(family)}: a skill lies in the folder of its family")
        paths = _entries(family)
        if not paths:
            raise InputError(f"{shown(family)}: holds no skill")
        for path in paths:
            if path.suffix != ".md" or not path.is_file():
                raise InputError(f"{shown(path)}: is no skill; one is a file with the ending .md")
            yield path


def _entries(folder: Path) -> list[Path]:
    """Return what lies in a folder, without what editors and systems hide there."""
    return sorted(path for path in folder.iterdir() if not path.name.startswith("."))


def _read(path: Path) -> Skill:
    start, *rest = read_text(path).splitlines() or [""]
    if start != FENCE or FENCE not in rest:
        raise InputError(
            f"{shown(path)}: must begin with front matter between two lines of {FENCE}"
        )
    end = rest.index(FENCE)
    try:
        front = _FrontMatter.model_validate(yaml.safe_load("\n".join(rest[:end])))
        return Skill(
            id=path.stem, family=path.parent.name, text="\n".join(rest[end + 1 :]), **dict(front)
        )
    except ValidationError as error:
        raise InputError(f"{shown(path)}: {one_line(error)}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{shown(path)}: the front matter is no YAML") from error
