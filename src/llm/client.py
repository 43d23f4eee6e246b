"""The only network I/O: what is sent to a server, and what comes back or does not.

One client per endpoint. The `openai` package is the door, with its own retries off and its
parameter handling passed by: the body goes as it is, which costs a fraction of the CPU.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from aiolimiter import AsyncLimiter

from src.errors import ModelFailed, QuotaExhausted, ServerError
from src.settings import ModelSettings

Message = Mapping[str, Any]
"""Role and content; a model's tool calls and their results have more keys."""
LIST_TIMEOUT = 4.0
"""Seconds within which a server must list its models or count a prompt."""
LABEL = "X-Tacit-Call"
"""Header that names subject, sample, turn and role, for a server's log; to others than our own
servers the subject is opaque."""
SERVER_ERRORS = 500
TURNED_AWAY = frozenset({HTTPStatus.INTERNAL_SERVER_ERROR, HTTPStatus.SERVICE_UNAVAILABLE})
"""Errors of the server itself, which are not charged; behind a gateway's it may have answered."""
NOT_THERE = frozenset({"ClientConnectorError", "ClientConnectorDNSError"})
"""How aiohttp calls a server that no connection leads to."""
ENDING = "cannot schedule new futures"
"""What vLLM answers with a 500 once it was told to end and answers only what is under way."""
REFUSALS = {
    "context_exceeded": ("context_length", "context length", "input_tokens", "at least 1, got -"),
    "prompt_refused": ("invalid_prompt", "content_policy_violation"),
    "content_filtered": ("content_filter",),
}
"""What a refused request is, by words in its code or message."""


@dataclass(frozen=True)
class Listed:
    """What a server says of a model that it lists."""

    ends: str | None
    """Day of its announced end."""
    window: int | None
    """Tokens of its window (vLLM)."""


Moved = Callable[[], tuple[str, str] | None]
"""Where a server of ours answers by now, and its key; None: it has ended."""


