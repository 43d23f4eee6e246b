"""JSON by schema: closed schemas, a linter for them, a reading that salvages nothing, a canary.

What servers do with a schema differs, so that every answer is checked here again. A caller adds
its own checks to `strict_json`; its refusals are lines that a model can act on.
"""

import json
import math
from collections.abc import Mapping
from typing import Any, Never

from src.errors import ModelFailed
from src.prompts import load_prompt

Schema = dict[str, Any]

KEYWORDS = frozenset(
    {
        "type", "properties", "required", "additionalProperties", "items", "enum", "description",
        "minimum", "maximum", "pattern", "maxLength", "minItems", "maxItems",
    }
)  # fmt: skip
"""What a schema may hold. All else is dropped or misread somewhere: `$ref`, `default`, `anyOf` …"""
TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})
CANARY = "heron-47"
"""What no model answers unless the server makes it."""
CANARY_PROMPT = "prompts/canary.md"


def closed_object(properties: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object with exactly these fields, in this order."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def lint(schema: Mapping[str, Any]) -> list[str]:
    """Return a line for each thing in a schema that some server ignores or refuses."""
    found = [] if schema.get("type") == "object" else ["$: the root is no object"]
    return found + _lint(schema, "$")


def _lint(node: object, place: str) -> list[str]:
    if not isinstance(node, Mapping):
        return [f"{place}: no schema"]
    found = [f"{place}: {key} is not allowed" for key in node if key not in KEYWORDS]
    kinds = node.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not kinds or not all(isinstance(kind, str) and kind in TYPES for kind in kinds):
        found.append(f"{place}: has no type")
    if "pattern" in node and "maxLength" in node:
        found.append(f"{place}: pattern with maxLength, of which one gets lost")
    if "array" in kinds:
        found += _lint(node.get("items"), f"{place}[]")
    if "object" in kinds:
        found += _lint_object(node, place)
    return found


def _lint_object(node: Mapping[str, Any], place: str) -> list[str]:
    fields = node.get("properties") or {}
    found = []
    if not fields:
        found.append(f"{place}: an open dictionary, without named fields")
    if node.get("additionalProperties") is not False:
        found.append(f"{place}: additionalProperties is not false")
    if sorted(node.get("required", ())) != sorted(fields):
        found.append(f"{place}: not every field is required")
    return found + [line for name in fields for line in _lint(fields[name], f"{place}.{name}")]


def strict_json(text: str) -> object:
    """Return what a JSON text says; raise `ModelFailed` for anything before, after or beside it.

    Refused as `unparseable`: what is no JSON, NaN, infinities, half a character. Refused as
    `schema_violated`: a key that stands twice, of which a lenient reader would drop one.
    """
    if text.lstrip().startswith("```"):
        raise ModelFailed("the answer stands in a fence; send bare JSON", kind="unparseable")
    try:
        value: object = json.loads(
            text, object_pairs_hook=_once, parse_constant=_no_number, parse_float=_finite
        )
        json.dumps(value, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ModelFailed(f"the answer is no JSON: {reason}", kind="unparseable") from error
    return value


def strict_object(value: object, fields: frozenset[str], *, what: str) -> dict[str, object]:
    """Return a value as an object with exactly these fields; raise `ModelFailed` naming others."""
    if not isinstance(value, dict):
        raise ModelFailed(f"{what} is no object", kind="schema_violated")
    missing, unknown = sorted(fields - value.keys()), sorted(value.keys() - fields)
    lines = [f"missing: {', '.join(missing)}"] if missing else []
    lines += [f"unknown: {', '.join(map(repr, unknown))}"[:200]] if unknown else []
    if lines:
        raise ModelFailed(f"{what}: {'; '.join(lines)}", kind="schema_violated")
    return value


def canary_schema() -> Schema:
    """Return a schema that leaves one answer."""
    return closed_object({"answer": {"type": "string", "enum": [CANARY]}})


def canary_messages() -> list[dict[str, str]]:
    """Return a request for prose, which only an enforced schema can turn into JSON."""
    return [{"role": "user", "content": load_prompt(CANARY_PROMPT).template}]


def canary_holds(text: str) -> bool:
    """Say whether the answer shows that the server enforced `canary_schema()`."""
    try:
        return strict_json(text) == {"answer": CANARY}
    except ModelFailed:
        return False


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        doubled = next(name for name in names if names.count(name) > 1)
        raise ModelFailed(f"{doubled[:60]!r} stands twice", kind="schema_violated")
    return found


def _no_number(name: str) -> Never:
    raise ValueError(f"{name} is no number")


def _finite(digits: str) -> float:
    if not math.isfinite(value := float(digits)):
        raise ValueError(f"{digits[:20]} is too large")
    return value
