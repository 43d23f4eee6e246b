"""Ask for the server's key under every path; vLLM by itself does so under some of them.

Loaded by vLLM (`--middleware`), below its Python: it knows the standard library alone.
"""

import hashlib
import os
import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

OPEN = frozenset({"/health", "/metrics"})
"""What tells nothing about anybody, and is asked by whoever waits for a server."""
UNAUTHORISED = 401
REFUSED = 1008
"""A web socket's code for a breach of policy."""

Scope = Mapping[str, Any]
Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[Mapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]


class Lock:
    """An ASGI application that lets through to another whoever shows the key."""

    def __init__(self, app: Application) -> None:
        """Take the key from VLLM_API_KEY, as vLLM does; without one nothing may start."""
        key = os.environ.get("VLLM_API_KEY")
        if not key:
            raise RuntimeError("VLLM_API_KEY is not set: this server would answer to everybody")
        self._app, self._key = app, _digest(key.encode())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] in OPEN or self._shown(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": REFUSED})
        else:
            headers = [(b"content-type", b"application/json"), (b"www-authenticate", b"Bearer")]
            start = {"type": "http.response.start", "status": UNAUTHORISED, "headers": headers}
            await send(start)
            await send({"type": "http.response.body", "body": b'{"error": "Unauthorized"}'})

    def _shown(self, scope: Scope) -> bool:
        """Return whether the request carries the key; a hash takes as long for any other."""
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        kind, _, key = given[0].partition(b" ")
        return kind.lower() == b"bearer" and secrets.compare_digest(_digest(key), self._key)


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
