"""A model that uses tools before it answers: both ways, right and wrong, and never endlessly."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from calling import GEMMA, LUNA, Book, call_settings, caller, model_settings
from fake_plan import Fault, Plan, ToolPlay
from fake_server import FakeServer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from src.errors import InputError, ModelFailed
from src.llm.caller import Asking, Reply, Request
from src.llm.client import Message, Model
from src.llm.responses import read_response
from src.llm.structured import closed_object, lint
from src.llm.tools import CALLS_AT_MOST, Ran, Said, Tool, ToolCall, converse, exchanged, spoken
from src.records import ToolUse

NOTES = Tool(
    name="update_interview_notepad",
    description="Keeps notes.",
    parameters=closed_object(
        {
            "actions": {
                "type": "array",
                "items": closed_object({"text": {"type": ["string", "null"]}}),
            }
        }
    ),
)
DISORDER = Tool(
    name="lookup_icd_disorder",
    description="Looks a code up.",
    parameters=closed_object({"code": {"type": "string"}}),
)
STOP = Tool(
    name="safety_stop",
    description="Ends it.",
    parameters=closed_object(
        {
            "kind": {"type": "string", "enum": ["acute_medical", "self_harm"]},
            "reason": {"type": ["string", "null"]},
        }
    ),
    ends=True,
)
LIST = Tool(name="list_all", description="Lists everything.", parameters=closed_object({}))
TOOLS = (NOTES, DISORDER, STOP, LIST)
ASKED: tuple[Message, ...] = (
    {"role": "system", "content": "You ask."},
    {"role": "user", "content": "Begin."},
    {"role": "assistant", "content": "How are you?"},
    {"role": "user", "content": "Tired."},
)
WAYS = pytest.mark.parametrize("native", [True, False], ids=["native", "schema"])


class Desk:
    """Runs tools, and keeps what it ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, Mapping[str, Any]]] = []

    async def __call__(self, name: str, arguments: Mapping[str, Any]) -> Ran:
        self.ran.append((name, arguments))
        if arguments.get("code") == "9Z99":
            raise InputError("9Z99 is no code")
        return Ran(output=f"{name} done", ends=name == "safety_stop")


class Replies:
    """Gives replies one by one, the last for ever, and keeps what it was asked."""

    def __init__(self, *replies: Reply) -> None:
        self._replies, self.requests = replies, list[Request]()

    async def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        return self._replies[min(len(self.requests), len(self._replies)) - 1]


def says(text: str = "", *called: tuple[str, str]) -> Reply:
    calls = tuple(ToolCall(id="x", name=name, arguments=given) for name, given in called)
    return Reply(text=text, truncated=False, calls=(), tool_calls=calls)


def does(**told: object) -> Reply:
    return says(json.dumps(told))


async def talk(
    asking: Asking,
    *,
    native: bool,
    rounds: int = 3,
    desk: Desk | None = None,
    parallel: bool = False,
) -> Said:
    return await converse(
        asking,
        Request(messages=ASKED, settings=call_settings(max_tokens=400), turn=2),
        TOOLS,
        rounds=rounds,
        execute=desk or Desk(),
        native=native,
        parallel=parallel,
    )


@asynccontextmanager
async def server_of(
    play: ToolPlay, *faults: Fault, native: bool
) -> AsyncIterator[tuple[FakeServer, Asking, Book]]:
    """Yield a server, a way to its model, and what was written down."""
    book = Book()
    async with asyncio.timeout(30), FakeServer(Plan(tools=play, faults=faults)) as server:
        model = Model(model_settings(server.url, LUNA if native else GEMMA), "k")
        try:
            yield server, caller(model, book), book
        finally:
            await model.close()


# With a server ---------------------------------------------------------------------------------


@WAYS
async def test_a_model_uses_tools_and_then_answers(native: bool) -> None:
    desk = Desk()
    async with server_of("usual", native=native) as (server, asking, book):
        said = await talk(asking, native=native, desk=desk)
    assert said.text
    assert not said.capped
    assert [use.name for use in said.uses] == [name for name, _ in desk.ran]
    assert said.uses
    assert all(use.ok and use.output == f"{use.name} done" for use in said.uses)
    assert len(book.calls) == len(said.calls) == len(server.chats)


