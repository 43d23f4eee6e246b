"""What the fake server was asked is asked of the real one, and answered in the same form."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from fake_plan import Plan, served
from fake_process import ServerProcess, fake_process
from real_server import WINDOW, Answered, RealServer, ask, tacit_within

from src.llm.client import failure_of
from src.llm.endpoints import Endpoint, publish
from src.llm.responses import read_response

KEY = "the-fake-servers-key"
AT_MOST = 3
"""Requests of one role that are sent again; those of the scorer take long, so one of them."""
LONG = ({"role": "user", "content": " ".join(["word"] * 2 * WINDOW)},)
CHAT, MODELS, COUNT = "/v1/chat/completions", "/v1/models", "/tokenize"


@pytest.fixture(scope="module")
def fake(running: RealServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Return a fake server that lists what the real one lists, after a preflight and a run."""
    names = running.endpoint.served
    plan = Plan(key=KEY, models=tuple(served(name, context=WINDOW) for name in names))
    folder = tmp_path_factory.mktemp("recorded")
    with fake_process(plan) as process:
        publish(folder / "endpoints", endpoint_of(process, names))
        told = ("experiment=cpu", f"endpoints={folder / 'endpoints'}", f"outputs={folder}")
        for command in ("serving.preflight", "src.run"):
            done = tacit_within(120, command, *told, "samples=1")
            assert done.returncode == 0, f"{done.stdout}{done.stderr}"
        yield process


def endpoint_of(process: ServerProcess, names: tuple[str, ...]) -> Endpoint:
    return Endpoint(
        name="cpu",
        state="ready",
        host="127.0.0.1",
        port=port_of(process),
        key=KEY,
        job=None,
        pid=process.process.pid,
        start="fake",
        identity="fake",
        served=names,
        log="/dev/null",
        changed=datetime.now(UTC),
    )


def port_of(process: ServerProcess) -> int:
    return int(process.url.removesuffix("/v1").rpartition(":")[2])


def of_fake(
    process: ServerProcess, path: str, body: dict[str, Any] | None = None, *, key: str = KEY
) -> Answered:
    return ask(f"http://127.0.0.1:{port_of(process)}{path}", body, key=key)


def recorded(process: ServerProcess) -> dict[str, list[dict[str, Any]]]:
    """Return some of the bodies that each role and each check of the preflight sent."""
    found: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for entry in process.log():
        role, most = entry["role"], 1 if entry["role"] == "scorer" else AT_MOST
        if entry["path"] == "chat" and entry["status"] == 200 and len(found[role]) < most:
            found[role].append(process.body(entry["number"]))
    return found


def lacking(expected: object, found: object, place: str = "$") -> list[str]:
    """Return what an answer lacks of another's form: a field, an entry, or a value's type.

    Nothing may stand for anything: a field that is null promises no more than its name.
    """
    if expected is None or found is None:
        return []
    if isinstance(expected, dict):
        if not isinstance(found, dict):
            return [f"{place} is no object"]
        gone = [f"{place}.{key} is absent" for key in expected if key not in found]
        shared = [key for key in expected if key in found]
        return gone + [
            line for key in shared for line in lacking(expected[key], found[key], f"{place}.{key}")
        ]
    if isinstance(expected, list):
        if not isinstance(found, list) or (expected and not found):
            return [f"{place} is no such list"]
        return lacking(expected[0], found[0], f"{place}[0]") if expected else []
    number = (int, float)
    kind = number if isinstance(expected, number) else type(expected)
    return [] if isinstance(found, kind) else [f"{place} is {found!r}, not like {expected!r}"]


def test_every_kind_of_request_was_recorded(fake: ServerProcess) -> None:
    assert {role: len(bodies) for role, bodies in recorded(fake).items()} == {
        "cache": 2,
        "canary": 1,
        "reply": 1,
        "compare": 3,
        "ending": 3,
        "interviewer": 3,
        "patient": 3,
        "scorer": 1,
    }


