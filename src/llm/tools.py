"""A model that may use tools before it answers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from src.errors import InputError, ModelFailed
from src.llm.caller import Asking, Request
from src.llm.client import Message
from src.llm.offering import BySchema, Native, Tool, Way, exchanged, message_of, object_in, spoken
from src.llm.responses import ToolCall
from src.llm.structured import Schema
from src.records import Call, ToolUse

__all__ = ["Execute", "Ran", "Said", "Tool", "ToolCall", "converse", "exchanged", "spoken"]

CALLS_AT_MOST = 8
"""Calls of one response that are run, beside those that end the conversation: a loop within one
would fill the window."""
KINDS: Mapping[str, type] = {"string": str, "array": list, "object": dict, "boolean": bool}


@dataclass(frozen=True, kw_only=True)
class Ran:
    """What came of one call."""

    output: str
    ok: bool = True
    ends: bool = False
    """Whether it ends the conversation: no further request is sent."""


Execute = Callable[[str, Mapping[str, Any]], Awaitable[Ran]]
"""Runs a tool by name with arguments that have its fields; an `InputError` is a wrong call."""


@dataclass(frozen=True, kw_only=True)
class Said:
    """What a model answered, and what it did before."""

    text: str
    """Empty where a tool ended the conversation."""
    uses: tuple[ToolUse, ...]
    calls: tuple[Call, ...]
    messages: tuple[Message, ...]
    """The request's messages with the tool calls behind them: where another request goes on."""
    truncated: bool = False
    capped: bool = False
    """Whether an answer was forced, since no round was left."""
    ended: bool = False


async def converse(
    asking: Asking,
    request: Request,
    tools: Sequence[Tool],
    *,
    rounds: int,
    execute: Execute,
    native: bool,
    parallel: bool = False,
    used: int = 0,
) -> Said:
    """Return a model's answer after at most so many responses that are none.

    `used`: calls of the same turn that stand in the request's messages already.
    Wrong calls are answered to the model and recorded, never raised. Raises `ModelFailed` where
    the last response, which may call nothing, is no answer either. With `native` false the
    request's schema is set here.
    """
    way: Way = Native(tools) if native or not tools else BySchema(tools)
    start = way.opened(request.messages)
    uses: tuple[ToolUse, ...] = ()
    calls: tuple[Call, ...] = ()
    aside: tuple[Message, ...] = ()
    """An unreadable answer and why: shown once, so that prompts go on growing after it."""
    for left in range(rounds, -1, -1):
        messages = start + exchanged(uses, turn=request.turn, native=native, used=used)
        asked = way.asked(replace(request, messages=messages + aside), free=left > 0)
        reply = await asking.ask(asked)
        calls += reply.calls
        try:
            text, wanted = way.read(reply, free=left > 0)
        except ModelFailed as error:
            if not left or native:
                raise
            aside = (message_of("assistant", reply.text), message_of("user", f"{error}"))
            continue
        aside = ()
        new, ended = await _run(wanted, tools, execute, parallel=parallel)
        uses += new
        if ended or not wanted:
            return Said(
                text="" if ended else text,
                uses=uses,
                calls=calls,
                messages=start + exchanged(uses, turn=request.turn, native=native, used=used),
                truncated=reply.truncated,
                capped=bool(uses) and not left,
                ended=ended,
            )
    raise AssertionError("the last response is an answer or refused")


async def _run(
    wanted: Sequence[ToolCall], tools: Sequence[Tool], execute: Execute, *, parallel: bool
) -> tuple[tuple[ToolUse, ...], bool]:
    """Run what one response asks for; return it in the order of the calls, and whether it ends."""
    known = {tool.name: tool for tool in tools}
    ending = {tool.name for tool in tools if tool.ends}
    others = [n for n, call in enumerate(wanted) if call.name not in ending]
    over = frozenset(others[CALLS_AT_MOST:])  # what ends the conversation is never over
    due = [n for n in range(len(wanted)) if n not in over]
    ran: dict[int, Ran] = {}
    for group in [due] if parallel else [[n] for n in due]:
        if any(one.ends for one in ran.values()):
            break
        came = await asyncio.gather(*(_ran(wanted[n], known, execute) for n in group))
        ran |= zip(group, came, strict=True)
    late = Ran(output="not run: the conversation had ended", ok=False)
    cut = Ran(output=f"not run: at most {CALLS_AT_MOST} calls in one response", ok=False)
    came = [ran.get(n, cut if n in over else late) for n in range(len(wanted))]
    uses = tuple(
        ToolUse(name=call.name, arguments=call.arguments, ok=one.ok, output=one.output)
        for call, one in zip(wanted, came, strict=True)
    )
    return uses, any(one.ends for one in came)


async def _ran(call: ToolCall, known: Mapping[str, Tool], execute: Execute) -> Ran:
    """Run one call; a wrong one comes to a line that the model can act on."""
    tool = known.get(call.name)
    if tool is None:
        return _wrong(f"no tool has this name; there are: {', '.join(known)}")
    given = object_in(call.arguments)
    if given is None:
        return _wrong("the arguments are no JSON object")
    arguments = dict.fromkeys(tool.fields) | given
    if unknown := sorted(given.keys() - tool.fields.keys()):
        return _wrong(f"no argument is named {unknown[0][:60]!r}")
    for name, field in tool.fields.items():
        if line := _unfit(name, arguments[name], field):
            return _wrong(line)
    try:
        return await execute(call.name, arguments)
    except InputError as error:
        return _wrong(f"{error}")


def _unfit(name: str, value: object, field: Schema) -> str | None:
    """Return what is wrong with an argument at first sight; its inside is the tool's business."""
    kinds = field["type"] if isinstance(field["type"], list) else [field["type"]]
    if value is None:
        return None if "null" in kinds else f"the argument {name} is missing"
    if not any(isinstance(value, KINDS.get(kind, object)) for kind in kinds):
        return f"the argument {name} is no {kinds[0]}"
    if "enum" in field and value not in field["enum"]:
        return f"the argument {name} is none of: {', '.join(map(str, field['enum']))}"
    return None


def _wrong(line: str) -> Ran:
    return Ran(output=f"error: {line}", ok=False)
