"""Nobody without the key gets anything of a server but that it is there."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from serving.lock import Lock, Receive, Scope, Send

KEY = "the-key"


class Behind:
    """The application behind the lock; it keeps what was let through."""

    def __init__(self) -> None:
        self.let_through: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.let_through.append(scope)
        assert callable(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})


def asked(
    kind: str, path: str = "", *authorisation: bytes, method: str = "POST"
) -> tuple[bool, list[Mapping[str, Any]]]:
    """Return whether a request was let through, and all that was sent back."""
    sent: list[Mapping[str, Any]] = []
    headers = [(b"host", b"here"), *((b"authorization", given) for given in authorisation)]
    scope = {"type": kind, "method": method, "path": path, "headers": headers}

    async def receive() -> Mapping[str, Any]:
        raise AssertionError("nothing is read of whom the lock does not know")

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    behind = Behind()
    asyncio.run(Lock(behind)(scope, receive, send))
    assert behind.let_through in ([], [scope])
    return bool(behind.let_through), sent


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_API_KEY", KEY)


@pytest.mark.parametrize(
    "path",
    ["/invocations", "/tokenize", "/detokenize", "/load", "/v1/models", "/", "/docs", "/health/x",
     "/ping", "/version", "/metrics/../invocations", "//health"],
)  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
def test_without_the_key_every_path_is_refused(path: str, method: str) -> None:
    through, sent = asked("http", path, method=method)
    assert not through
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[0]["status"] == 401


@pytest.mark.parametrize(
    "given",
    [(b"Bearer the-kez",), (b"Bearer ",), (b"the-key",), (b"Basic the-key",), (b"Bearer \xff\xfe",),
     (b"Bearer the-key", b"Bearer the-key")],
)  # fmt: skip
def test_another_key_is_none(given: tuple[bytes, ...]) -> None:
    assert not asked("http", "/invocations", *given)[0]


@pytest.mark.parametrize("path", ["/invocations", "/tokenize", "/v1/models"])
def test_with_the_key_every_path_is_open(path: str) -> None:
    assert asked("http", path, b"Bearer the-key")[0]
    assert asked("http", path, b"bearer the-key")[0]


@pytest.mark.parametrize("path", ["/health", "/metrics"])
def test_whether_it_is_there_and_how_busy_anybody_may_ask(path: str) -> None:
    assert asked("http", path, method="GET")[0]


def test_a_web_socket_without_the_key_is_closed() -> None:
    assert asked("websocket", "/v1/realtime") == (
        False,
        [{"type": "websocket.close", "code": 1008}],
    )
    assert asked("websocket", "/v1/realtime", b"Bearer the-key")[0]


def test_the_servers_own_start_and_end_pass() -> None:
    assert asked("lifespan")[0]


def test_a_server_without_a_key_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VLLM_API_KEY")
    with pytest.raises(RuntimeError, match="VLLM_API_KEY is not set"):
        Lock(Behind())
