"""The fake server refuses what the real API refuses of tools, and nothing else."""

from typing import Any

import pytest
from fake_refusals import Refused
from fake_tools import refuse_tools

Message = dict[str, Any]
USER: Message = {"role": "user", "content": "Hello"}


def calls(*ids: str, name: str = "look") -> Message:
    function = {"name": name, "arguments": "{}"}
    listed = [{"id": one, "type": "function", "function": function} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": listed}


def result(key: str) -> Message:
    return {"role": "tool", "tool_call_id": key, "content": "found"}


def tool(**changes: object) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    function = {"name": "look", "strict": True, "parameters": parameters | changes}
    return {"type": "function", "function": function}


def test_answered_calls_are_taken_one_by_one_or_together() -> None:
    together = [USER, calls("a", "b"), result("b"), result("a")]
    refuse_tools({"messages": [*together, calls("c"), result("c"), USER], "tools": [tool()]})


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        ([USER, result("a")], "must be a response to a preceeding message"),
        ([USER, calls("a"), result("b")], "must be a response to a preceeding message"),
        ([USER, calls("a"), result("a"), result("a")], "must be a response to a preceeding"),
        ([USER, calls("a", "b"), result("a"), USER], "did not have response messages: b"),
        ([USER, calls("a")], "did not have response messages: a"),
        ([USER, calls("a", name="look up"), result("a")], "'look up' does not match"),
        ([{"role": "assistant", "content": None}], "expected a string, got null"),
    ],
)
def test_messages_that_do_not_fit_together_are_refused(messages: list[Message], line: str) -> None:
    with pytest.raises(Refused, match=line) as caught:
        refuse_tools({"messages": messages})
    assert caught.value.status == 400


@pytest.mark.parametrize(
    "body",
    [
        {"tool_choice": "none"},
        {"tools": [tool(additionalProperties=True)]},
        {"tools": [tool(properties={"a": {"type": "string"}})]},
    ],
)
def test_tools_in_the_wrong_form_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Refused):
        refuse_tools({"messages": [USER], **body})
