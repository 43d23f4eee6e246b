"""How the fake server refuses: each backend in its own words, and the limits of a window."""

import json
import time
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Self

from aiohttp import web
from fake_plan import Fault, Served

Body = Mapping[str, Any]
ALTERNATE = "Conversation roles must alternate user/assistant/user/assistant/..."
VLLM = frozenset(
    {
        *("model", "messages", "max_tokens", "max_completion_tokens", "stream", "n"),
        *("temperature", "top_p", "top_k", "min_p", "seed", "stop", "stop_token_ids"),
        *("logprobs", "top_logprobs"),
        *("cache_salt",),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "response_format"),
    }
)
"""What a vLLM profile takes. The real one ignores all else in silence, which is worse."""
OPENAI = frozenset(
    {
        *("model", "messages", "max_completion_tokens", "stream", "n", "temperature", "seed"),
        *("reasoning_effort", "response_format", "verbosity", "service_tier"),
        *("prompt_cache_key", "store", "metadata"),
        *("tools", "tool_choice", "parallel_tool_calls"),
    }
)
TYPED = ("type", "$ref", "anyOf", "enum", "const")


class Refused(Exception):
    """An error response."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | int | None = None,
        param: str | None = None,
        after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.after = status, after
        self.body = {"error": {"message": message, "type": kind, "param": param, "code": code}}

    @classmethod
    def vllm(cls, status: int, message: str, kind: str = "BadRequestError") -> Self:
        return cls(status, message, kind=kind, code=status)

    @classmethod
    def too_long(cls, window: int, prompt: int, budget: int) -> Self:
        return cls(
            400,
            f"This model's maximum context length is {window} tokens. However, you requested "
            f"{prompt + budget} tokens ({prompt} in the messages, {budget} in the completion).",
            code="context_length_exceeded",
        )

    def response(self) -> web.Response:
        headers = {} if self.after is None else {"Retry-After": f"{self.after:g}"}
        return web.Response(
            status=self.status,
            text=json.dumps(self.body),
            content_type="application/json",
            headers=headers,
        )


def refusal(fault: Fault) -> None:
    """Raise what a planned fault refuses with; return for those that do not refuse."""
    text, after = fault.text, fault.after
    match fault.kind:
        case "rate_limited":
            kind, code = "tokens", "rate_limit_exceeded"
            raise Refused(429, text or "Rate limit reached.", kind=kind, code=code, after=after)
        case "insufficient_quota":
            quota = "insufficient_quota"
            raise Refused(429, text or "You exceeded your quota.", kind=quota, code=quota)
        case "server_error":
            raise Refused(500, text or "The server had an error.", kind="server_error")
        case "unavailable":
            raise Refused(503, text or "Overloaded.", kind="server_error", after=after)
        case "unauthorized":
            raise Refused(401, text or "Incorrect API key provided.", code="invalid_api_key")
        case "bad_request":
            raise Refused(400, text or "Something in the request is wrong.")
        case "invalid_prompt":
            raise Refused(
                400,
                text or "Invalid prompt: it was flagged as potentially against our usage policy.",
                code="invalid_prompt",
            )
        case "context_length":
            raise Refused.too_long(8192, 9000, 800)
        case _:
            return


def checked(body: Body, models: Mapping[str, Served]) -> Served:
    """Return the model that is asked; raise what its backend refuses of the request."""
    name = str(body.get("model"))
    model = models.get(name)
    if model is None:
        raise Refused(404, f"The model `{name}` does not exist.", code="model_not_found")
    if model.profile == "openai":
        _reasoning(body, model)
    else:
        if unknown := sorted(set(body) - VLLM):
            raise Refused.vllm(400, f"unknown parameter: {', '.join(unknown)}")
        _roles(body["messages"], strict=model.profile == "gemma")
    return model


def _roles(messages: list[Body], *, strict: bool) -> None:
    roles = [str(message["role"]) for message in messages]
    if unknown := set(roles) - {"system", "user", "assistant"}:
        raise Refused.vllm(400, f"Unexpected message role: {', '.join(sorted(unknown))}")
    rest = roles[1:] if roles[:1] == ["system"] else roles
    if not rest:
        raise Refused.vllm(400, "There is no message.")
    alternate = all((role == "user") == (n % 2 == 0) for n, role in enumerate(rest))
    if strict and not alternate:
        raise Refused.vllm(400, ALTERNATE)
    if rest[-1] != "user":
        raise Refused.vllm(400, "The last message is not the user's: there is nothing to answer.")


def _reasoning(body: Body, model: Served) -> None:
    effort = str(body.get("reasoning_effort", "medium"))
    if "max_tokens" in body:
        raise Refused(
            400,
            "Unsupported parameter: 'max_tokens' is not supported with this model. "
            "Use 'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        )
    if effort not in model.efforts:
        raise Refused(
            400,
            f"Unsupported value: 'reasoning_effort' does not support '{effort}' with this model.",
            param="reasoning_effort",
            code="unsupported_value",
        )
    if "temperature" in body and effort != "none" and body["temperature"] != 1:
        raise Refused(
            400,
            f"Unsupported value: 'temperature' does not support {body['temperature']} with this "
            "model. Only the default (1) value is supported.",
            param="temperature",
            code="unsupported_value",
        )
    if unknown := sorted(set(body) - OPENAI):
        raise Refused(
            400,
            f"Unknown parameter: '{unknown[0]}'.",
            param=unknown[0],
            code="unknown_parameter",
        )
    form = body.get("response_format")
    if form and form.get("type") == "json_schema":
        inner = form["json_schema"]
        lax = [] if inner.get("strict") is True else ["'strict' is not true"]
        for reason in (*lax, *_breaches(inner.get("schema", {}), "schema")):
            raise Refused(
                400,
                f"Invalid schema for response_format '{inner.get('name')}': {reason}.",
                param="response_format",
            )


def _breaches(schema: Body, place: str) -> Iterator[str]:
    """Yield what a strict schema may not be."""
    if not any(key in schema for key in TYPED):
        yield f"{place} has no type"
    for key in ("default", "patternProperties", "allOf", "oneOf"):
        if key in schema:
            yield f"{place}: '{key}' is not permitted"
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{place}: 'additionalProperties' is required to be supplied and to be false"
        if sorted(schema.get("required", ())) != sorted(schema.get("properties", {})):
            yield f"{place}: 'required' is required to be supplied and to name every property"
    for name, part in _parts(schema):
        yield from _breaches(part, f"{place}.{name}")


def _parts(schema: Body) -> Iterator[tuple[str, Body]]:
    yield from schema.get("properties", {}).items()
    yield from schema.get("$defs", {}).items()
    yield from ((f"anyOf[{n}]", part) for n, part in enumerate(schema.get("anyOf", ())))
    if "items" in schema:
        yield "items", schema["items"]


class Limits:
    """Tokens and requests that one model takes in a window."""

    def __init__(self, model: Served) -> None:
        self._model = model
        self._taken: deque[tuple[float, int]] = deque()
        self._level, self._at = 0.0, time.monotonic()
        self._count = 0.0

    def take(self, tokens: int) -> None:
        """Raise a 429 with the seconds until there is room, or take the tokens."""
        model, now = self._model, time.monotonic()
        if model.tokens is None and model.requests is None:
            return
        wait = (
            self._sliding(tokens, now) if model.limiter == "sliding" else self._bucket(tokens, now)
        )
        if wait > 0:
            raise Refused(
                429,
                f"Rate limit reached for {model.name}. Please try again in {wait:.3f}s.",
                kind="tokens",
                code="rate_limit_exceeded",
                after=wait,
            )

    def _bucket(self, tokens: int, now: float) -> float:
        model, passed = self._model, now - self._at
        self._at = now
        wait = 0.0
        if model.tokens:
            self._level = max(0.0, self._level - passed * model.tokens / model.window)
            wait = (
                (self._level + min(tokens, model.tokens) - model.tokens)
                * model.window
                / model.tokens
            )
        if model.requests:
            self._count = max(0.0, self._count - passed * model.requests / model.window)
            wait = max(wait, (self._count + 1 - model.requests) * model.window / model.requests)
        if wait <= 0:
            self._level, self._count = self._level + tokens, self._count + 1
        return max(0.0, wait)

    def _sliding(self, tokens: int, now: float) -> float:
        model = self._model
        while self._taken and now - self._taken[0][0] >= model.window:
            self._taken.popleft()
        spent, count, wait = sum(n for _, n in self._taken), len(self._taken), 0.0
        for at, size in self._taken:
            fits = model.tokens is None or spent + tokens <= model.tokens
            if fits and (model.requests is None or count + 1 <= model.requests):
                break
            spent, count, wait = spent - size, count - 1, at + model.window - now
        if wait == 0.0:
            self._taken.append((now, tokens))
        return wait
