"""One role's way to its model in one interview: budget, tries, and a written record of each."""

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception_type

from src.errors import ModelFailed, QuotaExhausted, ServerError
from src.llm.client import Message, Model, TryAgain
from src.llm.ledger import UNBILLED
from src.llm.responses import SECOND_CHANCES, Delivered, ToolCall, read_response
from src.records import Call, seed_of
from src.settings import CallSettings, ModelSettings

BYTES_PER_TOKEN = 2
"""A lower bound for the tokenizers in use, so that bytes / 2 bounds the tokens from above."""
USUAL_BYTES_PER_TOKEN = 4
"""What providers reckon with when they weigh a request against a token rate."""
ABSENT_WAIT = 2.0
"""Longest wait before a server that is not there is tried again, in seconds."""
MESSAGE_BYTES = 16
"""What the chat template adds to each message, at most."""


class CallBook(Protocol):
    """Where calls are written down: before they are sent, and when they came to something."""

    def asked(self, role: str, turn: int) -> None:
        """Note that a call is on its way; a kill may leave it unanswered.

        Raises `QuotaExhausted` where nothing more may be spent: then it is not sent.
        """
        ...

    async def delivered(self, turn: int, call: Call) -> None:
        """Return once the call is on disk."""
        ...


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is asked of a model, whoever asks."""

    messages: Sequence[Message]
    settings: CallSettings
    turn: int
    schema: Mapping[str, Any] | None = None
    """JSON schema that the answer must follow."""
    stop: tuple[str, ...] = ()
    stop_token_ids: tuple[int, ...] = ()
    tools: Sequence[Mapping[str, Any]] = ()
    """What the model may call, as the API describes it."""
    tool_choice: Literal["auto", "none"] = "auto"

    @property
    def size(self) -> int:
        """Return the bytes of the prompt, the tools and an allowance for the template included."""
        return size_of(self.messages) + (len(json.dumps(self.tools)) if self.tools else 0)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A model's answer with all the calls it took."""

    text: str
    truncated: bool
    calls: tuple[Call, ...]
    tool_calls: tuple[ToolCall, ...] = ()
    """What the model wants to use, in its order; the text may be empty then."""


class Asking(Protocol):
    """Whoever can put a request to a model: a `Caller`, or a test's double."""

    async def ask(self, request: Request) -> Reply:
        """Return the answer, or raise `ModelFailed`."""
        ...


