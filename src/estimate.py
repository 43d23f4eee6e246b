"""What a run will take, from the calls of one rehearsed interview: tokens, dollars, time.

Retries, second drafts that the guard asks for, repairs of a scorer's answer and preflight checks
are not counted.
"""

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from rich.table import Table

from src.llm.ledger import Account, Prices, dollars
from src.records import Call, Record
from src.rehearsal import Assumptions, Sent, Speed
from src.settings import ModelSettings, RunSettings, ScoreSettings

FIGURES_FROM = 2
"""Columns of a table before its figures."""


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
    cards: int
    """GPUs of all servers that are asked."""
    slurm_seconds: int
    turn_seconds: float
    """Latencies of all models that are asked in a turn."""
    interviews_needed: int | None
    """So many interviews under way keep the interviewer's server busy; None: no model asks."""

    @property
    def gpu_hours(self) -> float:
        return self.cards * self.wall_seconds / 3600

    @property
    def cost(self) -> float | None:
        costs = [role.cost for role in self.roles.values()]
        return None if None in costs else sum(cost or 0.0 for cost in costs)


def estimated(
    sent: Sequence[Sent],
    owed: Mapping[int, int],
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
        roles[role] = role_estimate(mine, role, model=model, prices=prices, speed=speed)
    interviews = sum(owed.values())
    wall, bound = wall_time(counts, roles, interviews, settings=settings, chosen=chosen)
    cards = {key: assumed.speed_of(key, settings.models[key]).cards for key in chosen.values()}
    slurm = assumed.slurm
    wanted = wall * slurm.margin + slurm.start
    return Estimate(
        interviews=interviews,
        roles=roles,
        wall_seconds=wall,
        bound=bound,
        cards=sum(cards.values()),
        slurm_seconds=math.ceil(wanted / slurm.step) * slurm.step,
        **_rule(roles, settings, chosen),
    )


def role_estimate(
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


def wall_time(
    counts: Sequence[tuple[Sent, int]],
    roles: Mapping[str, RoleEstimate],
    interviews: int,
    *,
    settings: RunSettings | ScoreSettings,
    chosen: Mapping[str, str],
) -> tuple[float, str]:
    """Return the seconds of the whole run, and what they are owed to.

    Interviews under way at once go round together; no server answers more calls, requests or
    tokens than it may, whoever asks.
    """
    if not interviews:
        return 0.0, "nothing is owed"
    one = sum(role.calls * role.seconds for role in roles.values()) / interviews
    rounds = math.ceil(interviews / settings.interviews)
    bounds = {"interviews" if rounds > 1 else "the length of an interview": rounds * one}
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


def _rule(
    roles: Mapping[str, RoleEstimate], settings: RunSettings, chosen: Mapping[str, str]
) -> dict[str, Any]:
    """Return the latencies of a turn, and how many interviews hide them.

    Interviews = calls of the interviewer's model * latencies of a turn / the interviewer's own.
    """
    in_turn = [role for role in roles if role != "scorer" or settings.scorer_when == "turn"]
    turn = sum(roles[role].seconds for role in in_turn)
    asks = roles.get("interviewer")
    needed = None
    if asks and asks.seconds:
        needed = math.ceil(settings.models[chosen["interviewer"]].calls * turn / asks.seconds)
    return {"turn_seconds": turn, "interviews_needed": needed}


def table(roles: Mapping[str, Sequence[tuple[str, ...]]]) -> Table:
    """Return the lines of each role."""
    headings = ("role", "model", "calls", "tokens in", "cached", "out", "s a call", "cost")
    shown = Table(box=None)
    for n, heading in enumerate(headings):
        shown.add_column(heading, justify="left" if n < FIGURES_FROM else "right")
    for role, rows in roles.items():
        for cells in rows:
            shown.add_row(role, *cells)
    return shown


def estimated_cells(one: RoleEstimate) -> tuple[str, ...]:
    """Return a role's line of the table, without the role."""
    tokens = (one.input_tokens, one.cached_tokens, one.output_tokens)
    effort = f" ({one.effort})" if one.effort else ""
    cells = map(str, (one.calls, *tokens))
    return (f"{one.model}{effort}", *cells, f"{one.seconds:.1f}", dollars(one.cost))


def taken_cells(account: Account) -> tuple[str, ...]:
    """Return the same of what was taken."""
    tokens = (account.input_tokens, account.cached_tokens, account.output_tokens)
    calls = account.delivered + account.failed
    cells = map(str, (calls, *tokens))
    return ("taken", *cells, f"{account.seconds / max(calls, 1):.1f}", dollars(account.cost))


def beside_line(estimate: Estimate, spans: Sequence[tuple[float, float]]) -> str:
    """Return the estimated time beside the time in which any call was under way."""
    taken = reached = 0.0
    for began, ended in sorted(spans):
        taken += max(0.0, ended - max(began, reached))
        reached = max(reached, ended)
    estimated, wall = (
        timedelta(seconds=round(seconds)) for seconds in (estimate.wall_seconds, taken)
    )
    return (
        f"{estimated} on the wall and {estimate.gpu_hours:.2f} GPU-hours were estimated; calls "
        f"were under way for {wall}, which makes {estimate.cards * taken / 3600:.2f} GPU-hours"
    )


def time_line(estimate: Estimate) -> str:
    """Return wall time, GPU-hours and the limit to ask Slurm for."""
    wall = timedelta(seconds=round(estimate.wall_seconds))
    hours, rest = divmod(estimate.slurm_seconds, 3600)
    return (
        f"{wall} on the wall, bound by {estimate.bound}; {estimate.gpu_hours:.2f} GPU-hours; "
        f"Slurm: --time={hours:02d}:{rest // 60:02d}:00"
    )
