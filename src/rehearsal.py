"""One interview rehearsed: the real players build the real prompts, a stand-in answers them.

The stand-in's texts have assumed lengths, and no rule ends the rehearsal early. No request is
sent. What goes wrong in real interviews is not rehearsed: retries, drafts that the guard refuses,
answers to be repaired.
"""

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field, model_validator

from src.interview.loop import hold
from src.interview.roles import Cast
from src.llm.caller import Asking, Reply, Request
from src.llm.offering import NONE
from src.records import Record, Turn
from src.settings import CoverageSettings, ModelSettings, RunSettings

Amount = Annotated[int, Field(ge=0)]
CastFor = Callable[[Callable[[str], Asking], str, int], Cast]
"""Makes the cast of an interview from a way to each role's model, a subject and a sample."""
NEEDED = {
    "messages": ("coverage", "budget"),
    "characters": ("interviewer", "patient", "scorer"),
    "cache": ("vllm", "openai", "compatible"),
    "speed": ("vllm", "openai", "compatible"),
}
"""Keys that every file of assumptions has."""
NEVER = 10_000
"""Turns that no interview has."""


class Cache(Record):
    """What a server keeps of earlier prompts."""

    block: Annotated[int, Field(ge=1)]
    least: Amount


class Speed(Record):
    """How fast a model answers while its server is busy."""

    first: Annotated[float, Field(ge=0)]
    tokens: Annotated[float, Field(gt=0)]
    cards: Amount


class Slurm(Record):
    margin: Annotated[float, Field(ge=1)]
    start: Amount
    step: Annotated[int, Field(ge=60)]


class Assumptions(Record):
    """What cannot be computed, `conf/estimate.yaml`."""

    messages: dict[str, Annotated[int, Field(ge=2)] | None]
    """By kind of orchestrator; None: all that there may be."""
    characters: dict[str, Amount]
    bytes_per_token: Annotated[int, Field(ge=1)]
    reasoning: Annotated[dict[str, Amount], Field(min_length=1)]
    cache: dict[str, Cache]
    speed: dict[str, Speed]
    slurm: Slurm

    @model_validator(mode="after")
    def _complete(self) -> "Assumptions":
        for name, keys in NEEDED.items():
            if missing := [key for key in keys if key not in getattr(self, name)]:
                raise ValueError(f"{name}.{missing[0]} is missing")
        return self

    def tokens(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return math.ceil(len(text.encode()) / self.bytes_per_token)

    def thought(self, effort: str | None) -> int:
        """Return the tokens of a call's reasoning; an effort that is not listed may be dear."""
        return self.reasoning.get(effort, max(self.reasoning.values())) if effort else 0

    def speed_of(self, name: str, model: ModelSettings) -> Speed:
        return self.speed.get(name) or self.speed[model.backend]


@dataclass(frozen=True)
class Sent:
    """One request of the rehearsed interview, in tokens."""

    role: str
    turn: int
    prompt: int
    cached: int
    output: int
    budget: int
    """Tokens that the answer may have."""


class Stage:
    """Stands in for every model of one rehearsal, and keeps what was sent."""

    def __init__(self, models: Mapping[str, ModelSettings], assumed: Assumptions) -> None:
        """Take each role's model."""
        self.models, self.assumed = models, assumed
        self.sent: list[Sent] = []
        self._kept: dict[str, set[int]] = {role: set() for role in models}

    def asking(self, sample: int) -> Callable[[str], Asking]:
        """Return the way to each role's model in an interview."""
        return lambda role: StandIn(self, role, sample)

    def cached(self, role: str, prompt: str) -> int:
        """Return the tokens of a prompt that an earlier one of this role began with; keep it."""
        cache, kept = self.assumed.cache[self.models[role].backend], self._kept[role]
        size = cache.block * self.assumed.bytes_per_token
        plain = prompt.encode()
        chain, found, run = 0, 0, True
        for start in range(0, len(plain) - size + 1, size):
            chain = hash((chain, plain[start : start + size]))
            run = run and chain in kept
            found += run
            kept.add(chain)
        return found * cache.block if found * cache.block >= cache.least else 0


class StandIn:
    """Answers for one role's model in one interview."""

    def __init__(self, stage: Stage, role: str, sample: int) -> None:
        self._stage, self._role, self._sample = stage, role, sample

    async def ask(self, request: Request) -> Reply:
        """Note the request, and answer with a text of the length assumed for this role."""
        stage, role = self._stage, self._role
        prompt = json.dumps(request.tools) if request.tools else ""
        prompt += "".join(f"<{m['role']}>\n{m['content']}</>\n" for m in request.messages)
        sign = f"{role[0]}{self._sample}x{request.turn} "  # no word that any list holds
        length = stage.assumed.characters[role]
        filler = (sign * (length // len(sign) + 1))[: max(length, len(sign))].strip()
        schema = request.schema
        text = filler if schema is None else json.dumps(filled(schema, filler))
        thought = stage.assumed.thought(stage.models[role].effort)
        budget = request.settings.max_tokens
        stage.sent.append(
            Sent(
                role,
                request.turn,
                prompt=stage.assumed.tokens(prompt),
                cached=stage.cached(role, prompt),
                output=min(budget, stage.assumed.tokens(text) + thought),
                budget=budget,
            )
        )
        return Reply(text=text, truncated=False, calls=())


def filled(schema: Mapping[str, Any], text: str) -> object:
    """Return the plainest value that a schema accepts, with this text for every free string.

    Of several tools none is called.
    """
    if choices := schema.get("enum"):
        return NONE if NONE in choices else choices[0]
    kinds = schema["type"]
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if kind == "object":
        return {name: filled(part, text) for name, part in schema["properties"].items()}
    if kind == "array":
        return [filled(schema["items"], text)] * schema.get("minItems", 0)
    plain = {"string": text, "boolean": False, "null": None}
    return plain.get(kind, schema.get("minimum", 0))


def rehearsed(settings: RunSettings, *, messages: int) -> RunSettings:
    """Return settings under which an interview has so many messages, whatever is said in it."""
    steering = settings.orchestrator.model_copy(update={"max_messages": messages})
    if isinstance(steering, CoverageSettings):
        steady = {"coverage": "guard", "confident_turn": NEVER, "stable_turn": NEVER}
        steering = steering.model_copy(update={**steady, "signals": "none"})
    guard = settings.guard.model_copy(update={"kind": "none"})
    return settings.model_copy(update={"orchestrator": steering, "guard": guard})


def expected_messages(settings: RunSettings, assumed: Assumptions) -> int:
    """Return the messages of the interviewer that an interview is expected to have."""
    most = settings.orchestrator.max_messages
    return min(most, assumed.messages[settings.orchestrator.kind] or most)


async def rehearse(
    cast_for: CastFor, subject: str, *, models: Mapping[str, ModelSettings], assumed: Assumptions
) -> list[Sent]:
    """Return the requests of one interview, on servers that have seen another one before."""
    stage = Stage(models, assumed)

    async def keep(_: Turn) -> None:
        """Keep nothing."""

    for sample in (1, 2):
        stage.sent.clear()
        await hold(cast_for(stage.asking(sample), subject, sample), [], keep)
    return stage.sent