@WAYS
async def test_a_model_may_answer_at_once(native: bool) -> None:
    async with server_of("none", native=native) as (server, asking, _):
        said = await talk(asking, native=native)
    assert (bool(said.text), said.uses, len(server.chats)) == (True, (), 1)


@WAYS
@pytest.mark.parametrize("play", ["unknown", "bad_ids", "malformed", "endless", "many"])
async def test_whatever_a_model_calls_it_ends_with_an_answer(play: ToolPlay, native: bool) -> None:
    async with server_of(play, native=native) as (server, asking, book):
        said = await talk(asking, native=native)
    assert said.text
    assert set(book.outcomes) == {"ok"}
    assert len(server.chats) <= 4
    assert not any(use.ok for use in said.uses if play in {"unknown", "malformed"})


@WAYS
async def test_used_up_rounds_force_an_answer_and_are_told(native: bool) -> None:
    async with server_of("endless", native=native) as (server, asking, _):
        said = await talk(asking, native=native, rounds=5)
        bodies = server.bodies_of("interviewer")
    assert said.capped
    assert (len(said.uses), len(bodies)) == (5, 6)
    if native:
        assert [body["tool_choice"] for body in bodies] == ["auto"] * 5 + ["none"]
        assert all(body["tools"] == bodies[0]["tools"] for body in bodies)
    else:
        schema = bodies[-1]["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["tool"]["enum"] == ["none"]


@WAYS
async def test_each_prompt_begins_with_all_of_the_last_one(native: bool) -> None:
    async with server_of("endless", native=native) as (server, asking, _):
        await talk(asking, native=native)
        prompts = [body["messages"] for body in server.bodies_of("interviewer")]
    assert len(prompts) == 4
    for one, next_one in pairwise(prompts):
        assert next_one[: len(one)] == one


@WAYS
async def test_a_tool_that_ends_the_conversation_is_the_last_request(native: bool) -> None:
    async with server_of("stop", native=native) as (server, asking, _):
        said = await talk(asking, native=native)
    assert (said.ended, said.text, len(server.chats)) == (True, "", 1)
    assert [use.name for use in said.uses] == ["safety_stop"]


async def test_prose_where_a_schema_was_due_is_asked_again_and_fails_in_the_end() -> None:
    fault = Fault(kind="prose")
    async with server_of("usual", fault, native=False) as (server, asking, book):
        with pytest.raises(ModelFailed) as caught:
            await talk(asking, native=False, rounds=2)
        prompts = [body["messages"] for body in server.bodies_of("interviewer")]
    assert caught.value.kind == "unparseable"
    assert len(book.calls) == 3
    assert [len(prompt) for prompt in prompts] == [4, 6, 6]
    assert prompts[1][-1]["content"].startswith("the answer is no JSON")


async def test_a_model_that_only_ever_calls_although_it_may_not_is_a_typed_failure() -> None:
    calling = says("", ("list_all", "{}"))
    with pytest.raises(ModelFailed) as caught:
        await talk(Replies(calling), native=True)
    assert caught.value.kind == "empty"


# What came of the calls -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("oracle", "{}", "no tool has this name; there are: update_interview_notepad, "),
        ("lookup_icd_disorder", '{"code": ', "the arguments are no JSON object"),
        ("lookup_icd_disorder", '["6B00"]', "the arguments are no JSON object"),
        ("lookup_icd_disorder", "NaN", "the arguments are no JSON object"),
        ("lookup_icd_disorder", "{}", "the argument code is missing"),
        ("lookup_icd_disorder", "", "the argument code is missing"),
        ("lookup_icd_disorder", '{"code": 6}', "the argument code is no string"),
        ("lookup_icd_disorder", '{"code": "6B00", "why": ""}', "no argument is named 'why'"),
        ("lookup_icd_disorder", '{"code": "9Z99"}', "9Z99 is no code"),
        ("safety_stop", '{"kind": "boredom"}', "the argument kind is none of: acute_medical, "),
        ("update_interview_notepad", '{"actions": "add"}', "the argument actions is no array"),
    ],
)
async def test_a_wrong_call_is_answered_to_the_model_and_recorded(
    name: str, arguments: str, line: str
) -> None:
    asking = Replies(says("", (name, arguments)), says("How is it?"))
    said = await talk(asking, native=True)
    assert said.text == "How is it?"
    (use,) = said.uses
    assert (use.name, use.arguments, use.ok) == (name, arguments, False)
    assert use.output.startswith(f"error: {line}")
    assert asking.requests[1].messages[-1]["content"] == use.output