@pytest.mark.parametrize(
    "role", ["canary", "reply", "compare", "ending", "interviewer", "patient", "scorer"]
)
def test_a_recorded_request_is_answered_alike(
    role: str, fake: ServerProcess, server: RealServer
) -> None:
    for body in recorded(fake)[role]:
        (told, expected), (status, found) = of_fake(fake, CHAT, body), server.ask(CHAT, body)
        assert (told, status) == (200, 200), found
        assert lacking(expected, found) == []
        assert found["choices"][0]["finish_reason"] in {"stop", "length"}
        usage = found["usage"]
        assert usage["prompt_tokens"] > 0
        assert 0 < usage["completion_tokens"] <= body["max_tokens"]
        assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
        read = read_response(found, whole=False)
        assert (read.failure, read.usage["reported"]) == (None, body["model"])
        assert read.usage["cached_tokens"] is not None


def refusals(name: str) -> dict[str, dict[str, Any]]:
    hello = [{"role": "user", "content": "Hello"}]
    asked = {"model": name, "messages": hello, "max_tokens": 8, "temperature": 0}
    return {
        "unknown": asked | {"model": "nobody"},
        "too_long": asked | {"messages": LONG},
    }


@pytest.mark.parametrize("kind", ["unknown", "too_long"])
def test_what_is_refused_is_refused_alike(
    kind: str, fake: ServerProcess, server: RealServer
) -> None:
    body = refusals("smollm2")[kind]
    (told, expected), (status, found) = of_fake(fake, CHAT, body), server.ask(CHAT, body)
    assert (status, meant(status, found)) == (told, meant(told, expected))
    assert lacking({"error": {"message": "", "type": "", "param": None, "code": None}}, found) == []


@pytest.mark.parametrize("path", [CHAT, MODELS])
def test_a_wrong_key_is_refused_alike(path: str, fake: ServerProcess, server: RealServer) -> None:
    body = None if path == MODELS else refusals("smollm2")["too_long"]
    told, expected = of_fake(fake, path, body, key="another")
    status, found = server.ask(path, body, key="another")
    assert (
        (status, meant(status, found))
        == (told, meant(told, expected))
        == (401, ("ServerError", ""))
    )


def meant(status: int, body: object) -> tuple[str, str]:
    """Return what the driver makes of a refusal."""
    error = failure_of(status, body, {}, "here", hide="")
    return type(error).__name__, str(getattr(error, "kind", "")) if status == 400 else ""


def test_models_are_listed_alike(fake: ServerProcess, server: RealServer) -> None:
    (_, expected), (_, found) = of_fake(fake, MODELS), server.ask(MODELS)
    assert lacking(expected, found) == []
    base, *adapters = found["data"]
    assert base["max_model_len"] == WINDOW
    assert {row["id"] for row in found["data"]} == {row["id"] for row in expected["data"]}
    assert all("max_model_len" in row for row in adapters)


def test_tokens_are_counted_alike(fake: ServerProcess, server: RealServer) -> None:
    for name in ("smollm2", server.served(7)):
        body = {"model": name, "messages": [{"role": "user", "content": "How have you been?"}]}
        (_, expected), (status, found) = of_fake(fake, COUNT, body), server.ask(COUNT, body)
        assert status == 200
        assert lacking(expected | {"tokens": [1]}, found) == []
        assert found["count"] == len(found["tokens"]) > 0


def test_a_counted_prompt_is_the_prompt_that_is_charged(server: RealServer) -> None:
    messages = [{"role": "user", "content": "How have you been since we last met?"}]
    name = server.served(7)
    _, counted = server.ask(COUNT, {"model": name, "messages": messages})
    answer = server.chat({"model": name, "messages": messages, "max_tokens": 1, "temperature": 0})
    assert answer["usage"]["prompt_tokens"] == counted["count"]


def test_the_metrics_are_those_that_are_watched(server: RealServer) -> None:
    names = server.counters().keys()
    assert {"vllm:request_success_total", "vllm:num_requests_running"} <= names
    assert {"vllm:num_requests_waiting", "vllm:prefix_cache_hits_total"} <= names
    assert "vllm:request_inference_time_seconds_sum" in names
