"""What a chat-completions response says: an answer, or which of the known ways to give none."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from src.llm.client import TryAgain

BLANKS = 64
"""So many blanks at the end of a cut-off answer are a whitespace loop."""

SECOND_CHANCES = {
    "prompt_refused": 1,
    "refused": 1,
    "content_filtered": 1,
    "budget_exhausted": 2,
    "empty": 1,
    "content_in_reasoning": 1,
    "whitespace_loop": 1,
    "unparseable": 1,
}
"""Failures that are asked once more, with the token budget times this."""


@dataclass(frozen=True, kw_only=True)
class ToolCall:
    """One tool that a model wants to use, right or wrong."""

    id: str
    name: str
    arguments: str
    """What the model wrote: JSON, if all went well."""


@dataclass(frozen=True, kw_only=True)
class Delivered:
    """A response that came whole, with or without an answer in it."""

    text: str
    usage: dict[str, Any]
    """What a `Call` records of it: tokens, the model that answered, why it ended."""
    failure: str | None
    """Kind of failure, or None where `text` or the tool calls are an answer."""
    tool_calls: tuple[ToolCall, ...] = ()

    @property
    def truncated(self) -> bool:
        return bool(self.usage["finish"] == "length")

    @property
    def input_tokens(self) -> int | None:
        tokens: int | None = self.usage["input_tokens"]
        return tokens


def read_response(body: Mapping[str, Any], *, whole: bool, tools: bool = False) -> Delivered:
    """Return a response's answer and usage; with `whole`, a cut-off answer is none.

    With `tools`, tool calls are an answer; without, they are none, as the model may not call any.

    Raises `TryAgain` where the body is no chat completion: some servers answer 200 with an error,
    or with what there is of the answer when they end.
    """
    try:
        choice = body["choices"][0]
        message = choice["message"]
        text = _whole(message.get("content") or "")
    except (KeyError, IndexError, TypeError, AttributeError) as error:
        raise TryAgain("a response without an answer in it", kind="transport_failed") from error
    finish = choice.get("finish_reason")
    if finish == "abort":  # vLLM, told to end: 200 with half an answer or none
        raise TryAgain("the server broke its answer off", kind="transport_failed", absent=True)
    calls = read_tool_calls(message) if tools else ()
    failure = "unparseable" if calls is None else None
    if not calls:
        failure = failure or _failure(message, text, finish, whole=whole)
    usage = body.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    spent = usage.get("completion_tokens_details") or {}
    return Delivered(
        text=text,
        usage={
            "reported": body.get("model"),
            "finish": finish,
            "input_tokens": usage.get("prompt_tokens"),
            "cached_tokens": details.get("cached_tokens"),
            "written_tokens": details.get("cache_write_tokens"),
            "output_tokens": usage.get("completion_tokens"),
            "reasoning_tokens": spent.get("reasoning_tokens"),
        },
        failure=failure,
        tool_calls=calls or (),
    )


def read_tool_calls(message: Mapping[str, Any]) -> tuple[ToolCall, ...] | None:
    """Return the calls of a message; None where they are in no form that can be read."""
    given = message.get("tool_calls") or []
    try:
        return tuple(
            ToolCall(
                id=str(call.get("id") or ""),
                name=_whole(call["function"]["name"]),
                arguments=_arguments(call["function"].get("arguments")),
            )
            for call in given
        )
    except (KeyError, TypeError, AttributeError):
        return None


def _arguments(given: object) -> str:
    """Return arguments as text: some servers send none, or an object."""
    return _whole(given) if isinstance(given, str) else json.dumps(given or {})


def _whole(text: object) -> str:
    """Return a text without halves of characters, which could be neither sent nor stored."""
    return str(text).encode(errors="replace").decode()


def _failure(
    message: Mapping[str, Any], text: str, finish: str | None, *, whole: bool
) -> str | None:
    if message.get("refusal"):
        return "refused"
    if finish == "content_filter":
        return "content_filtered"
    if finish == "length" and len(text) - len(text.rstrip()) >= BLANKS:
        return "whitespace_loop"
    if not text.strip():
        if finish == "length":
            return "budget_exhausted"
        thought = message.get("reasoning_content") or message.get("reasoning")
        return "content_in_reasoning" if thought else "empty"
    return "budget_exhausted" if whole and finish == "length" else None