async def test_what_may_be_left_out_is_null() -> None:
    desk = Desk()
    await talk(Replies(says("", ("safety_stop", '{"kind": "self_harm"}'))), native=True, desk=desk)
    assert desk.ran == [("safety_stop", {"kind": "self_harm", "reason": None})]


async def test_of_a_schemas_answer_a_tool_gets_its_own_arguments_alone() -> None:
    desk = Desk()
    looked = does(
        tool="lookup_icd_disorder", actions=None, code="6B00", kind="self_harm", message=""
    )
    said = await talk(Replies(looked, does(tool="none", message="And?")), native=False, desk=desk)
    assert desk.ran == [("lookup_icd_disorder", {"code": "6B00"})]
    assert said.uses[0].arguments == '{"code": "6B00"}'


@pytest.mark.parametrize(
    "reply",
    [
        does(tool="none", message=" "),
        does(message="Hello"),
        says("[]"),
        does(tool="none"),
        says("{"),
    ],
)
async def test_an_answer_by_schema_that_is_none_is_asked_again(reply: Reply) -> None:
    asking = Replies(reply, does(tool="none", message="And then?"))
    said = await talk(asking, native=False)
    assert said.text == "And then?"
    assert asking.requests[1].messages[-2]["content"] == reply.text
    assert said.messages == asking.requests[0].messages


async def test_calls_of_one_response_run_in_their_order_and_none_after_the_end() -> None:
    desk = Desk()
    calls = [("list_all", "{}"), ("safety_stop", '{"kind": "self_harm"}'), ("list_all", "{}")]
    said = await talk(Replies(says("", *calls)), native=True, desk=desk)
    assert [name for name, _ in desk.ran] == ["list_all", "safety_stop"]
    assert [(use.name, use.ok) for use in said.uses] == [
        ("list_all", True),
        ("safety_stop", True),
        ("list_all", False),
    ]


async def test_a_loop_within_one_response_is_cut_and_every_call_recorded() -> None:
    desk = Desk()
    asking = Replies(says("", *[("list_all", "{}")] * 50), says("And?"))
    said = await talk(asking, native=True, desk=desk)
    assert len(desk.ran) == CALLS_AT_MOST
    assert len(said.uses) == 50
    assert sum(use.ok for use in said.uses) == CALLS_AT_MOST


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_stop_is_run_however_many_calls_stand_before_it(parallel: bool) -> None:
    desk = Desk()
    calls = [("list_all", "{}")] * (CALLS_AT_MOST + 3) + [("safety_stop", '{"kind": "self_harm"}')]
    asking = Replies(says("", *calls), says("And?"))
    said = await talk(asking, native=True, desk=desk, parallel=parallel)
    assert (said.ended, len(asking.requests), len(said.uses)) == (True, 1, len(calls))
    assert [name for name, _ in desk.ran] == ["list_all"] * CALLS_AT_MOST + ["safety_stop"]
    assert [use.ok for use in said.uses] == [True] * CALLS_AT_MOST + [False] * 3 + [True]


