"""What other tests rely on in the fake server."""

import ast
import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from fake_plan import Fault, Plan, adapter, served
from fake_process import fake_process
from fake_refusals import ALTERNATE
from fake_server import FakeServer, told
from fake_voices import ASKED, FAREWELL, LINES, answer, grade_of, speak

from src.interview.views import interviewer_view, patient_view, scorer_view
from src.interviewers.guard import Guard
from src.patients.lora import Signs, cleaned, flags_of
from src.prompts import load_yaml
from src.records import Answer, Question, StopReason, Turn, seed_of
from src.settings import CoverageSettings, GuardSettings, RunSettings
from src.steering.orchestrator import CoverageOrchestrator
from src.steering.sheet import assessment_schema, parse_assessment

GEMMA, NANO, LUNA = "google/gemma-3-27b-it", "gpt-5-nano", "gpt-6-luna"
PERSONA = adapter(7)
USER = {"role": "user", "content": "How do you sleep these nights?"}
STRICT = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [0, 1, 2, 3]}},
    "required": ["score"],
    "additionalProperties": False,
}
LAX = STRICT | {"required": []}
Told = tuple[int, dict[str, Any]]


def form(schema: object, *, strict: bool = True) -> dict[str, Any]:
    inner = {"name": "answer", "strict": strict, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


async def post(
    server: FakeServer, model: str, *messages: dict[str, str], label: str = "", **more: object
) -> Told:
    """Return status and body of one request."""
    body = {"model": model, "messages": messages or (USER,), **more}
    headers = {"X-Tacit-Call": label} if label else {}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{server.url}/chat/completions", json=body, headers=headers) as response,
    ):
        return response.status, await response.json()


def said(told: Told) -> str:
    return str(told[1]["choices"][0]["message"]["content"])


async def test_the_list_names_every_persona_and_when_a_model_ends() -> None:
    async with (
        FakeServer() as server,
        aiohttp.ClientSession() as session,
        session.get(f"{server.url}/models") as response,
    ):
        listed = {model["id"]: model for model in (await response.json())["data"]}
    assert {f"persona-{n:02}" for n in range(1, 21)} <= {name[:10] for name in listed}
    assert listed[NANO]["shutdown_date"] == "2026-12-11"


async def test_an_answer_hangs_on_model_messages_and_seed_alone() -> None:
    async with FakeServer() as one, FakeServer(Plan(seed=5)) as other:
        first = said(await post(one, PERSONA, seed=1))
        assert said(await post(one, PERSONA, seed=1)) == first
        assert said(await post(other, PERSONA, seed=1)) == first
        many = {said(await post(one, PERSONA, seed=n)) for n in range(20)}
    assert len(many) > 10


async def test_a_turn_asked_twice_shows() -> None:
    async with FakeServer(Plan(numbered=True)) as server:
        one = await post(server, GEMMA, label="persona-07/1/3/interviewer")
        two = await post(server, GEMMA, label="persona-07/1/3/interviewer")
    assert (one[1]["id"], two[1]["id"]) == ("chatcmpl-000001", "chatcmpl-000002")
    assert said(one).endswith("(#1)")
    assert [entry.attempt for entry in server.chats] == [1, 2]
    first = server.chats[0]
    assert (first.subject, first.sample, first.turn) == ("persona-07", 1, 3)
    assert first.role == "interviewer"
    assert (first.model, first.status, first.delivered, first.answered) == (GEMMA, 200, True, True)


SYSTEM, ASSISTANT = {"role": "system", "content": "s"}, {"role": "assistant", "content": "a"}


@pytest.mark.parametrize(
    ("messages", "status"),
    [
        ([USER], 200),
        ([SYSTEM, USER], 200),
        ([SYSTEM, USER, ASSISTANT, USER], 200),
        ([SYSTEM, SYSTEM, USER], 400),
        ([USER, USER], 400),
        ([ASSISTANT, USER], 400),
        ([SYSTEM, USER, ASSISTANT, ASSISTANT, USER], 400),
    ],
)
async def test_gemma_wants_strict_turns(messages: list[dict[str, str]], status: int) -> None:
    async with FakeServer() as server:
        found, body = await post(server, GEMMA, *messages)
    assert found == status
    assert status == 200 or body["error"]["message"] == ALTERNATE