class Caller:
    """One role's way to its model in one interview."""

    def __init__(
        self,
        model: Model,
        book: CallBook,
        *,
        role: str,
        name: str,
        subject: str,
        sample: int,
        run_seed: int,
    ) -> None:
        """Take the name under which the server lists the model, and where calls are written."""
        self._model, self._book = model, book
        self._role, self._name = role, name
        self._subject, self._sample, self._run_seed = subject, sample, run_seed
        self._named = subject if model.settings.backend == "vllm" else opaque(subject)
        self._known = (0, 0)
        """Tokens and bytes of this role's last prompt: spares asking for a count, no state."""

    async def ask(self, request: Request) -> Reply:
        """Return the answer; raise `ModelFailed` by kind once its rule allows no further try."""
        calls: list[Call] = []
        budget = request.settings.max_tokens
        chances = 0
        while True:
            await self._refuse_too_long(request, budget)
            try:
                found = await self._delivered(request, budget, calls)
            except ModelFailed as error:
                times = SECOND_CHANCES.get(error.kind, 0)
                if not times or chances:
                    raise
            else:
                if found.input_tokens is not None:
                    self._known = (found.input_tokens, request.size)
                return Reply(
                    text=found.text,
                    truncated=found.truncated,
                    calls=tuple(calls),
                    tool_calls=found.tool_calls,
                )
            chances += 1
            budget *= times

    async def _delivered(self, request: Request, budget: int, calls: list[Call]) -> Delivered:
        """Return a response that came whole, trying again while the way to the server fails."""
        return await self._tries()(self._try, request, budget, calls)

    def _tries(self) -> AsyncRetrying:
        settings = self._model.settings
        retry, patience = settings.retry, Patience(settings.retry.tries, settings.restart_wait)
        return AsyncRetrying(
            stop=patience.ends,
            wait=lambda state: waited(state, retry.first_wait, retry.longest_wait),
            retry=retry_if_exception_type(TryAgain),
            reraise=True,
        )

    async def _try(self, request: Request, budget: int, calls: list[Call]) -> Delivered:
        """Send once, and write down what came of it whatever that is."""
        seed = seed_of(self._run_seed, self._subject, self._sample, request.turn, self._role)
        body = body_of(request, self._name, self._model.settings, budget=budget, seed=seed)
        weight = max(request.size // USUAL_BYTES_PER_TOKEN, budget)
        label = f"{self._named}/{self._sample}/{request.turn}/{self._role}"
        started, outcome, found = 0.0, "cancelled", None

        def sending() -> None:
            nonlocal started
            self._book.asked(self._role, request.turn)
            started = time.monotonic()

        try:
            answer = await self._model.chat(
                body,
                seconds=request.settings.timeout,
                tokens=weight,
                label=label,
                sending=sending,
            )
            may_call = bool(request.tools) and request.tool_choice == "auto"
            found = read_response(answer, whole=request.schema is not None, tools=may_call)
            outcome = found.failure or "ok"
        except (ModelFailed, ServerError, QuotaExhausted) as error:
            outcome = (error.outcome if isinstance(error, TryAgain) else "") or error.kind
            raise
        finally:
            if started:
                usage = found.usage if found else {}
                told = outcome in UNBILLED or usage.get("input_tokens") is not None
                call = Call(
                    role=self._role,
                    asked=self._name,
                    attempt=len(calls) + 1,
                    seconds=round(time.monotonic() - started, 4),
                    outcome=outcome,
                    at_most=None if told else (request.size // USUAL_BYTES_PER_TOKEN, budget),
                    **usage,
                )
                calls.append(call)
                await self._book.delivered(request.turn, call)
        if found.failure:
            raise ModelFailed(f"{self._name}: {found.failure}", kind=found.failure)
        return found

    async def _refuse_too_long(self, request: Request, budget: int) -> None:
        """Raise `context_exceeded` for a prompt that cannot fit; count only where it might not."""
        window = self._model.settings.context
        tokens, size = self._known
        bound = tokens + max(0, request.size - size) // BYTES_PER_TOKEN
        if bound + budget <= window:
            return
        exact: int | None = await self._tries()(
            self._model.tokens_of, self._name, request.messages, request.tools
        )
        if (needed := (bound if exact is None else exact) + budget) > window:
            raise ModelFailed(
                f"{self._name}: {needed} tokens with the answer, the window holds {window}",
                kind="context_exceeded",
            )


class Patience:
    """How long one request is repeated: so many tries, and so long where no server is there."""

    def __init__(self, tries: int, restart_wait: float) -> None:
        self._tries, self._restart_wait = tries, restart_wait
        self._absent_since: float | None = None

    def ends(self, state: RetryCallState) -> bool:
        """Whether the last failure is final."""
        error = state.outcome.exception() if state.outcome else None
        if not (isinstance(error, TryAgain) and error.absent and self._restart_wait):
            self._tries -= 1
            self._absent_since = None
            return self._tries <= 0
        now = time.monotonic()
        self._absent_since = self._absent_since or now
        return now - self._absent_since >= self._restart_wait


def opaque(subject: str) -> str:
    """Return what stands for a subject where others than we read it, such as a provider.

    It tells interviews apart, but is too short to find a user's record by.
    """
    return hashlib.blake2b(subject.encode(), digest_size=2).hexdigest()


def size_of(messages: Sequence[Message]) -> int:
    """Return the bytes of a prompt, an allowance for the template included."""
    texts = (
        (message["content"] or "")
        + (json.dumps(message["tool_calls"]) if "tool_calls" in message else "")
        for message in messages
    )
    return sum(len(text.encode()) + MESSAGE_BYTES for text in texts)


def body_of(
    request: Request, name: str, model: ModelSettings, *, budget: int, seed: int
) -> dict[str, object]:
    """Return the request's body with every sampling parameter that the API accepts."""
    settings = request.settings
    body: dict[str, object] = {"model": name, "messages": list(request.messages)}
    body["max_completion_tokens" if model.backend == "openai" else "max_tokens"] = budget
    optional = {
        "temperature": settings.temperature,
        "top_p": settings.top_p,
        "top_k": settings.top_k,
        "seed": seed,
        "stop_token_ids": list(request.stop_token_ids) or None,
    }
    body |= {key: optional[key] for key in model.accepts if optional[key] is not None}
    if request.stop:
        body["stop"] = list(request.stop)
    if model.effort is not None:
        body["reasoning_effort"] = model.effort
    if request.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": request.schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.tools:
        body |= {"tools": list(request.tools), "tool_choice": request.tool_choice}
    return body


def waited(state: RetryCallState, first: float, longest: float) -> float:
    """Return how long to wait: what the server asks for, else twice as long each time."""
    error = state.outcome.exception() if state.outcome else None
    asked = error.after if isinstance(error, TryAgain) else 0.0
    absent = isinstance(error, TryAgain) and error.absent
    usual = min(longest, first * 2.0 ** min(state.attempt_number - 1, 16))
    return max(asked, min(usual, ABSENT_WAIT) if absent else usual)
