"""What tests need to ask the fake server as the product does: settings, a book, a caller."""

from collections.abc import Callable
from dataclasses import dataclass, field

from src.llm.caller import Caller, Request
from src.llm.client import Message, Model
from src.records import Call
from src.settings import CallSettings, ModelSettings, RateSettings, RetrySettings

GEMMA, NANO, LUNA = "google/gemma-3-27b-it", "gpt-5-nano", "gpt-6-luna"
HELLO: tuple[Message, ...] = ({"role": "user", "content": "How have you been?"},)
UNLIMITED = RateSettings(requests=None, tokens=None, seconds=1.0)
QUICK = RetrySettings(tries=3, first_wait=0.01, longest_wait=0.05)


def model_settings(url: str, name: str = GEMMA, **changes: object) -> ModelSettings:
    """Return settings of one served model, quick to give up."""
    paid = name.startswith("gpt-")
    usual: dict[str, object] = {
        "name": name,
        "base_url": url,
        "endpoint": None,
        "backend": "openai" if paid else "vllm",
        "key_env": "OPENAI_API_KEY" if paid else None,
        "calls": 64,
        "context": 16384,
        "accepts": () if paid else ("temperature", "top_p", "top_k", "seed", "stop_token_ids"),
        "tools": "native" if paid else "schema",
        "effort": "minimal" if name == NANO else "none" if paid else None,
        "efforts": ("none", "minimal") if paid else (),
        "rate": UNLIMITED,
        "retry": QUICK,
        "restart_wait": 0.0,
        "kv_bytes_per_token": None,
    }
    return ModelSettings.model_validate(usual | changes)


def call_settings(*, max_tokens: int = 100, timeout: float = 5.0) -> CallSettings:
    return CallSettings(
        temperature=0.7, top_p=0.9, top_k=64, max_tokens=max_tokens, timeout=timeout
    )


def request(
    messages: tuple[Message, ...] = HELLO,
    *,
    turn: int = 1,
    max_tokens: int = 100,
    timeout: float = 5,
) -> Request:
    settings = call_settings(max_tokens=max_tokens, timeout=timeout)
    return Request(messages=messages, settings=settings, turn=turn)


@dataclass
class Book:
    """Keeps what a caller writes down; `on_asked` looks on at that moment."""

    on_asked: Callable[[], None] = lambda: None
    asks: list[tuple[str, int]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def asked(self, role: str, turn: int) -> None:
        self.asks.append((role, turn))
        self.on_asked()

    async def delivered(self, turn: int, call: Call) -> None:
        self.calls.append(call)

    @property
    def outcomes(self) -> list[str]:
        return [call.outcome for call in self.calls]


def caller(
    model: Model,
    book: Book | None = None,
    *,
    role: str = "interviewer",
    name: str = "",
    sample: int = 1,
) -> Caller:
    """Return a caller for one role of one interview with persona 7."""
    return Caller(
        model,
        book or Book(),
        role=role,
        name=name or model.settings.name,
        subject="persona-07",
        sample=sample,
        run_seed=1,
    )