async def test_a_stop_with_wrong_arguments_is_answered_and_the_talk_goes_on() -> None:
    calls = [("list_all", "{}")] * CALLS_AT_MOST + [("safety_stop", '{"kind": "boredom"}')]
    said = await talk(Replies(says("", *calls), says("And?")), native=True)
    assert (said.text, said.ended, said.uses[-1].ok) == ("And?", False, False)


async def test_parallel_calls_run_at_once_and_come_back_in_their_order() -> None:
    under_way, most, order = 0, 0, []

    async def slow(name: str, arguments: Mapping[str, Any]) -> Ran:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.03 if arguments["code"] == "6A70" else 0)
        under_way -= 1
        order.append(arguments["code"])
        return Ran(output=arguments["code"])

    calls = [("lookup_icd_disorder", json.dumps({"code": code})) for code in ("6A70", "6B00")]
    for parallel in (True, False):
        order, most = [], 0
        request = Request(messages=ASKED, settings=call_settings(), turn=1)
        said = await converse(
            Replies(says("", *calls), says("Done.")),
            request,
            TOOLS,
            rounds=2,
            execute=slow,
            native=True,
            parallel=parallel,
        )
        assert [use.output for use in said.uses] == ["6A70", "6B00"]
        assert (most, order) == ((2, ["6B00", "6A70"]) if parallel else (1, ["6A70", "6B00"]))


# What stands in the history ---------------------------------------------------------------------


USES = st.lists(
    st.builds(
        ToolUse,
        name=st.sampled_from(["list_all", "oracle of delphi", "", "x" * 90]) | st.text(max_size=9),
        arguments=st.sampled_from(["{}", '{"code": "6B00"}', "{", "[1]", ""]) | st.text(max_size=9),
        ok=st.booleans(),
        output=st.text(max_size=20),
    ),
    max_size=5,
)


@given(USES)
def test_a_native_history_is_one_that_the_api_takes(uses: list[ToolUse]) -> None:
    messages = exchanged(uses, turn=3, native=True)
    assert [message["role"] for message in messages] == ["assistant", "tool"] * len(uses)
    for (asked, answered), use in zip(
        zip(messages[::2], messages[1::2], strict=True), uses, strict=True
    ):
        (call,) = asked["tool_calls"]
        assert call["id"] == answered["tool_call_id"]
        assert isinstance(json.loads(call["function"]["arguments"]), dict)
        assert 1 <= len(call["function"]["name"]) <= 64
        assert answered["content"] == use.output
    ids = [message["tool_call_id"] for message in messages[1::2]]
    assert len({*ids}) == len(ids)


@given(USES, USES)
def test_what_is_called_later_changes_nothing_before(
    uses: list[ToolUse], more: list[ToolUse]
) -> None:
    for native in (True, False):
        before = exchanged(uses, turn=3, native=native)
        assert exchanged([*uses, *more], turn=3, native=native)[: len(before)] == before


@given(USES, st.text(max_size=9))
def test_by_schema_the_roles_alternate_and_every_call_is_json(
    uses: list[ToolUse], text: str
) -> None:
    messages = [*exchanged(uses, turn=3, native=False), spoken(text, native=False)]
    assert [message["role"] for message in messages] == ["assistant", "user"] * len(uses) + [
        "assistant"
    ]
    told = [json.loads(message["content"]) for message in messages[::2]]
    assert [one["tool"] for one in told if "code" not in one][-1] == "none"
    assert told[-1]["message"] == text


# What is asked ----------------------------------------------------------------------------------


async def test_the_schema_is_one_that_every_server_takes() -> None:
    asking = Replies(does(tool="none", message="And?"))
    await talk(asking, native=False)
    schema = asking.requests[0].schema
    assert schema is not None
    assert not lint(schema)
    assert list(schema["properties"]) == ["tool", "actions", "code", "kind", "reason", "message"]
    assert schema["properties"]["tool"]["enum"] == ["none", *(tool.name for tool in TOOLS)]
    assert schema["properties"]["kind"]["enum"] == ["acute_medical", "self_harm", None]
    assert not asking.requests[0].tools