@pytest.mark.parametrize(
    ("model", "more", "status", "sign"),
    [
        (GEMMA, {"guided_json": STRICT}, 400, "guided_json"),
        (GEMMA, {"reasoning_effort": "low"}, 400, "reasoning_effort"),
        (PERSONA, {"stop_token_ids": [128001], "top_k": 40, "max_tokens": 50}, 200, ""),
        ("gpt-9", {}, 404, "gpt-9"),
        (NANO, {"max_tokens": 50}, 400, "max_completion_tokens"),
        (NANO, {"max_completion_tokens": 500}, 200, ""),
        (NANO, {"temperature": 0.2}, 400, "temperature"),
        (NANO, {"reasoning_effort": "none"}, 400, "reasoning_effort"),
        (NANO, {"top_k": 40}, 400, "top_k"),
        (LUNA, {"temperature": 0.2, "reasoning_effort": "none"}, 200, ""),
        (LUNA, {"temperature": 0.2, "reasoning_effort": "low"}, 400, "temperature"),
        (LUNA, {"reasoning_effort": "minimal"}, 400, "minimal"),
        (NANO, form(STRICT), 200, ""),
        (NANO, form(STRICT, strict=False), 400, "strict"),
        (NANO, form(STRICT | {"required": []}), 400, "required"),
        (NANO, form(STRICT | {"additionalProperties": True}), 400, "additionalProperties"),
        (NANO, form(STRICT | {"properties": {"score": {}}}), 400, "no type"),
        (NANO, form(STRICT | {"properties": {"score": LAX}}), 400, "required"),
    ],
)
async def test_each_backend_refuses_in_its_own_way(
    model: str, more: dict[str, Any], status: int, sign: str
) -> None:
    async with FakeServer() as server:
        found, body = await post(server, model, **more)
    assert (found, sign in json.dumps(body)) == (status, True)


async def test_a_wrong_key_is_refused() -> None:
    async with FakeServer(Plan(key="k")) as server:
        assert (await post(server, GEMMA))[0] == 401


async def test_a_prompt_beyond_the_window_is_refused_with_its_size() -> None:
    async with FakeServer(Plan(models=(served(GEMMA, context=500),))) as server:
        long = {"role": "user", "content": "a" * 1800}
        assert (await post(server, GEMMA, long, max_tokens=40))[0] == 200
        status, body = await post(server, GEMMA, long, max_tokens=60)
    assert status == 400
    assert "maximum context length is 500 tokens" in body["error"]["message"]


async def test_json_follows_the_schema_in_its_order() -> None:
    schema = {
        "type": "object",
        "properties": {
            "b": {"type": "array", "items": {"$ref": "#/$defs/x"}, "minItems": 2},
            "a": {"type": ["string", "null"], "maxLength": 3, "minLength": 2},
            "d": {"anyOf": [{"type": "number", "minimum": 0.25, "maximum": 0.5}, {"type": "null"}]},
            "c": {"const": 7},
            "e": {"type": "boolean"},
        },
        "$defs": {"x": {"type": "integer", "minimum": 4, "maximum": 6}},
    }
    async with FakeServer() as server:
        found = json.loads(said(await post(server, GEMMA, **form(schema))))
    assert list(found) == ["b", "a", "d", "c", "e"]
    assert len(found["b"]) == 2
    assert set(found["b"]) <= {4, 5, 6}
    assert 2 <= len(found["a"]) <= 3
    assert 0.25 <= found["d"] <= 0.5
    assert (found["c"], found["e"]) == (7, False)


async def test_the_cache_holds_the_longest_prefix_of_an_earlier_prompt() -> None:
    one = {"role": "user", "content": "a" * 8000}
    more = [one, ASSISTANT, USER]
    async with FakeServer() as server:
        for model in (GEMMA, NANO):
            cached = [
                (await post(server, model, *messages))[1]["usage"]["prompt_tokens_details"]
                for messages in ([one], [one], more, [USER])
            ]
            block = 16 if model == GEMMA else 128
            found = [details["cached_tokens"] for details in cached]
            assert found[0] == found[3] == 0
            assert 2000 - block < found[1] <= 2010
            assert 2000 - block < found[2] <= 2010
            assert found[1] % block == 0
        short = {"role": "user", "content": "a" * 3000}
        assert (await post(server, NANO, short))[1]["usage"]["prompt_tokens_details"] == {
            "cached_tokens": 0  # this API caches nothing below 1024 tokens
        }


