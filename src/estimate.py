"""What a run will take: one interview is rehearsed, and its calls are summed up.

In a rehearsal the real players build the real prompts, while a stand-in answers for every model
with a text of an assumed length. No request is sent. Retries, second drafts that the guard asks
for, repairs of a scorer's answer and preflight checks are not counted.
"""

import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from src.interview.loop import hold
from src.interview.roles import Cast
from src.llm.caller import Asking, Reply, Request
from src.llm.ledger import Prices
from src.llm.structured import Schema
from src.records import Call, Record, Turn
from src.settings import CoverageSettings, ModelSettings, RunSettings

Amount = Annotated[int, Field(ge=0)]
Positive = Annotated[float, Field(gt=0)]
CastFor = Callable[[Callable[[str], Asking], str, int], Cast]
"""Makes the cast of an interview from a way to each role's model, a subject and a sample."""
NEVER = 10_000
"""Turns that no interview has."""


class Cache(Record):
    """What a server keeps of earlier prompts."""

    block: Annotated[int, Field(ge=1)]
    least: Amount


class Speed(Record):
    """How fast a model answers while its server is busy."""

    first: Annotated[float, Field(ge=0)]
    tokens: Positive
    cards: Amount


class Slurm(Record):
    margin: Annotated[float, Field(ge=1)]
    start: Amount
    step: Annotated[int, Field(ge=60)]


class Assumptions(Record):
    """What cannot be computed, `conf/estimate.yaml`."""

    messages: dict[Literal["coverage", "budget"], Annotated[int, Field(ge=2)] | None]
    characters: dict[str, Amount]
    bytes_per_token: Annotated[int, Field(ge=1)]
    reasoning: dict[str, Amount]
    cache: dict[Literal["vllm", "openai"], Cache]
    speed: dict[str, Speed]
    slurm: Slurm

    def tokens(self, text: str) -> int:
        """Return about how many tokens a text has."""
        return math.ceil(len(text.encode()) / self.bytes_per_token)

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


class RoleEstimate(Record):
    """Sums over the calls of one role."""

    model: str
    effort: str | None
    calls: int
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    cost: float | None
    """US dollars; None where the price is not known."""
    seconds: float
    """Mean of one call."""