class Model:
    """One served model: its client, permits and rate; shared by everyone who asks it."""

    def __init__(
        self, settings: ModelSettings, key: str | None, moved: Moved | None = None
    ) -> None:
        """Open a client; nothing is sent yet."""
        import openai  # noqa: PLC0415 - offline runs and --help never load it

        if key and not (key.strip().isascii() and key.strip().isprintable()):
            raise ServerError(f"{settings.key_env} holds what no key can; copy it again")
        assert settings.base_url is not None
        self.settings, self._where = settings, settings.base_url
        self._errors, self._moved = openai, moved
        self._key = (key or "").strip()
        self._client = openai.AsyncOpenAI(
            api_key=self._key or "none",
            base_url=self._where,
            max_retries=0,
            # aiohttp beneath: the usual pool looks at each of its connections for every request.
            # Our own servers are asked directly: a proxy would see the text, or not find them
            http_client=openai.DefaultAioHttpClient(trust_env=settings.backend != "vllm"),
        )
        self._permits = asyncio.Semaphore(settings.calls)
        self._queue = asyncio.Lock()
        """First come, first served: the limiters alone would let small requests pass large ones."""
        rate = settings.rate
        self._requests = AsyncLimiter(rate.requests, rate.seconds) if rate.requests else None
        self._tokens = AsyncLimiter(rate.tokens, rate.seconds) if rate.tokens else None

    async def close(self) -> None:
        await self._client.close()

    async def listed(self) -> dict[str, Listed]:
        """Return the models that the server lists, by name."""
        answer = await self._send("GET", "/models", None, seconds=LIST_TIMEOUT)
        try:
            return {
                str(model["id"]): Listed(model.get("shutdown_date"), model.get("max_model_len"))
                for model in answer["data"]
            }
        except (KeyError, TypeError) as error:
            raise ModelFailed(f"{self._where}/models lists nothing") from error

    async def tokens_of(
        self, name: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> int | None:
        """Return how many tokens a prompt takes, where the server counts them (vLLM)."""
        count = (await self._tokenized(name, messages, tools)).get("count")
        return count if isinstance(count, int) else None

    async def token_ids(self, name: str, messages: Sequence[Message]) -> list[int]:
        """Return a prompt's tokens; none where the server does not tell them."""
        return list((await self._tokenized(name, messages, ())).get("tokens") or ())

    async def _tokenized(
        self, name: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]
    ) -> Mapping[str, Any]:
        if self.settings.backend != "vllm":
            return {}
        root = self._where.rstrip("/").removesuffix("/v1")
        body: dict[str, object] = {"model": name, "messages": messages}
        if tools:
            body["tools"] = tools
        try:
            return await self._send("POST", f"{root}/tokenize", body, seconds=LIST_TIMEOUT)
        except ServerError:  # no vLLM after all
            return {}

    async def chat(
        self,
        body: Mapping[str, object],
        *,
        seconds: float,
        tokens: int,
        label: str,
        sending: Callable[[], None] = lambda: None,
    ) -> Mapping[str, Any]:
        """Return the response to one try; raise a `ModelFailed` that says whether to try again.

        `sending` is called once permit and rate are there, right before the request goes out.
        """
        async with self._permits:  # first: what waits for a permit would go out in a burst later
            async with self._queue:
                for limiter, amount in ((self._requests, 1), (self._tokens, tokens)):
                    if limiter:
                        await limiter.acquire(min(amount, limiter.max_rate))
            sending()
            return await self._send("POST", "/chat/completions", body, seconds=seconds, label=label)

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        *,
        seconds: float,
        label: str = "",
    ) -> Mapping[str, Any]:
        errors, where = self._errors, self._where
        options: Any = {"timeout": seconds, "headers": {LABEL: label} if label else {}}
        send = self._client.get if method == "GET" else self._client.post
        more: Any = {} if body is None else {"body": body}
        try:
            async with asyncio.timeout(seconds):  # the client's own limits each read, not the whole
                answer = await send(path, cast_to=object, options=options, **more)
        except errors.APIStatusError as error:
            told, headers = error.body, error.response.headers
            failure = failure_of(error.status_code, told, headers, where, hide=self._key)
            if isinstance(failure, TryAgain) and ENDING in str(failure):
                failure.absent = self._may_come_back()
            raise failure from None
        except (errors.APIConnectionError, TimeoutError) as error:
            reason = str(error.__cause__ or error) or f"no answer within {seconds:g} s"
            beneath = getattr(error.__cause__, "__cause__", None)
            unreachable = type(beneath).__name__ in NOT_THERE
            raise TryAgain(
                f"{where}: {reason}",
                kind="transport_failed",
                outcome="unreachable" if unreachable else "",
                absent=unreachable and self._may_come_back(),
            ) from error
        except ValueError as error:  # no JSON, or no text at all
            raise TryAgain(f"{where}: a broken response", kind="transport_failed") from error
        if not isinstance(answer, Mapping):
            raise TryAgain(f"{where}: a response of no known form", kind="transport_failed")
        return answer

    def _may_come_back(self) -> bool:
        """Whether a server that is not there is one to wait for; follow it where it moved."""
        if self._moved is None:
            return True
        if (moved := self._moved()) is None:
            return False
        self._where, self._key = moved
        self._client.base_url, self._client.api_key = self._where, self._key
        return True


class TryAgain(ModelFailed):
    """A failure that passes: the same request may well succeed later."""

    def __init__(
        self, text: str, *, kind: str, outcome: str = "", after: float = 0.0, absent: bool = False
    ) -> None:
        """Take the seconds that the server asks to wait, and whether it refuses connections.

        `outcome` is what the ledger calls it where that says more than the kind.
        """
        super().__init__(text, kind=kind, transport=True)
        self.outcome, self.after, self.absent = outcome, after, absent


def failure_of(
    status: int, body: object, headers: Mapping[str, str], where: str, *, hide: str
) -> Exception:
    """Return what an error response means, by its status and its code; `hide` is never quoted."""
    told = body if isinstance(body, Mapping) else {}
    told = told["error"] if isinstance(told.get("error"), Mapping) else told
    codes = {str(told.get("code")), str(told.get("type"))}
    text = " ".join(str(told.get("message") or body).split())
    text = text.replace(hide, "[key]") if hide else text
    line = f"{where}: {status} {text[:200]}"
    if "insufficient_quota" in codes:
        return QuotaExhausted(f"{line}; top the account up, then the same command goes on")
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
        return ServerError(f"{line}; check key and model")
    after = _seconds(headers.get("retry-after"))
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return TryAgain(line, kind="rate_limited", after=after)
    if status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT} or status >= SERVER_ERRORS:
        turned_away = "server_error" if status in TURNED_AWAY else ""
        return TryAgain(line, kind="transport_failed", outcome=turned_away, after=after)
    kinds = (kind for kind, signs in REFUSALS.items() if any(s in f"{codes} {text}" for s in signs))
    return ModelFailed(line, kind=next(kinds, "request_refused"))


def _seconds(value: str | None) -> float:
    try:
        return max(0.0, float(value or 0))
    except ValueError:  # a date: the wait of our own will do
        return 0.0
