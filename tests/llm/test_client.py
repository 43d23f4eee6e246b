"""The one door to models: what is sent, what comes back typed, and how much goes at once."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import get_args

import pytest
from calling import GEMMA, LUNA, NANO, model_settings
from fake_plan import Fault, FaultKind, Plan, served
from fake_process import fake_process
from fake_server import FakeServer

from src.errors import ModelFailed, QuotaExhausted, ServerError, TacitError
from src.llm.client import Model, TryAgain, failure_of
from src.settings import RateSettings

ROOT = Path(__file__).resolve().parents[2]
KEY = "sk-test-3f1b9c"
LABEL = "persona-07/1/1/interviewer"
ROUNDS, CALLS = 5, 30


@asynccontextmanager
async def asking(
    plan: Plan | None = None, name: str = GEMMA, *, key: str | None = None, **changes: object
) -> AsyncIterator[tuple[FakeServer, Model]]:
    async with asyncio.timeout(30), FakeServer(plan) as server:
        model = Model(model_settings(server.url, name, **changes), key)
        try:
            yield server, model
        finally:
            await model.close()


def body(name: str = GEMMA, text: str = "Hello") -> dict[str, object]:
    budget = "max_tokens" if name == GEMMA else "max_completion_tokens"
    return {"model": name, "messages": [{"role": "user", "content": text}], budget: 100}


async def chat(model: Model, *, seconds: float = 5, tokens: int = 200) -> object:
    sent = body(model.settings.name)
    return await model.chat(sent, seconds=seconds, tokens=tokens, label=LABEL)


async def failing(fault: Fault, *, seconds: float = 5) -> tuple[TacitError, FakeServer]:
    """Return what a call ends in that meets a fault."""
    async with asking(Plan(faults=(fault,))) as (server, model):
        with pytest.raises(TacitError) as caught:
            await chat(model, seconds=seconds)
    return caught.value, server


async def test_a_server_lists_its_models() -> None:
    async with asking() as (_, model):
        listed = await model.listed()
    assert GEMMA in listed
    assert any(name.startswith("persona-07-") for name in listed)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("rate_limited", "rate_limited"),
        ("server_error", "transport_failed"),
        ("unavailable", "transport_failed"),
        ("dropped", "transport_failed"),
        ("cut_body", "transport_failed"),
        ("broken_json", "transport_failed"),
        ("html", "transport_failed"),
    ],
)
async def test_what_passes_is_worth_another_try(fault: FaultKind, kind: str) -> None:
    error, _ = await failing(Fault(kind=fault))
    assert isinstance(error, TryAgain)
    assert (error.kind, error.transport) == (kind, True)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("bad_request", "request_refused"),
        ("invalid_prompt", "prompt_refused"),
        ("context_length", "context_exceeded"),
    ],
)
async def test_a_refused_request_is_no_matter_of_transport(fault: FaultKind, kind: str) -> None:
    error, _ = await failing(Fault(kind=fault))
    assert isinstance(error, ModelFailed)
    assert not isinstance(error, TryAgain)
    assert (error.kind, error.transport) == (kind, False)


@pytest.mark.parametrize(
    ("fault", "error"), [("insufficient_quota", QuotaExhausted), ("unauthorized", ServerError)]
)
async def test_what_no_interview_can_heal_concerns_the_run(
    fault: FaultKind, error: type[TacitError]
) -> None:
    found, _ = await failing(Fault(kind=fault))
    assert type(found) is error


async def test_an_unknown_model_concerns_the_run() -> None:
    async with asking(name="google/gemma-2") as (_, model):
        with pytest.raises(ServerError, match=r"gemma-2.*check key and model"):
            await chat(model)


async def test_a_server_that_is_not_there_is_a_failed_transport() -> None:
    async with asking() as (server, model):
        await server.__aexit__()
        with pytest.raises(TryAgain, match=r"127\.0\.0\.1"):
            await chat(model)


@pytest.mark.parametrize("kind", ["hang", "trickle"])
async def test_a_call_without_end_ends_at_its_own_time_limit(kind: FaultKind) -> None:
    began = asyncio.get_running_loop().time()
    error, server = await failing(Fault(kind=kind), seconds=0.2)
    assert error.args == (f"{server.url}: no answer within 0.2 s",)
    assert asyncio.get_running_loop().time() - began < 2


@pytest.mark.parametrize("kind", get_args(FaultKind))
async def test_no_error_of_the_package_leaves_the_client(kind: FaultKind) -> None:
    async with asking(Plan(faults=(Fault(kind=kind),))) as (_, model):
        (found,) = await asyncio.gather(chat(model, seconds=0.2), return_exceptions=True)
    assert isinstance(found, TacitError | dict)
    assert "\n" not in str(found) or isinstance(found, dict)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("This model's maximum context length is 8192 tokens.", "context_exceeded"),
        ("the model's context length is only 8192 tokens", "context_exceeded"),
        ("max_tokens must be at least 1, got -186.", "context_exceeded"),
        ("'temperature' is not supported", "request_refused"),
    ],
)
def test_each_wording_of_too_long_is_one_kind(message: str, kind: str) -> None:
    flat = {"object": "error", "message": message, "type": "BadRequestError", "code": 400}
    for told in (flat, {"error": flat}):
        found = failure_of(400, told, {}, "here", hide="")
        assert isinstance(found, ModelFailed)
        assert found.kind == kind


async def test_the_seconds_that_a_server_asks_for_are_kept() -> None:
    error, _ = await failing(Fault(kind="rate_limited", after=7.5))
    assert isinstance(error, TryAgain)
    assert error.after == 7.5


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "request_refused"),
        (401, "server_error"),
        (403, "server_error"),
        (404, "server_error"),
        (408, "transport_failed"),
        (409, "transport_failed"),
        (413, "request_refused"),
        (422, "request_refused"),
        (429, "rate_limited"),
        (500, "transport_failed"),
        (502, "transport_failed"),
        (529, "transport_failed"),
    ],
)
def test_each_status_is_one_kind_and_a_wait_is_kept(status: int, kind: str) -> None:
    found = failure_of(status, "<html>no JSON</html>", {"retry-after": "2.5"}, "here", hide="")
    assert isinstance(found, ModelFailed | ServerError)
    assert found.kind == kind
    if kind in {"rate_limited", "transport_failed"}:
        assert isinstance(found, TryAgain)
        assert found.after == 2.5


@pytest.mark.parametrize("value", ["Mon, 30 Nov 2026 12:00:00 GMT", "-3", ""])
def test_a_wait_that_is_no_number_of_seconds_is_none(value: str) -> None:
    found = failure_of(429, {}, {"retry-after": value}, "here", hide="")
    assert isinstance(found, TryAgain)
    assert found.after == 0


async def test_a_refused_key_is_quoted_nowhere() -> None:
    async with asking(Plan(key="another"), NANO, key=KEY) as (_, model):
        with pytest.raises(ServerError) as caught:
            await chat(model)
    assert "401" in str(caught.value)
    assert KEY not in f"{caught.value!r} {caught.value.__cause__!r}"


async def test_a_key_with_a_line_end_is_used_without_it() -> None:
    async with asking(Plan(key=KEY), NANO, key=f"{KEY}\r\n") as (_, model):
        assert await chat(model)


@pytest.mark.parametrize("key", ["sk-tést", "sk-a\x00b", "sk-a\nsk-b"])
def test_what_can_be_no_key_is_refused_unquoted(key: str) -> None:
    with pytest.raises(ServerError, match="OPENAI_API_KEY") as caught:
        Model(model_settings("http://127.0.0.1:9/v1", NANO), key)
    assert key not in str(caught.value)


async def test_our_own_servers_are_asked_past_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with asking() as (_, model):
        assert await chat(model)
    async with asking(name=LUNA) as (_, model):
        with pytest.raises(TryAgain):
            await chat(model)


async def test_prompts_are_counted_where_the_server_counts() -> None:
    messages = [{"role": "user", "content": "a" * 4000}]
    async with asking() as (_, model):
        assert await model.tokens_of(GEMMA, messages) == pytest.approx(1000, abs=10)
    async with asking(Plan(counts=False)) as (_, model):
        assert await model.tokens_of(GEMMA, messages) is None
    async with asking(name=NANO) as (server, model):
        assert await model.tokens_of(NANO, messages) is None
        assert not server.log


async def test_no_more_calls_are_under_way_than_permits() -> None:
    async with asking(Plan(latency=(0.02, 0.02)), calls=5) as (server, model):
        await asyncio.gather(*(chat(model) for _ in range(30)))
    assert server.peak == 5
    assert [entry.status for entry in server.chats] == [200] * 30


async def test_requests_in_a_window_stay_under_the_limit() -> None:
    limited = served(GEMMA, requests=14, window=0.5)  # more, since clocks differ; 20 would break it
    rate = RateSettings(requests=10, tokens=None, seconds=0.5)
    async with asking(Plan(models=(limited,)), rate=rate) as (server, model):
        await asyncio.gather(*(chat(model) for _ in range(20)))
    assert {entry.status for entry in server.chats} == {200}
    assert server.log[-1].at - server.log[0].at > 0.4


async def test_a_large_request_is_not_passed_over_by_small_ones() -> None:
    rate = RateSettings(requests=None, tokens=1000, seconds=0.5)
    async with asking(rate=rate) as (server, model):

        async def ask(number: int, tokens: int) -> None:
            await model.chat(body(), seconds=5, tokens=tokens, label=f"p/1/{number}/x")

        sizes = [900, 900, *[100] * 6]
        await asyncio.gather(*(ask(n, size) for n, size in enumerate(sizes)))
    assert [entry.turn for entry in server.chats][:2] == [0, 1]


async def test_a_request_above_the_whole_limit_is_sent_all_the_same() -> None:
    rate = RateSettings(requests=None, tokens=100, seconds=0.1)
    async with asking(rate=rate) as (_, model):
        assert await chat(model, tokens=5000)


MANY = """
import asyncio, os, sys
sys.path[:0] = ["tests", "."]
from calling import caller, model_settings, request
from src.llm.client import Model