async def test_by_schema_the_instructions_end_with_every_tool_and_are_not_repeated() -> None:
    asking = Replies(does(tool="none", message="And?"))
    said = await talk(asking, native=False)
    system = said.messages[0]["content"]
    assert system.startswith("You ask.\n\n")
    assert all(f"- {tool.name}: {tool.description}" in system for tool in TOOLS)
    request = Request(messages=said.messages, settings=call_settings(), turn=2)
    again = await converse(asking, request, TOOLS, rounds=0, execute=Desk(), native=False)
    assert again.messages == said.messages


@pytest.mark.parametrize(
    ("name", "parameters", "line"),
    [
        ("none", closed_object({}), "no tool can be named 'none'"),
        ("look up", closed_object({}), "no tool can be named 'look up'"),
        ("look", {"type": "object", "properties": {"a": {}}}, "additionalProperties"),
        ("look", closed_object({"tool": {"type": "string"}}), "an argument is named 'tool'"),
    ],
)
def test_a_tool_that_some_server_refuses_is_none(
    name: str, parameters: dict[str, Any], line: str
) -> None:
    with pytest.raises(ValidationError, match=line):
        Tool(name=name, description="d", parameters=parameters)


async def test_two_tools_that_mean_different_things_by_a_name_are_refused() -> None:
    other = Tool(
        name="other", description="d", parameters=closed_object({"code": {"type": "integer"}})
    )
    with pytest.raises(InputError, match="code"):
        await converse(
            Replies(does(tool="none", message="And?")),
            Request(messages=ASKED, settings=call_settings(), turn=1),
            (DISORDER, other),
            rounds=1,
            execute=Desk(),
            native=False,
        )


# What a response says ---------------------------------------------------------------------------


def response(calls: object, content: object = None) -> dict[str, Any]:
    message = {"role": "assistant", "content": content, "tool_calls": calls}
    return {"model": "m", "choices": [{"message": message, "finish_reason": "tool_calls"}]}


def call_of(arguments: object) -> dict[str, Any]:
    return {"id": "c", "type": "function", "function": {"name": "look", "arguments": arguments}}


@pytest.mark.parametrize(
    ("given", "read"), [('{"a": 1', '{"a": 1'), ({"a": 1}, '{"a": 1}'), (None, "{}"), ("", "")]
)
def test_tool_calls_with_an_empty_content_are_an_answer(given: object, read: str) -> None:
    found = read_response(response([call_of(given)]), whole=True, tools=True)
    assert found.failure is None
    assert found.tool_calls == (ToolCall(id="c", name="look", arguments=read),)


@pytest.mark.parametrize("calls", [[{}], "look", [None], [{"function": {}}], [{"function": "x"}]])
def test_tool_calls_in_no_known_form_are_a_typed_failure(calls: object) -> None:
    found = read_response(response(calls, "Hello"), whole=False, tools=True)
    assert (found.failure, found.tool_calls) == ("unparseable", ())


def test_where_none_may_be_called_a_call_is_no_answer() -> None:
    found = read_response(response([call_of("{}")]), whole=False)
    assert (found.failure, found.tool_calls) == ("empty", ())


def test_the_size_of_a_prompt_counts_tools_and_calls() -> None:
    use = ToolUse(name="look", arguments='{"code": "6B00"}', ok=True, output="x" * 100)
    plain = Request(messages=ASKED, settings=call_settings(), turn=1)
    called = replace(plain, messages=(*ASKED, *exchanged([use], turn=1, native=True)))
    offered = replace(plain, tools=(NOTES.function(),))
    assert called.size - plain.size > 100 + len(use.arguments)
    assert offered.size - plain.size >= len(json.dumps(NOTES.parameters))


def test_halves_of_characters_become_signs_that_can_be_sent_and_stored() -> None:
    call = {"function": {"name": "look\ud800", "arguments": '{"a": "\ud83d"}'}}
    found = read_response(response([call], "so\udc00"), whole=False, tools=True)
    assert found.text == "so?"
    assert found.tool_calls == (ToolCall(id="", name="look?", arguments='{"a": "?"}'),)