async def test_reasoning_eats_the_budget_first() -> None:
    async with FakeServer() as server:
        _, body = await post(server, NANO, reasoning_effort="medium", max_completion_tokens=300)
    assert body["choices"][0] == {
        "index": 0,
        "message": {"role": "assistant", "content": "", "refusal": None},
        "finish_reason": "length",
    }
    assert body["usage"]["completion_tokens_details"]["reasoning_tokens"] == 300


@pytest.mark.parametrize("limiter", ["bucket", "sliding"])
async def test_a_token_limit_refuses_and_says_how_long(limiter: str) -> None:
    limited = served(GEMMA, tokens=250, window=0.4, limiter=limiter)
    async with FakeServer(Plan(models=(limited,))) as server:
        assert [(await post(server, GEMMA, max_tokens=100))[0] for _ in range(3)] == [200, 200, 429]
        await asyncio.sleep(0.41)
        assert (await post(server, GEMMA, max_tokens=100))[0] == 200


async def test_a_fault_meets_whom_it_is_meant_for_and_so_often() -> None:
    faults = (
        Fault(kind="server_error", role="scorer", sample=2, turn=3, attempt=1),
        Fault(kind="unavailable", model=GEMMA, times=2),
    )
    async with FakeServer(Plan(faults=faults)) as server:
        label = "persona-07/2/3/scorer"
        assert [(await post(server, LUNA, label=label))[0] for _ in range(2)] == [500, 200]
        assert (await post(server, LUNA, label="persona-07/1/3/scorer"))[0] == 200
        assert [(await post(server, GEMMA))[0] for _ in range(3)] == [503, 503, 200]


async def test_a_share_of_faults_is_the_same_each_time() -> None:
    async def statuses() -> list[int]:
        plan = Plan(faults=(Fault(kind="server_error", share=0.3),), seed=4)
        async with FakeServer(plan) as server:
            labels = [f"persona-07/{n}/1/patient" for n in range(60)]
            return [(await post(server, PERSONA, label=label))[0] for label in labels]

    first = await statuses()
    assert 8 < first.count(500) < 30
    assert await statuses() == first


async def test_what_the_other_side_left_was_not_delivered() -> None:
    async with FakeServer(Plan(latency=(5, 5))) as server:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(post(server, GEMMA), 0.2)
        await asyncio.sleep(0.1)
        entry = server.chats[0]
    assert (entry.status, entry.delivered, entry.answered, server.now) == (499, False, False, 0)


async def test_a_cut_body_was_not_delivered() -> None:
    async with FakeServer(Plan(faults=(Fault(kind="cut_body"),))) as server:
        with pytest.raises(aiohttp.ClientPayloadError):
            await post(server, GEMMA)
    assert not server.chats[0].answered


def test_a_process_shows_its_log_and_takes_new_faults() -> None:
    plan = Plan(models=(served(GEMMA),), faults=(Fault(kind="server_error"),))
    with fake_process(plan) as server:

        async def ask() -> int:
            async with (
                aiohttp.ClientSession() as session,
                session.post(
                    f"{server.url}/chat/completions", json={"model": GEMMA, "messages": [USER]}
                ) as response,
            ):
                return response.status

        assert asyncio.run(ask()) == 500
        server.set_faults()
        assert asyncio.run(ask()) == 200
        one, two = server.log()
        assert (one["status"], one["answered"]) == (500, False)
        assert (two["status"], two["answered"]) == (200, True)
        assert server.body(2)["messages"] == [USER]


def test_the_command_line_takes_every_setting() -> None:
    port, plan = told(["port=8001", "key=abc", "latency=[0, 0.5]", 'plan={"seed": 3}'])
    assert (port, plan.key, plan.latency, plan.seed) == (8001, "abc", (0, 0.5), 3)
    assert told([])[1] == Plan()


