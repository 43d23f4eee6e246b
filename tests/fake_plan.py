"""What the fake server serves, how fast, and where it fails: the settings of `fake_server.py`."""

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict

Profile = Literal["gemma", "persona", "openai"]
FaultKind = Literal[
    # no answer
    "rate_limited",  # 429, with Retry-After where `after` is set
    "insufficient_quota",  # 429 that no waiting heals
    "server_error",  # 500
    "unavailable",  # 503
    "unauthorized",  # 401
    "bad_request",  # 400 of no special kind
    "invalid_prompt",  # 400, the provider's policy
    "context_length",  # 400, the prompt does not fit
    "dropped",  # the connection ends before any answer
    "cut_body",  # the connection ends within the answer
    "broken_json",  # 200, the whole body came, but it is half a JSON text
    "html",  # 200, a proxy's page
    "no_choices",  # 200, an error object instead of an answer
    "hang",  # no answer, the connection stays
    "trickle",  # a blank now and then, for ever
    "no_usage",  # 200, an answer whose tokens are not told
    # an answer, but not what was asked for
    "empty",
    "reasoned_away",  # every token went into reasoning: empty, finish `length`
    "in_reasoning",  # the text stands in reasoning_content
    "refusal",
    "content_filter",
    "whitespace_loop",
    "cut_off",  # half the text, finish `length`
    "prose",  # no JSON where JSON is due
    "header_leak",
    "both_sides",
    "role_reversal",
    "text",  # the text of the fault, whatever it is
]


ToolPlay = Literal[
    "usual",  # one or two calls before each answer
    "none",
    "unknown",  # a tool that nobody offered
    "bad_ids",
    "malformed",  # arguments that are no JSON
    "endless",  # a call in every response, as long as any may be made
    "many",  # fifty calls in one response
    "stop",  # the safety stop, where it is offered
]


def names_of(subject: str) -> tuple[str, str]:
    """Return how calls name a subject: to our own servers, and to a provider."""
    return subject, hashlib.blake2b(subject.encode(), digest_size=2).hexdigest()


class Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Fault(Strict):
    """One failure, and which requests it meets; a field that is None meets all."""

    kind: FaultKind
    role: str | None = None
    subject: str | None = None
    sample: int | None = None
    turn: int | None = None
    attempt: int | None = None
    """1 = the first request with this label."""
    model: str | None = None
    share: float = 1.0
    """How likely it is, by the plan's seed: the same for the same request."""
    times: int | None = None
    """How often it happens at most."""
    after: float | None = None
    """Retry-After of a 429 or a 503, in seconds."""
    text: str = ""
    """The content of kind `text`; the message of an error."""


class Served(Strict):
    """One model on the server's list."""

    name: str
    profile: Profile
    context: int = 16384
    efforts: tuple[str, ...] = ("minimal", "low", "medium", "high")
    """What the reasoning models take; the first is their least."""
    shutdown_date: str | None = None
    latency: tuple[float, float] | None = None
    """Least and most seconds of an answer; None: the plan's."""
    tokens: int | None = None
    requests: int | None = None
    """The most tokens (the larger of prompt and budget) and requests in a window."""
    window: float = 60.0
    limiter: Literal["bucket", "sliding"] = "bucket"
    """`bucket` fills steadily, as the paid API's; `sliding` counts the last window exactly."""
    writes_cost: bool = False
    """Whether the usage names tokens written to the cache."""
    weights: str | None = None
    """What its probabilities depend on; None: its name. Two with the same are one model."""


LUNA = ("none", "low", "medium", "high")


def served(name: str, **more: object) -> Served:
    """Return a model by its name, which says what kind it is."""
    profile = "persona" if name.startswith("persona-") else "openai" if "gpt-" in name else "gemma"
    usual: dict[str, object] = {"name": name, "profile": profile}
    if profile == "persona":
        usual["context"] = 8192
    if profile == "openai":
        usual["context"] = 400_000
    if "luna" in name:
        usual |= {"efforts": LUNA, "writes_cost": True}
    return Served.model_validate(usual | more)


def adapter(number: int) -> str:
    """Return the name under which a persona's adapter is served."""
    return f"persona-{number:02}-{digest('adapter', number):08x}"


def digest(*parts: object) -> int:
    """Return 32 bits that depend on the parts alone."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=4).digest())


DEFAULT_MODELS = (
    served("google/gemma-3-27b-it"),
    served("gpt-5-nano", shutdown_date="2026-12-11"),
    served("gpt-5.6-luna"),
    served("gpt-6-luna"),
    *(served(adapter(number)) for number in range(1, 21)),
)


class Plan(Strict):
    """Everything that the server can be told."""

    models: tuple[Served, ...] = DEFAULT_MODELS
    faults: tuple[Fault, ...] = ()
    """The first that fits is met."""
    key: str | None = None
    seed: int = 0
    latency: tuple[float, float] = (0.0, 0.0)
    numbered: bool = False
    """Whether every free text ends with the number of its request, as in `(#12)`."""
    tools: ToolPlay = "usual"
    """How models use the tools that they are offered."""
    note: str = ""
    """What interviewers write into their notepad; empty: always the same."""
    keep_bodies: bool = True
    caches: bool = True
    """Whether a prompt's beginning is known from earlier ones."""
    counts: bool = True
    """Whether `/tokenize` is there."""
    count_failures: int = 0
    """How many of the first `/tokenize` requests end in a 503."""
