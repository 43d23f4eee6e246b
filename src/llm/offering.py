"""How tools are offered to a model, and how its calls are read and stand in its history.

What was called is rendered from the records alone, one call after the other, within a reply and
in every later one: so a conversation's prompts only grow, and nothing is hidden state.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from pydantic import model_validator

from src.errors import InputError, ModelFailed
from src.llm.caller import Reply, Request
from src.llm.client import Message
from src.llm.responses import ToolCall
from src.llm.structured import Schema, closed_object, lint, strict_json
from src.prompts import fill, load_prompt
from src.records import Record, ToolUse

PROTOCOL = "prompts/tool_protocol.md"
"""How a model without tool calls of its own uses tools."""
NONE = "none"
"""The tool of a model that answers, where a schema asks for one."""
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


class Tool(Record):
    """What a model may call."""

    name: str
    description: str
    parameters: Schema
    """Closed JSON schema of the arguments; what may be left out is nullable."""
    ends: bool = False
    """Whether it ends the conversation: it is run however many calls stand before it."""

    @model_validator(mode="after")
    def _fits_every_server(self) -> "Tool":
        if self.name == NONE or _UNFIT.search(self.name):
            raise ValueError(f"no tool can be named {self.name!r}")
        if taken := {"tool", "message"} & self.parameters.get("properties", {}).keys():
            raise ValueError(f"{self.name}: an argument is named {taken.pop()!r}")
        if self.parameters != closed_object({}) and (found := lint(self.parameters)):
            raise ValueError(f"{self.name}: {found[0]}")
        return self

    @property
    def fields(self) -> Schema:
        fields: Schema = self.parameters["properties"]
        return fields

    def function(self) -> Schema:
        """Return it as the API describes functions."""
        about = {"name": self.name, "description": self.description, "strict": True}
        return {"type": "function", "function": about | {"parameters": self.parameters}}


def exchanged(
    uses: Sequence[ToolUse], *, turn: int, native: bool, used: int = 0
) -> tuple[Message, ...]:
    """Return the messages of what was called before question `turn`, after so many calls more."""
    messages: list[Message] = []
    for number, use in enumerate(uses, used + 1):
        arguments = object_in(use.arguments)
        if native:
            key = f"call_{turn}_{number}"
            name = _UNFIT.sub("_", use.name)[:64] or "_"
            # some servers refuse a history whose arguments are no object
            text = use.arguments if arguments else "{}"
            call = {"id": key, "type": "function", "function": {"name": name, "arguments": text}}
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": key, "content": use.output})
        else:
            told = {"tool": use.name} | ({} if arguments is None else arguments)
            messages.append(message_of("assistant", json.dumps(told, ensure_ascii=False)))
            result = f'<result tool="{_UNFIT.sub("_", use.name)}">\n{use.output}\n</result>'
            messages.append(message_of("user", result))
    return tuple(messages)


def spoken(text: str, *, native: bool) -> Message:
    """Return an answer as it stands in the model's own history."""
    told = {"tool": NONE, "message": text}
    return message_of("assistant", text if native else json.dumps(told, ensure_ascii=False))


class Way(Protocol):
    """How tools are offered and calls are read."""

    def opened(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Return the messages with what the model has to know of the way."""
        ...

    def asked(self, request: Request, *, free: bool) -> Request:
        """Return the request with the tools; unless `free`, only an answer may come."""
        ...

    def read(self, reply: Reply, *, free: bool) -> tuple[str, tuple[ToolCall, ...]]:
        """Return text and calls; raise `ModelFailed` where there is neither."""
        ...


class Native:
    """The API's own tool calls."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._functions = tuple(tool.function() for tool in tools)

    def opened(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        return tuple(messages)

    def asked(self, request: Request, *, free: bool) -> Request:
        # the tools stay when none may be called, or the server's prefix cache were lost
        return replace(request, tools=self._functions, tool_choice="auto" if free else "none")

    def read(self, reply: Reply, *, free: bool) -> tuple[str, tuple[ToolCall, ...]]:
        calls = reply.tool_calls if free else ()
        if not calls and not reply.text.strip():
            raise ModelFailed("tools were called where an answer was due", kind="empty")
        return reply.text, calls


class BySchema:
    """One closed schema: which tool, the arguments of all of them, and the message."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._fields: Schema = {}
        for tool in tools:
            for name, field in tool.fields.items():
                kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
                open_field = field | {"type": [*dict.fromkeys([*kinds, "null"])]}
                if "enum" in field:
                    open_field["enum"] = [*dict.fromkeys([*field["enum"], None])]
                if self._fields.setdefault(name, open_field)["type"] != open_field["type"]:
                    raise InputError(f"{tool.name}: {name} has another type in another tool")

    def opened(self, messages: Sequence[Message]) -> tuple[Message, ...]:
        sheet = "\n".join(
            f"- {tool.name}: {tool.description}\n  {json.dumps(tool.fields, ensure_ascii=False)}"
            for tool in self._tools.values()
        )
        protocol = fill(load_prompt(PROTOCOL, frozenset({"tools"})), {"tools": sheet})
        first, *rest = messages
        if first["role"] != "system":
            return (message_of("system", protocol), *messages)
        if first["content"].endswith(protocol):  # goes on from `Said.messages`
            return tuple(messages)
        return (message_of("system", f"{first['content']}\n\n{protocol}"), *rest)

    def asked(self, request: Request, *, free: bool) -> Request:
        names = [NONE, *self._tools] if free else [NONE]
        choice: Schema = {"tool": {"type": "string", "enum": names}}
        fields = self._fields if free else {}
        return replace(
            request, schema=closed_object(choice | fields | {"message": {"type": "string"}})
        )

    def read(self, reply: Reply, *, free: bool) -> tuple[str, tuple[ToolCall, ...]]:
        told = strict_json(reply.text)
        if not isinstance(told, dict) or not isinstance(told.get("tool"), str):
            raise ModelFailed('the answer is no object with a "tool"', kind="schema_violated")
        name = told["tool"]
        if name != NONE and free:
            fields = self._tools[name].fields if name in self._tools else self._fields
            own = {key: told[key] for key in fields if told.get(key) is not None}
            return "", (ToolCall(id="", name=name, arguments=json.dumps(own, ensure_ascii=False)),)
        text = told.get("message")
        if name != NONE or not isinstance(text, str) or not text.strip():
            raise ModelFailed('"tool" is "none", but "message" is empty', kind="schema_violated")
        return text, ()


def object_in(text: str) -> dict[str, Any] | None:
    """Return the object that a text of arguments holds; none at all stands for an empty one."""
    try:
        value = strict_json(text.strip() or "{}")
    except ModelFailed:
        return None
    return value if isinstance(value, dict) else None


def message_of(role: str, content: str) -> Message:
    return {"role": role, "content": content}
