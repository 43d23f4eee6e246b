"""The organisers' form of one file and of one persona's entry in it: what is wrong with it."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise
from typing import Any

from src.clinical.bdi import HIGHEST, item_number, name
from src.errors import InputError
from src.evaluation.metrics import KEY_SYMPTOMS
from src.settings import PERSONAS

Wrong = Iterator[tuple[str, str]]
"""Pairs of the rule that is broken and how."""
KEYS = {
    "interactions": ("LLM", "conversation"),
    "results": ("LLM", "bdi-score", "key-symptoms"),
}
MESSAGE_KEYS = ("role", "message")
OLDER_SCALE = re.compile(
    r"weight|body.?image|somatic preocc|work (inhib|diff)|social withdr", re.IGNORECASE
)
"""Items that the inventory had before its second edition."""
SHOWN_AT_MOST = 40
"""Characters of a refused value that a line repeats."""
FORM = f'a persona is a text from "1" to "{PERSONAS}" (in 2025 its first name)'


def parsed(content: bytes) -> list[Any]:
    """Return a file's entries; anything but a JSON list of some is a `ValueError` of one line."""
    try:
        rows = json.loads(content.decode(), object_pairs_hook=_without_doubles)
    except UnicodeDecodeError as error:
        raise ValueError("is no JSON: not UTF-8") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"is no JSON: line {error.lineno}: {error.msg}") from error
    except RecursionError as error:
        raise ValueError("is no JSON that can be read: nested too deeply") from error
    if not isinstance(rows, list):
        raise ValueError(f"is no JSON list of personas but {_kind(rows)}")  # noqa: TRY004
    if not rows:
        raise ValueError("is an empty list")
    return rows


def _without_doubles(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for key, value in pairs:
        if key in row:
            raise ValueError(f"is no JSON without doubt: the key {shown(key)} stands twice")
        row[key] = value
    return row


def is_number(value: object) -> bool:
    """Return whether a persona is named by number, in whatever form."""
    text = str(value).strip() if type(value) in (int, str) else ""
    return text.isascii() and text.isdigit()


def persona_of(
    value: object, *, numbered: bool, numbers: Mapping[str, str]
) -> tuple[str | None, str]:
    """Return whose an entry is, as far as can be told, and what is wrong with how it says so.

    `numbered`: whether its folder names personas by number; then no first name will do.
    `numbers`: official numbers by first name in lower case, where they are known.
    """
    wrong = f"{FORM}, not {shown(value)}"
    if is_number(value):
        number = str(value).strip().lstrip("0") or "0"
        return number, "" if value in {str(n) for n in range(1, PERSONAS + 1)} else wrong
    if not isinstance(value, str) or not value.strip():
        return None, wrong
    named = value == value.strip() and not any(map(str.isdigit, value)) and not numbered
    return numbers.get(value.strip().lower(), value.strip()), "" if named else wrong


def wrong_in_entry(row: object, kind: str, names: AbstractSet[str]) -> Wrong:
    """Yield what is wrong with one entry, but for whose it is.

    `names`: what the persona may be called in a role besides `assistant`, in lower case.
    """
    if not isinstance(row, dict):
        yield "entry", f"is no JSON object but {_kind(row)}"
        return
    yield from _wrong_keys(row, KEYS[kind], "")
    if "bdi-score" in row and kind == "results":
        yield from _wrong_score(row["bdi-score"])
    if "key-symptoms" in row and kind == "results":
        yield from _wrong_symptoms(row["key-symptoms"])
    if "conversation" in row and kind == "interactions":
        yield from _wrong_conversation(row["conversation"], names)


def _wrong_keys(row: Mapping[str, Any], expected: Sequence[str], place: str) -> Wrong:
    for key in expected:
        if key not in row:
            yield "missing key", f"{place}`{key}`"
    for key in row:
        if key not in expected:
            yield "unknown key", f"{place}{shown(key)}"


def _wrong_score(score: object) -> Wrong:
    if type(score) is not int:
        yield "bdi-score", f"a whole number, not {shown(score)}"
    elif not 0 <= score <= HIGHEST:
        yield "bdi-score", f"from 0 to {HIGHEST}, not {shown(score)}"


def _wrong_symptoms(symptoms: object) -> Wrong:
    if not isinstance(symptoms, list):
        yield "key-symptoms", f"a list of names, not {_kind(symptoms)}"
        return
    if len(symptoms) > KEY_SYMPTOMS:
        yield "key-symptoms", f"up to {KEY_SYMPTOMS}, not {len(symptoms)}"
    seen = set()
    for symptom in symptoms:
        try:
            if not isinstance(symptom, str):
                raise InputError("no text")  # noqa: TRY301 - one handler for both
            item = item_number(symptom)
        except InputError:
            older = isinstance(symptom, str) and OLDER_SCALE.search(symptom)
            rule = "older scale" if older else "unknown symptom"
            yield rule, f"{shown(symptom)} is none of the 21 names"
            continue
        if item in seen:
            yield "doubled symptom", f"{name(item)} stands there twice"
        seen.add(item)


def _wrong_conversation(messages: object, names: AbstractSet[str]) -> Wrong:
    if not isinstance(messages, list) or not messages:
        yield "conversation", "is no list of messages, or an empty one"
        return
    speakers: list[str | None] = []
    for n, message in enumerate(messages, 1):
        if not isinstance(message, dict):
            yield "conversation", f"message {n} is no JSON object but {_kind(message)}"
            speakers.append(None)
            continue
        yield from _wrong_keys(message, MESSAGE_KEYS, f"message {n}: ")
        role, text = message.get("role"), message.get("message")
        speakers.append(_speaker(role, names))
        if "role" in message and speakers[-1] is None:
            yield "role", f"message {n} is of user or assistant, not of {shown(role)}"
        if "message" in message and not isinstance(text, str):
            yield "conversation", f"message {n} is no text but {_kind(text)}"
        elif isinstance(text, str) and not text.strip():
            yield "empty message", f"message {n}"
    if speakers[0] == "assistant":
        yield "first message", "the persona speaks first, not the screening system (user)"
    if "assistant" not in speakers and None not in speakers:
        yield "conversation", "the persona says nothing"
        return
    both = [n for n, pair in enumerate(pairwise(speakers), 1) if same(*pair)]
    if both:
        more = f", and so on at {len(both) - 1} more places" if len(both) > 1 else ""
        yield "alternation", f"messages {both[0]} and {both[0] + 1} are of one side{more}"


def same(one: str | None, other: str | None) -> bool:
    """Return whether two messages are known to be of the same side."""
    return one is not None and one == other


def _speaker(role: object, names: AbstractSet[str]) -> str | None:
    if role == "user":
        return "user"
    named = isinstance(role, str) and role.strip().lower() in names
    return "assistant" if role == "assistant" or named else None


def shown(value: object) -> str:
    """Return a refused value, short."""
    text = repr(value)
    return text if len(text) <= SHOWN_AT_MOST else f"{text[: SHOWN_AT_MOST - 1]}…"


def _kind(value: object) -> str:
    names = {list: "a list", dict: "an object", str: "a text", type(None): "null"}
    return names.get(type(value), shown(value))