def hold(settings: RunSettings, persona: int, sample: int) -> tuple[list[Turn], StopReason]:
    """Hold an interview between the voices, without a server."""
    assert isinstance(settings.orchestrator, CoverageSettings)
    orchestrator, turns = CoverageOrchestrator(settings.orchestrator), list[Turn]()
    schema = assessment_schema("evidence_first")
    while not (guidance := orchestrator.guide(turns)).stop:
        seed = seed_of(persona, sample, len(turns))
        view = interviewer_view("s", "k", turns, guidance.text)
        question = Question(text=speak("gemma", GEMMA, view, seed), source="model")
        reply = speak("persona", adapter(persona), patient_view(turns, question.text), seed)
        turn = Turn(number=len(turns) + 1, question=question, answer=Answer(text=reply))
        sheet = parse_assessment(answer(NANO, scorer_view("r", [*turns, turn]), None, schema))
        turns.append(turn.model_copy(update={"assessment": sheet}))
    return turns, guidance.stop


@pytest.fixture(scope="module")
def interviews(settings: RunSettings) -> dict[tuple[int, int], tuple[list[Turn], StopReason]]:
    return {(p, n): hold(settings, p, n) for p in range(1, 21, 3) for n in range(1, 6)}


def totals(turns: Iterable[Turn]) -> list[int]:
    return [turn.assessment.total for turn in turns if turn.assessment]


def test_interviews_between_the_voices_end_by_every_rule(
    interviews: dict[tuple[int, int], tuple[list[Turn], StopReason]],
) -> None:
    stops = Counter(stop for _, stop in interviews.values())
    assert set(stops) == {StopReason.CONFIDENT, StopReason.STABLE, StopReason.MAX_MESSAGES}
    assert min(stops.values()) >= 3


def test_samples_differ_and_so_do_personas(
    interviews: dict[tuple[int, int], tuple[list[Turn], StopReason]],
) -> None:
    transcripts = {tuple(turn.answer.text for turn in turns) for turns, _ in interviews.values()}
    assert len(transcripts) == len(interviews)
    ends = [totals(turns)[-1] for turns, _ in interviews.values()]
    assert max(ends) - min(ends) > 20


def test_the_voices_pass_the_guard_and_raise_no_flag(
    interviews: dict[tuple[int, int], tuple[list[Turn], StopReason]],
) -> None:
    guard = Guard(
        GuardSettings.model_validate(
            {
                "kind": "screening",
                "rules": "prompts/guard_rules.yaml",
                "prompt": "prompts/guard.md",
            }
        )
    )
    signs = load_yaml("prompts/patient_signs.yaml", Signs)
    for turns, _ in interviews.values():
        for n, turn in enumerate(turns):
            assert not guard.check(turn.question.text, turns=turns[:n], closing=False)
            text, leaks = cleaned(turn.answer.text, signs.leaks)
            assert (text, leaks, flags_of(text, signs)) == (turn.answer.text, [], [])
    assert not guard.check(FAREWELL, turns=[], closing=True)


def test_an_interviewer_that_is_told_to_end_says_goodbye() -> None:
    ending = {"role": "user", "content": "Fine.\n\n## Time to end\nSay goodbye."}
    assert speak("gemma", GEMMA, [ending], 1) == FAREWELL
    before = {"role": "system", "content": "Talk.\n\n## Time to end\nSay goodbye."}
    assert speak("gemma", GEMMA, [before, USER], 1) == FAREWELL


def test_a_monolith_ends_by_itself() -> None:
    fields = {"message": {"type": "string"}, "done": {"type": "boolean"}}
    schema = {"type": "object", "properties": fields}
    turns = [USER, *([ASSISTANT, USER] * 20)]
    early, late = (json.loads(answer(LUNA, part, 1, schema)) for part in (turns[:5], turns))
    assert (early["done"], early["message"] == FAREWELL) == (False, False)
    assert (late["done"], late["message"]) == (True, FAREWELL)


def test_every_line_has_a_grade_of_its_own() -> None:
    every = [line for four in LINES.values() for line in four]
    assert len(set(every)) == len(every)
    assert [grade_of(f"Well, {line.lower()}.") for line in every] == [0, 1, 2, 3] * len(LINES)
    assert len(set(ASKED)) == len(ASKED) >= 18


def test_nothing_is_shared_with_the_product() -> None:
    files = sorted(Path(__file__).parent.glob("fake_*.py"))
    assert len(files) > 3
    for file in files:
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Import | ast.ImportFrom):
                assert "src" not in ast.unparse(node).split()[1]
