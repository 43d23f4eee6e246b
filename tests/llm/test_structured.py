"""JSON by schema: what the linter refuses, what the reader refuses, what the canary proves."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.errors import ModelFailed
from src.llm.structured import (
    CANARY,
    canary_holds,
    canary_messages,
    canary_schema,
    closed_object,
    lint,
    strict_json,
    strict_object,
)

GOOD = closed_object(
    {
        "message": {"type": "string", "description": "what is said"},
        "done": {"type": "boolean"},
        "notes": {"type": "array", "items": {"type": ["string", "null"]}, "maxItems": 3},
    }
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner),
    max_leaves=12,
)  # fmt: skip


def changed(field: dict[str, Any]) -> dict[str, Any]:
    """Return the good schema with one field of another kind."""
    return closed_object(GOOD["properties"] | {"more": field})


def test_a_closed_typed_schema_passes() -> None:
    assert lint(GOOD) == []


@pytest.mark.parametrize(
    ("schema", "line"),
    [
        (changed({"type": "object"}), "$.more: an open dictionary, without named fields"),
        (
            changed(closed_object({}) | {"additionalProperties": {"type": "integer"}}),
            "$.more: additionalProperties is not false",
        ),
        (
            changed({"type": "string", "pattern": "^a", "maxLength": 3}),
            "$.more: pattern with maxLength, of which one gets lost",
        ),
        (changed({}), "$.more: has no type"),
        (changed({"type": "text"}), "$.more: has no type"),
        (changed({"type": []}), "$.more: has no type"),
        (changed({"enum": [0, 1]}), "$.more: has no type"),
        (changed({"type": "array", "items": {}}), "$.more[]: has no type"),
        (changed({"type": "array"}), "$.more[]: no schema"),
        (GOOD | {"required": ["message", "done"]}, "$: not every field is required"),
        (changed({"$ref": "#/$defs/item"}), "$.more: $ref is not allowed"),
        (GOOD | {"$defs": {}}, "$: $defs is not allowed"),
        (changed({"type": "boolean", "default": False}), "$.more: default is not allowed"),
        (changed({"type": "string", "format": "date"}), "$.more: format is not allowed"),
        ({"type": "array", "items": {"type": "string"}}, "$: the root is no object"),
    ],
)
def test_what_some_server_ignores_or_refuses_is_named_with_its_place(
    schema: dict[str, Any], line: str
) -> None:
    assert line in lint(schema)


@given(JSON)
def test_json_is_read_as_it_was_written(value: object) -> None:
    assert strict_json(json.dumps(value)) == value
    assert strict_json(f" \n{json.dumps(value, ensure_ascii=False)}\n") == value


@pytest.mark.parametrize(
    ("text", "kind", "reason"),
    [
        ("", "unparseable", "no JSON"),
        ("Here you are: {}", "unparseable", "no JSON"),
        ("{} I hope this helps", "unparseable", "Extra data"),
        ("{}{}", "unparseable", "Extra data"),
        ('{"a": 1', "unparseable", "no JSON"),
        ('{"a": 2/3}', "unparseable", "no JSON"),
        ('{"a": 2-3}', "unparseable", "no JSON"),
        ('{"a": }', "unparseable", "no JSON"),
        ("{'a': 1}", "unparseable", "no JSON"),
        ('{"a": 1,}', "unparseable", "no JSON"),
        ('{"a": NaN}', "unparseable", "NaN is no number"),
        ('{"a": -Infinity}', "unparseable", "-Infinity is no number"),
        ('{"a": 1e999}', "unparseable", "too large"),
        ('{"a": "\\ud800"}', "unparseable", "no JSON"),
        ("[" * 100_000, "unparseable", "no JSON"),
        ('```json\n{"a": 1}\n```', "unparseable", "bare JSON"),
        ('{"a": 1, "a": 1}', "schema_violated", "'a' stands twice"),
        ('{"b": {"a": 1, "c": 2, "a": 3}}', "schema_violated", "'a' stands twice"),
    ],
)
def test_nothing_is_salvaged(text: str, kind: str, reason: str) -> None:
    with pytest.raises(ModelFailed, match=reason) as refused:
        strict_json(text)
    assert refused.value.kind == kind
    assert "\n" not in str(refused.value)


def test_an_object_has_exactly_the_fields_asked_for() -> None:
    fields = frozenset({"message", "done"})
    good = {"message": "Hello.", "done": False}
    assert strict_object(good, fields, what="the answer") == good
    for value, reason in (
        ({"message": "Hello."}, "the answer: missing: done"),
        (good | {"why": 1}, "the answer: unknown: 'why'"),
        ([good], "the answer is no object"),
    ):
        with pytest.raises(ModelFailed, match=reason) as refused:
            strict_object(value, fields, what="the answer")
        assert refused.value.kind == "schema_violated"


def test_the_canary_leaves_one_answer_and_asks_for_another() -> None:
    assert lint(canary_schema()) == []
    assert canary_schema()["properties"]["answer"]["enum"] == [CANARY]
    (message,) = canary_messages()
    assert message["role"] == "user"
    assert CANARY not in message["content"]


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ('{"answer": "heron-47"}', True),
        ('{"answer":"heron-47"}\n', True),
        ('{"answer": "A harbour at dawn."}', False),
        ("The boats lie still. A gull cries.", False),
        ('"heron-47"', False),
        ('{"answer": "heron-47", "more": 1}', False),
    ],
)
def test_the_canary_tells_an_enforced_schema_from_an_ignored_one(text: str, holds: bool) -> None:
    assert canary_holds(text) is holds