class Estimate(Record):
    """What interviews take."""

    interviews: int
    roles: dict[str, RoleEstimate]
    wall_seconds: float
    bound: str
    """What keeps it from being faster."""
    gpu_hours: float
    slurm_seconds: int
    interviews_needed: int | None
    """So many interviews under way keep the interviewer's server busy; None: no model asks."""

    @property
    def cost(self) -> float | None:
        costs = [role.cost for role in self.roles.values()]
        return None if None in costs else sum(cost or 0.0 for cost in costs)


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
        prompt = "".join(f"<{m['role']}>\n{m['content']}</>\n" for m in request.messages)
        sign = f"{role[0]}{self._sample}x{request.turn} "  # no word that any list holds
        length = stage.assumed.characters.get(role, 0)
        filler = (sign * (length // len(sign) + 1))[: max(length, len(sign))].strip()
        schema = request.schema
        text = json.dumps(filled(schema, filler)) if schema is not None else filler
        thought = stage.assumed.reasoning.get(stage.models[role].effort or "none", 0)
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


def filled(schema: Schema, text: str) -> object:
    """Return the plainest value that a schema accepts, with this text for every free string."""
    if schema.get("enum"):
        return schema["enum"][0]
    kinds = schema.get("type")
    match kinds[0] if isinstance(kinds, list) else kinds:
        case "object":
            return {name: filled(part, text) for name, part in schema["properties"].items()}
        case "array":
            return [filled(schema["items"], text)] * schema.get("minItems", 0)
        case "string":
            return text
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return schema.get("minimum", 0)


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
        pass

    for sample in (1, 2):
        stage.sent.clear()
        await hold(cast_for(stage.asking(sample), subject, sample), [], keep)
    return stage.sent


def estimated(
    sent: Sequence[Sent],
    owed: Counter[int],
    *,
    settings: RunSettings,
    chosen: Mapping[str, str],
    prices: Prices,
    assumed: Assumptions,
) -> Estimate:
    """Return what the owed interviews take: how many, by the turns they have finished already.

    `chosen` is the name in `models` of each role's model. An interview that has gone on for longer
    than the rehearsed one counts with its last turn.
    """
    last = max((one.turn for one in sent), default=0)
    counts = [(s, sum(n for done, n in owed.items() if s.turn > min(done, last - 1))) for s in sent]
    roles = {}
    for role, key in chosen.items():
        model = settings.models[key]
        mine = [(one, n) for one, n in counts if one.role == role]
        speed = assumed.speed_of(key, model)
        roles[role] = _summed(mine, role, model=model, prices=prices, speed=speed)
    interviews = sum(owed.values())
    wall, bound = _wall(counts, roles, interviews, settings=settings, chosen=chosen)
    cards = {key: assumed.speed_of(key, settings.models[key]).cards for key in chosen.values()}
    slurm = assumed.slurm
    wanted = wall * slurm.margin + slurm.start
    return Estimate(
        interviews=interviews,
        roles=roles,
        wall_seconds=wall,
        bound=bound,
        gpu_hours=sum(cards.values()) * wall / 3600,
        slurm_seconds=math.ceil(wanted / slurm.step) * slurm.step,
        interviews_needed=_needed(roles, settings, chosen),
    )


def _summed(
    counts: Sequence[tuple[Sent, int]],
    role: str,
    *,
    model: ModelSettings,
    prices: Prices,
    speed: Speed,
) -> RoleEstimate:
    calls = sum(n for _, n in counts)
    costs = [(prices.cost(_call(one, role, model.name)), n) for one, n in counts]
    output = sum(one.output * n for one, n in counts)
    return RoleEstimate(
        model=model.name,
        effort=model.effort,
        calls=calls,
        input_tokens=sum(one.prompt * n for one, n in counts),
        cached_tokens=sum(one.cached * n for one, n in counts),
        output_tokens=output,
        cost=None if any(c is None for c, _ in costs) else sum((c or 0.0) * n for c, n in costs),
        seconds=speed.first + output / calls / speed.tokens if calls else 0.0,
    )


def _call(one: Sent, role: str, name: str) -> Call:
    """Return a request as a price list sees it: what is new is written to the cache."""
    return Call(
        role=role,
        asked=name,
        input_tokens=one.prompt,
        cached_tokens=one.cached,
        written_tokens=one.prompt - one.cached,
        output_tokens=one.output,
    )


def _wall(
    counts: Sequence[tuple[Sent, int]],
    roles: Mapping[str, RoleEstimate],
    interviews: int,
    *,
    settings: RunSettings,
    chosen: Mapping[str, str],
) -> tuple[float, str]:
    """Return the seconds of the whole run, and what they are owed to.

    Interviews under way at once go round together; no server answers more calls, requests or
    tokens than it may, whoever asks.
    """
    if not interviews:
        return 0.0, "nothing is owed"
    one = sum(role.calls * role.seconds for role in roles.values()) / interviews
    rounds = math.ceil(interviews / settings.limits.interviews)
    bounds = {"limits.interviews" if rounds > 1 else "the length of an interview": rounds * one}
    for key in dict.fromkeys(chosen.values()):
        model, mine = settings.models[key], [role for role in roles if chosen[role] == key]
        rate, of = model.rate, f"models.{key}"
        calls = sum(roles[role].calls for role in mine)
        busy = sum(roles[role].calls * roles[role].seconds for role in mine)
        bounds[f"{of}.calls"] = busy / model.calls + one * (rounds > 1)
        if rate.requests:
            bounds[f"{of}.rate.requests"] = calls / rate.requests * rate.seconds
        if rate.tokens:  # a request weighs what it may answer, as the paid API reckons
            weight = sum(max(s.prompt, s.budget) * n for s, n in counts if s.role in mine)
            bounds[f"{of}.rate.tokens"] = weight / rate.tokens * rate.seconds
    bound = max(bounds, key=bounds.__getitem__)
    return bounds[bound], bound


def _needed(
    roles: Mapping[str, RoleEstimate], settings: RunSettings, chosen: Mapping[str, str]
) -> int | None:
    """Return calls of the interviewer's model * all latencies of a turn / the interviewer's."""
    asks = roles.get("interviewer")
    if asks is None or not asks.seconds:
        return None
    each_turn = [r for r in roles if r != "scorer" or settings.scorer_when == "turn"]
    turn = sum(roles[role].seconds for role in each_turn)
    return math.ceil(settings.models[chosen["interviewer"]].calls * turn / asks.seconds)
