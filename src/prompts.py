"""Read what people write: prompts, trees, persons, cues; refuse what is malformed."""

import hashlib
import string
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from src.errors import InputError

Model = TypeVar("Model", bound=BaseModel)
SHOWN_AT_MOST = 60
"""Characters of a refused value that an error line repeats."""
LOADER: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The safe loader, in C where it is built: ten times as fast."""
ROOT = Path(__file__).resolve().parent.parent


def located(path: str | Path) -> Path:
    """Return the file or folder that a setting names: as seen from here, else from the checkout."""
    if not str(path):
        raise InputError("an empty path names no file")
    given = Path(path)
    if given.parts[:1] == ("~",):
        given = given.expanduser()
    try:
        return (given if given.exists() else ROOT / given).resolve()
    except (OSError, RuntimeError) as error:  # a name too long, a link that leads to itself
        raise InputError(f"{str(path)[:SHOWN_AT_MOST]}: names no file") from error


def shown(path: Path) -> str:
    """Return a path as a person would name it: relative to the checkout where it lies in it."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def read_text(path: str | Path) -> str:
    """Return a UTF-8 file's text, a folder's as that of its files, each under its name.

    What cannot be read is an `InputError`.
    """
    place = located(path)
    if place.is_dir():
        parts = (f"=== {f.relative_to(place)}\n{read_text(f)}\n" for f in files_below(place))
        return "".join(parts)
    try:
        return place.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InputError(f"{path}: cannot be read ({reason})") from error


def files_below(folder: Path) -> list[Path]:
    """Return the files of a folder and of those in it, hidden ones left out."""
    return sorted(f for f in folder.rglob("*") if f.is_file() and not f.name.startswith("."))


def sha256(path: str | Path) -> str:
    """Return the hash of the text of a file or folder, 64 hex digits."""
    return hashlib.sha256(read_text(path).encode()).hexdigest()


def load_prompt(path: str | Path, placeholders: frozenset[str] = frozenset()) -> string.Template:
    """Return a prompt whose `${…}` placeholders are exactly those expected."""
    return _checked(str(path), read_text(path), placeholders)


def load_prompt_lines(
    path: str | Path, placeholders: Mapping[str, AbstractSet[str]]
) -> dict[str, string.Template]:
    """Return the texts of a YAML file by dotted key; keys and placeholders must be as expected."""
    lines = dict(_flat(_yaml(path)))
    if missing := sorted(placeholders.keys() - lines):
        raise InputError(f"{path}: the text {missing[0]} is missing")
    if unknown := sorted(lines.keys() - placeholders):
        raise InputError(f"{path}: nothing uses the text {unknown[0]}")
    return {
        key: _checked(f"{path}: {key}", lines[key], expected)
        for key, expected in placeholders.items()
    }


def _flat(content: object, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _flat(value, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, "" if content is None else str(content)


def _checked(place: str, text: str, expected: AbstractSet[str]) -> string.Template:
    template = string.Template(text.strip())
    if not template.is_valid():
        raise InputError(f"{place}: a lone $ stands in the prompt; write $$")
    found = frozenset(template.get_identifiers())
    if missing := sorted(expected - found):
        raise InputError(f"{place}: the placeholder ${{{missing[0]}}} is missing")
    if unused := sorted(found - expected):
        raise InputError(f"{place}: nothing fills the placeholder ${{{unused[0]}}}")
    if not template.template:
        raise InputError(f"{place}: the prompt is empty")
    return template


def fill(template: string.Template, values: Mapping[str, object]) -> str:
    """Return the prompt with every placeholder replaced."""
    return template.substitute(values)


def refusals(error: ValidationError) -> list[str]:
    """Return all that pydantic refused: each one's place, what is wrong, and the value."""
    lines = []
    for one in error.errors(include_url=False):
        place = ""
        for part in one["loc"]:
            place += f"[{part}]" if isinstance(part, int) else f".{part}"
        message = one["msg"].removeprefix("Value error, ")
        given = one["input"]
        plain = given is None or isinstance(given, str | int | float | bool)
        short = plain and len(repr(given)) <= SHOWN_AT_MOST and one["type"] != "extra_forbidden"
        value = f", not {given!r}" if short else ""
        place = place.lstrip(".") or "the file"
        lines.append(f"{place}: {message[:1].lower()}{message[1:]}{value}")
    return lines


def one_line(error: ValidationError) -> str:
    """Return the first of its refusals."""
    return refusals(error)[0]


def load_yaml(path: str | Path, model: type[Model]) -> Model:
    """Return a YAML file as the given model; anything malformed is one line with its place."""
    content = _yaml(path)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise InputError(f"{path}: {one_line(error)}") from error


def _yaml(path: str | Path) -> object:
    try:
        return yaml.load(read_text(path), LOADER)  # noqa: S506 - both of them are the safe one
    except yaml.MarkedYAMLError as error:
        line = f" line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(f"{path}:{line} {error.problem or 'is no YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: is no YAML") from error