async def main():
    model = Model(model_settings(sys.argv[1], calls=100), None)
    most = 0
    async def ask(sample):
        nonlocal most
        reply = await caller(model, sample=sample).ask(request(timeout=60))
        most = max(most, len(os.listdir("/proc/self/fd")))
        return reply.text
    texts = await asyncio.gather(*(ask(sample) for sample in range(600)))
    await model.close()
    print(sum(map(bool, texts)), most)

asyncio.run(main())
"""


def test_600_calls_at_once_need_few_open_files() -> None:
    with fake_process(Plan(latency=(0.0, 0.05))) as server:
        done = subprocess.run(
            [
                "bash",
                "-c",
                'ulimit -n 256; exec "$@"',
                "bash",
                sys.executable,
                "-c",
                MANY,
                server.url,
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        state = server.state()
    assert done.returncode == 0, done.stderr[-2000:]
    answered, most = map(int, done.stdout.split())
    assert answered == 600
    assert most < 200
    assert state["peak"] <= 100
    assert {entry["attempt"] for entry in state["requests"]} == {1}


CPU = """
import asyncio, json, sys, time
sys.path[:0] = ["tests", "."]
import openai
from calling import model_settings
from src.llm.client import Model

ROUNDS, CALLS = int(sys.argv[2]), int(sys.argv[3])
line = "We talked about the garden and how the weeks go by. " * 4
messages = [{"role": ("user", "assistant")[n % 2], "content": line} for n in range(21)]
messages = [{"role": "system", "content": line * 8}, *messages]
body = {"model": "google/gemma-3-27b-it", "messages": messages, "max_tokens": 100}

async def main():
    model = Model(model_settings(sys.argv[1]), None)
    plain = openai.AsyncOpenAI(api_key="none", base_url=sys.argv[1], max_retries=0)
    async def ours():
        await model.chat(body, seconds=10, tokens=1, label="p/1/1/x")
    async def theirs():
        await plain.chat.completions.create(**body)
    spent = {ours: [], theirs: []}
    await ours(); await theirs()
    for _ in range(ROUNDS):
        for ask in (ours, theirs):
            began = time.process_time()
            for _ in range(CALLS):
                await ask()
            spent[ask].append((time.process_time() - began) / CALLS * 1000)
    await model.close(); await plain.close()
    print(json.dumps([min(times) for times in spent.values()]))

asyncio.run(main())
"""


def test_a_call_costs_no_more_cpu_than_the_packages_own() -> None:
    with fake_process() as server:
        done = subprocess.run(
            [sys.executable, "-c", CPU, server.url, str(ROUNDS), str(CALLS)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=100,
            check=True,
        )
    ours, theirs = (float(part) for part in done.stdout.strip("[]\n").split(","))
    sys.stdout.write(f"CPU per call, 22 messages: {ours:.2f} ms, by create() {theirs:.2f} ms\n")
    assert ours <= theirs
