"""One role's way to its model: what is sent, how often, with which budget, and what is kept."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from calling import GEMMA, HELLO, LUNA, NANO, Book, caller, model_settings, request
from fake_plan import Fault, FaultKind, Plan, adapter, names_of, served
from fake_server import FakeServer

from src.errors import ModelFailed, QuotaExhausted, ServerError
from src.llm.caller import Reply, Request
from src.llm.client import Message, Model
from src.records import seed_of
from src.settings import CallSettings, RateSettings, RetrySettings

KEY = "sk-test-77aa01"
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"note": {"type": "string"}, "score": {"type": "integer", "enum": [0, 1, 2, 3]}},
    "required": ["note", "score"],
    "additionalProperties": False,
}


@asynccontextmanager
async def asking(
    *faults: Fault, name: str = GEMMA, plan: Plan | None = None, **changes: object
) -> AsyncIterator[tuple[FakeServer, Model]]:
    async with asyncio.timeout(30), FakeServer(plan or Plan(faults=faults)) as server:
        model = Model(model_settings(server.url, name, **changes), KEY)
        try:
            yield server, model
        finally:
            await model.close()


def long(size: int) -> tuple[Message, ...]:
    """Return a prompt of so many bytes: about size / 4 tokens to the fake server."""
    return ({"role": "user", "content": "a" * size},)


async def sent(
    name: str, settings: CallSettings, *, served_as: str = "", **more: Any
) -> dict[str, Any]:
    """Return the body that a call sends."""
    async with asking(name=name) as (server, model):
        ask = Request(messages=HELLO, settings=settings, turn=3, **more)
        await caller(model, name=served_as, role="patient").ask(ask)
        return server.bodies_of("patient")[0]


@pytest.mark.parametrize(("name", "named"), [(GEMMA, True), (LUNA, False), (NANO, False)])
async def test_only_a_server_of_ours_reads_who_is_interviewed(name: str, named: bool) -> None:
    async with asking(name=name) as (server, model):
        await caller(model, role="analyst", sample=3).ask(request(turn=2))
    (entry,) = server.chats
    assert (entry.role, entry.sample, entry.turn) == ("analyst", 3, 2)
    assert entry.subject == names_of("persona-07")[not named]
    assert any("persona-07" in value for value in server.headers[entry.number].values()) is named


async def test_every_sampling_parameter_is_sent_to_a_server_of_ours() -> None:
    settings = CallSettings(temperature=0.6, top_p=0.9, top_k=40, max_tokens=256, timeout=5)
    stops = {"stop": ("\nInterviewer:",), "stop_token_ids": (128001, 128009)}
    found = await sent(GEMMA, settings, served_as=adapter(7), **stops)
    assert found == {
        "model": adapter(7),
        "messages": list(HELLO),
        "max_tokens": 256,
        "temperature": 0.6,
        "top_p": 0.9,
        "top_k": 40,
        "seed": seed_of(1, "persona-07", 1, 3, "patient"),
        "stop_token_ids": [128001, 128009],
        "stop": ["\nInterviewer:"],
    }


async def test_a_reasoning_model_is_sent_only_what_it_accepts() -> None:
    settings = CallSettings(temperature=0.6, top_p=0.9, top_k=40, max_tokens=256, timeout=5)
    found = await sent(NANO, settings, schema=SCHEMA)
    assert found == {
        "model": NANO,
        "messages": list(HELLO),
        "max_completion_tokens": 256,
        "reasoning_effort": "minimal",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
    }


async def test_samples_turns_and_roles_draw_by_seeds_of_their_own() -> None:
    async with asking() as (server, model):
        for role, sample, turn in [("a", 1, 1), ("a", 2, 1), ("a", 1, 2), ("b", 1, 1)]:
            await caller(model, role=role, sample=sample).ask(request(turn=turn))
        again = caller(model, role="a")
        await again.ask(request())
        seeds = [body["seed"] for role in "ab" for body in server.bodies_of(role)]
    assert len(set(seeds)) == 4
    assert seeds[0] == seeds[3]


@pytest.mark.parametrize(
    ("fault", "kind", "budgets"),
    [
        ("rate_limited", "rate_limited", [100] * 3),
        ("server_error", "transport_failed", [100] * 3),
        ("unavailable", "transport_failed", [100] * 3),
        ("dropped", "transport_failed", [100] * 3),
        ("cut_body", "transport_failed", [100] * 3),
        ("broken_json", "transport_failed", [100] * 3),
        ("html", "transport_failed", [100] * 3),
        ("no_choices", "transport_failed", [100] * 3),
        ("hang", "transport_failed", [100] * 3),
        ("bad_request", "request_refused", [100]),
        ("context_length", "context_exceeded", [100]),
        ("invalid_prompt", "prompt_refused", [100, 100]),
        ("refusal", "refused", [100, 100]),
        ("content_filter", "content_filtered", [100, 100]),
        ("reasoned_away", "budget_exhausted", [100, 200]),
        ("empty", "empty", [100, 100]),
        ("in_reasoning", "content_in_reasoning", [100, 100]),
        ("whitespace_loop", "whitespace_loop", [100, 100]),
    ],
)
async def test_each_failure_has_its_rule(fault: FaultKind, kind: str, budgets: list[int]) -> None:
    book = Book()
    async with asking(Fault(kind=fault)) as (server, model):
        with pytest.raises(ModelFailed) as caught:
            await caller(model, book).ask(request(timeout=0.6 if fault == "hang" else 5))
        tried = [body["max_tokens"] for body in server.bodies_of("interviewer")]
    assert caught.value.kind == kind
    assert caught.value.transport == (kind in {"rate_limited", "transport_failed"})
    assert tried == budgets
    outcome = "server_error" if fault in {"server_error", "unavailable"} else kind
    assert book.outcomes == [outcome] * len(budgets)
    assert [call.attempt for call in book.calls] == list(range(1, len(budgets) + 1))


async def test_a_server_of_ours_that_is_ending_is_waited_for_like_one_that_is_gone() -> None:
    ending = "cannot schedule new futures after shutdown"
    fault = Fault(kind="server_error", text=ending, times=5)  # more often than there are tries
    async with asking(fault, restart_wait=20) as (_, model):
        reply = await caller(model).ask(request())
    assert [call.outcome for call in reply.calls] == ["server_error"] * 5 + ["ok"]
    async with asking(fault) as (_, model):
        with pytest.raises(ModelFailed, match=ending):
            await caller(model).ask(request())


@pytest.mark.parametrize("fault", ["server_error", "empty", "refusal", "reasoned_away", "hang"])
async def test_a_failure_that_passes_leaves_an_answer_with_both_calls(fault: FaultKind) -> None:
    async with asking(Fault(kind=fault, attempt=1)) as (_, model):
        reply = await caller(model).ask(request(timeout=0.8))
    assert reply.text
    assert [call.outcome == "ok" for call in reply.calls] == [False, True]


@pytest.mark.parametrize(
    ("fault", "error"), [("insufficient_quota", QuotaExhausted), ("unauthorized", ServerError)]
)
async def test_what_concerns_the_run_is_tried_once(
    fault: FaultKind, error: type[Exception]
) -> None:
    book = Book()
    async with asking(Fault(kind=fault)) as (server, model):
        with pytest.raises(error):
            await caller(model, book).ask(request())
    assert len(server.chats) == 1
    assert book.outcomes == [getattr(error, "kind", None)]


async def test_a_text_that_is_cut_off_counts_but_json_does_not() -> None:
    async with asking(Fault(kind="cut_off"), name=LUNA) as (server, model):
        reply = await caller(model).ask(request())
        assert reply.text
        assert reply.truncated
        ask = Request(messages=HELLO, settings=request().settings, turn=2, schema=SCHEMA)
        with pytest.raises(ModelFailed) as caught:
            await caller(model).ask(ask)
    assert caught.value.kind == "budget_exhausted"
    assert [body["max_completion_tokens"] for body in server.bodies_of("interviewer")[1:]] == [
        100,
        200,
    ]


async def test_a_doubled_budget_must_fit_too() -> None:
    async with asking(Fault(kind="reasoned_away"), context=320) as (server, model):
        with pytest.raises(ModelFailed) as caught:
            await caller(model).ask(request(max_tokens=200))
    assert caught.value.kind == "context_exceeded"
    assert len(server.chats) == 1


async def test_a_wait_that_the_server_asks_for_is_kept_however_long() -> None:
    fault = Fault(kind="rate_limited", attempt=1, after=0.4)
    async with asking(fault) as (server, model):
        await caller(model).ask(request())
    first, second = server.chats
    assert 0.39 < second.at - first.at < 1


async def test_waits_grow_up_to_the_longest() -> None:
    retry = RetrySettings(tries=4, first_wait=0.1, longest_wait=0.25)
    async with asking(Fault(kind="server_error"), retry=retry) as (server, model):
        with pytest.raises(ModelFailed):
            await caller(model).ask(request())
    times = [entry.at for entry in server.chats]
    waits = [later - earlier for earlier, later in pairwise(times)]
    for waited, least in zip(waits, (0.1, 0.2, 0.25), strict=True):
        assert least - 0.05 < waited < least + 1.5  # a busy machine is late, never early


async def test_who_backs_off_holds_no_permit() -> None:
    fault = Fault(kind="rate_limited", role="slow", attempt=1, after=1.0)
    async with asking(fault, calls=2) as (server, model):

        def ask(role: str, sample: int) -> "asyncio.Task[Reply]":
            return asyncio.create_task(caller(model, role=role, sample=sample).ask(request()))

        slow = [ask("slow", n) for n in (1, 2)]
        await arrived(server, 2)
        began = asyncio.get_running_loop().time()
        await asyncio.gather(*(ask("fast", n) for n in range(5)))
        passed = asyncio.get_running_loop().time() - began
        await asyncio.gather(*slow)
    assert passed < 0.5
    assert server.peak <= 2


@pytest.mark.parametrize("limiter", ["bucket", "sliding"])
async def test_30_callers_at_a_token_limit_finish_without_a_failure(limiter: str) -> None:
    limited = served(GEMMA, tokens=24_000, window=0.5, limiter=limiter)
    rate = RateSettings(requests=None, tokens=20_000, seconds=0.5)
    retry = RetrySettings(tries=6, first_wait=0.05, longest_wait=0.5)
    book = Book()
    plan = Plan(models=(limited,))
    async with asking(plan=plan, rate=rate, retry=retry) as (server, model):

        async def interview(sample: int) -> None:
            role = caller(model, book, sample=sample)
            for turn in (1, 2):
                await role.ask(request(long(1000), turn=turn, max_tokens=1000))

        await asyncio.gather(*(interview(sample) for sample in range(30)))
    assert book.outcomes.count("ok") == 60
    if limiter == "bucket":  # as the paid API's; a strict window is met by waiting as it says
        assert book.outcomes.count("rate_limited") <= 20  # a busy machine bunches them
    assert server.log[-1].at - server.log[0].at > 0.5


async def test_a_first_prompt_is_bounded_by_half_its_bytes() -> None:
    async with asking(context=2000) as (server, model):
        await caller(model).ask(request(long(3700)))
        assert [entry.path for entry in server.log] == ["chat"]
        await caller(model, sample=2).ask(request(long(4200)))
    assert [entry.path for entry in server.log] == ["chat", "tokenize", "chat"]


async def test_a_later_prompt_is_bounded_by_what_was_reported_and_what_was_added() -> None:
    async with asking(context=2000) as (server, model):
        role = caller(model)
        await role.ask(request(long(3700)))
        await role.ask(request((*long(3700), *dialogue(900)), turn=2))
        assert [entry.path for entry in server.log] == ["chat", "chat"]
        await role.ask(request((*long(3700), *dialogue(2600)), turn=3))
    assert [entry.path for entry in server.log] == ["chat", "chat", "tokenize", "chat"]


async def test_what_was_not_reported_stays_bounded_by_its_bytes() -> None:
    async with asking(Fault(kind="no_usage"), context=2000) as (server, model):
        role = caller(model)
        await role.ask(request(long(3700)))
        await role.ask(request((*long(3700), *dialogue(900)), turn=2))
    assert [entry.path for entry in server.log] == ["chat", "tokenize", "chat"]


async def test_a_prompt_that_cannot_fit_is_never_sent() -> None:
    book = Book()
    async with asking(context=2000) as (server, model):
        with pytest.raises(ModelFailed, match="2000") as caught:
            await caller(model, book).ask(request(long(9000)))
    assert (caught.value.kind, caught.value.transport) == ("context_exceeded", False)
    assert [entry.path for entry in server.log] == ["tokenize"]
    assert book.calls == []


async def test_counting_is_tried_again_like_any_call() -> None:
    async with asking(plan=Plan(count_failures=2), context=2000) as (server, model):
        await caller(model).ask(request(long(4200)))
    assert [entry.path for entry in server.log] == ["tokenize"] * 3 + ["chat"]


async def test_where_nobody_counts_the_bound_decides() -> None:
    async with asking(plan=Plan(counts=False), context=2000) as (server, model):
        with pytest.raises(ModelFailed):
            await caller(model).ask(request(long(4200)))
    assert [entry.path for entry in server.log] == ["tokenize"]


async def test_each_role_waits_as_long_as_it_is_told() -> None:
    loop = asyncio.get_running_loop()
    retry = RetrySettings(tries=1, first_wait=0, longest_wait=1)
    async with asking(Fault(kind="hang"), retry=retry) as (_, model):
        for role, seconds in (("patient", 0.1), ("scorer", 0.4)):
            began = loop.time()
            with pytest.raises(ModelFailed, match=rf"within {seconds:g} s"):
                await caller(model, role=role).ask(request(timeout=seconds))
            assert loop.time() - began == pytest.approx(seconds, abs=0.15)


async def test_a_call_is_written_down_before_it_is_sent() -> None:
    there: list[int] = []
    async with asking(Fault(kind="server_error", attempt=1)) as (server, model):
        book = Book(on_asked=lambda: there.append(len(server.chats)))
        await caller(model, book, role="scorer").ask(request(turn=4))
    assert book.asks == [("scorer", 4)] * 2
    assert there == [0, 1]


async def test_a_delivered_call_is_kept_with_all_that_the_server_says() -> None:
    book = Book()
    async with asking(name=LUNA) as (server, model):
        reply = await caller(model, book).ask(request())
    (call,), (entry,) = book.calls, server.chats
    assert reply.calls == (call,)
    assert (call.asked, call.reported, call.outcome, call.finish) == (LUNA, LUNA, "ok", "stop")
    assert call.input_tokens == entry.prompt_tokens
    assert call.output_tokens == entry.completion_tokens
    assert (call.cached_tokens, call.reasoning_tokens) == (0, 0)
    assert call.written_tokens is not None
    assert 0 < call.seconds < 5


async def test_the_tokens_of_an_answer_of_no_use_are_kept() -> None:
    book = Book()
    async with asking(Fault(kind="reasoned_away"), name=NANO) as (_, model):
        with pytest.raises(ModelFailed):
            await caller(model, book).ask(request())
    assert [call.output_tokens for call in book.calls] == [100, 200]
    assert [call.reasoning_tokens for call in book.calls] == [100, 200]


async def test_a_cancelled_call_is_written_down_as_such() -> None:
    book = Book()
    async with asking(Fault(kind="hang")) as (server, model):
        task = asyncio.create_task(caller(model, book).ask(request()))
        await arrived(server, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.sleep(0.1)
    assert book.outcomes == ["cancelled"]
    assert server.chats[0].status == 499


async def test_the_key_stands_in_no_record_and_no_error() -> None:
    book, texts = Book(), []
    quoting = [Fault(kind="bad_request", text=f"{KEY} is not welcome", turn=1)]
    others: tuple[FaultKind, ...] = ("unauthorized", "rate_limited", "insufficient_quota")
    quoting += [Fault(kind=kind, text=f"key {KEY}", turn=n) for n, kind in enumerate(others, 2)]
    quoting += [Fault(kind="refusal", text=f"no {KEY}", turn=5), Fault(kind="no_choices", text=KEY)]
    async with asking(*quoting) as (_, model):
        for turn in range(1, 7):
            with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever it is
                await caller(model, book).ask(request(turn=turn))
            texts.append(repr(caught.value))
    kept = " ".join([*texts, *(call.model_dump_json() for call in book.calls)])
    assert len(texts) == 6
    assert KEY not in kept


async def arrived(server: FakeServer, number: int) -> None:
    """Return once so many requests are there."""
    async with asyncio.timeout(5):
        while len(server.chats) < number:  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.01)


def dialogue(size: int) -> tuple[Message, Message]:
    """Return an answer and a question of so many bytes together."""
    half = "b" * (size // 2)
    return {"role": "assistant", "content": half}, {"role": "user", "content": half}
