"""What the real server answers and refuses, and what our client makes of it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from calling import Book, caller, request
from real_server import RUN, WINDOW, RealServer
from reporting import turns_of

from src.errors import ModelFailed, ServerError
from src.interview.views import scorer_view
from src.llm.caller import Request
from src.llm.endpoints import publish
from src.llm.structured import canary_holds, canary_messages, canary_schema, strict_json
from src.settings import BDISettings
from src.steering.sheet import FIELDS, assessment_schema, parse_assessment

CHAT = "/v1/chat/completions"
HELLO = ({"role": "user", "content": "Hello! How has your week been so far?"},)
TALK = turns_of(
    ("How have you been sleeping?", "I lie awake until three, most nights."),
    ("And your days?", "Work is fine, but I no longer see anybody after it."),
)


def body(name: str, *, tokens: int = 32, **more: Any) -> dict[str, Any]:
    return {"model": name, "messages": HELLO, "max_tokens": tokens, "temperature": 0, **more}


def form(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {"name": "answer", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": inner}}


def text_of(answer: dict[str, Any]) -> str:
    text: str = answer["choices"][0]["message"]["content"]
    return text


TOO_LONG = ({"role": "user", "content": " ".join(["word"] * 2 * WINDOW)},)


def test_the_model_and_two_personas_answer_each_in_another_way(server: RealServer) -> None:
    names = ("smollm2", server.served(7), server.served(8))
    answers = [server.chat(body(name)) for name in names]
    assert [answer["model"] for answer in answers] == list(names)
    texts = [text_of(answer) for answer in answers]
    assert all(text.strip() for text in texts)
    assert len({*texts}) == 3


def test_a_schema_is_enforced_and_without_one_the_same_prompt_gives_prose(
    server: RealServer,
) -> None:
    asked = body("smollm2", messages=canary_messages(), tokens=64)
    assert canary_holds(text_of(server.chat(asked | form(canary_schema()))))
    assert not canary_holds(text_of(server.chat(asked)))


async def test_the_scorers_schema_gives_all_items_in_their_order(server: RealServer) -> None:
    assert isinstance(RUN.scorer, BDISettings)
    asked = Request(
        messages=tuple(scorer_view("Rate each item from what the persona says.", TALK)),
        settings=RUN.scorer.call,
        turn=2,
        schema=assessment_schema(RUN.scorer.order, RUN.scorer.evidence_max),
    )
    async with server.opened() as servers:
        reply = await caller(servers.services["scorer"].model, role="scorer").ask(asked)
    told = strict_json(reply.text)
    assert isinstance(told, dict)
    assert tuple(told) == FIELDS
    assert [*told[FIELDS[0]]] == ["evidence", "confidence", "score"]
    read = parse_assessment(reply.text)
    assert read.total <= 63
    assert max(len(s.evidence) for s in read.symptoms) <= (RUN.scorer.evidence_max or 0)
    assert "\n" not in reply.text  # no blanks but those within the evidence


async def test_a_seed_gives_the_same_answer_again_and_another_one_another(
    server: RealServer,
) -> None:
    hot = {"temperature": 1.0, "top_p": 1.0}
    same, again, other = (
        text_of(server.chat(body(server.served(7)) | hot | {"seed": seed})) for seed in (1, 1, 2)
    )
    assert same == again != other


def test_an_unknown_model_is_refused_and_not_replaced(server: RealServer) -> None:
    status, answer = server.ask(CHAT, body("persona-07-00000000"))
    assert status == 404
    assert "persona-07-00000000" in answer["error"]["message"]


async def test_an_unknown_model_ends_a_run_in_one_line(server: RealServer) -> None:
    async with server.opened() as servers:
        asking = caller(servers.services["patient"].model, name="persona-07-00000000")
        with pytest.raises(ServerError, match=r"404 .*persona-07-00000000") as refused:
            await asking.ask(request(timeout=60))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["/v1/models", CHAT])
def test_another_key_is_refused(path: str, server: RealServer) -> None:
    asked = None if path == "/v1/models" else body("smollm2")
    assert server.ask(path, asked, key="another")[0] == 401


async def test_another_key_ends_a_run_in_one_line(server: RealServer, tmp_path: Path) -> None:
    real = server.endpoint
    publish(tmp_path, real.model_copy(update={"key": "another"}))
    with pytest.raises(ServerError, match=r"401 .*check key") as refused:
        async with server.opened(endpoints=tmp_path):
            pass
    assert real.key not in str(refused.value)


async def test_a_prompt_that_is_too_long_is_refused_before_it_is_sent(server: RealServer) -> None:
    book, before = Book(), server.finished
    async with server.opened() as servers:
        model = servers.services["interviewer"].model
        with pytest.raises(ModelFailed, match=f"the window holds {WINDOW}") as refused:
            await caller(model, book).ask(request(TOO_LONG, timeout=60))
    assert refused.value.kind == "context_exceeded"
    assert (book.asks, server.finished) == ([], before)


async def test_the_servers_own_refusal_of_a_long_prompt_is_told_apart(server: RealServer) -> None:
    async with server.opened() as servers:
        model = servers.services["interviewer"].model
        with pytest.raises(ModelFailed, match="400") as refused:
            await model.chat(
                body("smollm2", messages=TOO_LONG), seconds=60, tokens=1, label="a/1/1/b"
            )
    assert refused.value.kind == "context_exceeded"


async def test_a_budget_beyond_the_window_is_clamped_in_silence_there_and_refused_here(
    server: RealServer,
) -> None:
    answer = server.chat(body("smollm2", tokens=WINDOW, stop=[" "]))  # it would go on and on
    assert answer["usage"]["completion_tokens"] > 0
    assert server.ask(CHAT, body("smollm2", tokens=WINDOW + 1))[0] == 400
    book, before = Book(), server.finished
    async with server.opened() as servers:
        asking = caller(servers.services["interviewer"].model, book)
        with pytest.raises(ModelFailed, match=f"the window holds {WINDOW}") as refused:
            await asking.ask(request(max_tokens=WINDOW, timeout=60))
    assert refused.value.kind == "context_exceeded"
    assert (book.asks, server.finished) == ([], before)


async def test_many_conversations_at_once_keep_their_adapters_apart(server: RealServer) -> None:
    names = ("smollm2", server.served(7), server.served(8))
    alone = {name: text_of(server.chat(body(name, tokens=4))) for name in names}
    together = await asyncio.gather(
        *(asyncio.to_thread(server.chat, body(name, tokens=4)) for name in names * 3)
    )
    assert [text_of(one) for one in together] == [alone[name] for name in names * 3]


def test_the_servers_counters_follow_a_growing_conversation(server: RealServer) -> None:
    """Each prompt begins with the one before it, which the cache then holds."""
    before, usages = server.counters(), []
    messages = [{"role": "user", "content": "Tell me about a day at the lake. " * 12}]
    for turn in range(5):
        answer = server.chat(body(server.served(7), messages=messages, tokens=24))
        usages.append(answer["usage"])
        question = {"role": "user", "content": f"And then, at hour {turn}, what came next?"}
        messages = [*messages, {"role": "assistant", "content": text_of(answer)}, question]
    after = server.counters()
    gained = {name: after[name] - before.get(name, 0.0) for name in after}
    cached = [(usage["prompt_tokens_details"] or {}).get("cached_tokens", 0) for usage in usages]
    assert gained["vllm:prefix_cache_hits_total"] == sum(cached)
    assert gained["vllm:prefix_cache_queries_total"] == sum(u["prompt_tokens"] for u in usages)
    assert gained["vllm:generation_tokens_total"] == sum(u["completion_tokens"] for u in usages)
    assert gained["vllm:request_success_total"] == 5
    assert cached[1:] == sorted(cached[1:])
    assert cached[1] > 0
    assert cached[-1] > 0.7 * usages[-1]["prompt_tokens"]


def test_personas_share_no_cache(server: RealServer) -> None:
    prompt = [{"role": "user", "content": "Describe the way to the harbour, slowly. " * 12}]
    first = server.chat(body(server.served(7), messages=prompt, tokens=1))
    again = server.chat(body(server.served(7), messages=prompt, tokens=1))
    other = server.chat(body(server.served(8), messages=prompt, tokens=1))
    found = [
        one["usage"]["prompt_tokens_details"]["cached_tokens"] for one in (first, again, other)
    ]
    assert found[1] > 0
    assert (found[0], found[2]) == (0, 0)
