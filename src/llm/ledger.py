"""What was asked of models: tokens by role and kind, and what it cost where a price is known."""

import re
from collections.abc import Iterable
from datetime import date
from typing import Annotated

from pydantic import Field

from src.errors import QuotaExhausted
from src.records import Call, Record

Dollars = Annotated[float, Field(ge=0)]
MILLION = 1_000_000
UNBILLED = {
    "unreachable",
    "server_error",
    "rate_limited",
    "quota_exhausted",
    "context_exceeded",
    "request_refused",
    "prompt_refused",
    "content_filtered",
}
"""Outcomes of a request that met no server, or that the server turned away."""
ADAPTER = "persona-"
"""How the names of served adapters begin."""
DATED = re.compile(r"-\d{4}-\d{2}-\d{2}$")


class Price(Record):
    """US dollars for a million tokens of one model."""

    input: Dollars
    cached: Dollars
    written: Dollars
    output: Dollars
    above: int | None = None
    """A request with more input tokens than this costs more, each token of it."""
    input_times: float = 1
    output_times: float = 1


class Prices(Record):
    """A dated price list."""

    as_of: date
    models: dict[str, Price]
    free: tuple[str, ...]
    """Models that are served by ourselves: no price is paid for a token."""

    def cost(self, call: Call) -> float | None:
        """Return what one request cost in dollars, or None where the price is not known.

        By request: a large one is dearer by itself, however small the others are.
        """
        name = next((n for n in (call.reported, call.asked) if n and self._known(n)), call.asked)
        if name in self.free or name.startswith(ADAPTER):
            return 0.0
        if call.input_tokens is None:  # a refusal costs nothing; of the rest nobody knows
            return 0.0 if call.outcome in UNBILLED else None
        price = self.models.get(self._listed(name))
        if price is None:
            return None
        large = price.above is not None and call.input_tokens > price.above
        dearer = (price.input_times, price.output_times) if large else (1.0, 1.0)
        cached, written = call.cached_tokens or 0, call.written_tokens or 0
        fresh = call.input_tokens - cached - written
        given = fresh * price.input + cached * price.cached + written * price.written
        return (given * dearer[0] + (call.output_tokens or 0) * price.output * dearer[1]) / MILLION

    def _known(self, name: str) -> bool:
        return self._listed(name) in self.models or name in self.free

    def _listed(self, name: str) -> str:
        """Return the name in the list: a dated snapshot costs what its model costs."""
        return DATED.sub("", name)


class Account(Record):
    """Sums over the calls of one role."""

    delivered: int = 0
    """Responses that came, with or without an answer in them."""
    failed: int = 0
    """Calls that brought no response."""
    input_tokens: int = 0
    cached_tokens: int = 0
    written_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    seconds: float = 0.0
    outcomes: dict[str, int] = Field(default_factory=dict)
    """How many calls came to what; `ok` is an answer."""
    cost: float | None = 0.0
    """US dollars; None as soon as one request's price is not known."""


class Ledger(Record):
    """Everything asked of models in one subject's interviews, failed attempts included."""

    roles: dict[str, Account] = Field(default_factory=dict)
    unknown: int = 0
    """Calls on their way when the process was killed: nobody knows what became of them."""
    priced: date | None = None

    @property
    def cost(self) -> float | None:
        costs = [account.cost for account in self.roles.values()]
        return None if None in costs else sum(cost or 0.0 for cost in costs)


class Allowance:
    """What a run may spend in all, over restarts: nothing is sent once it is used up.

    Calls under way then are still answered and paid for. One that was cut off counts as what it may
    have taken at most, or as much as the dearest one known where nobody noted that.
    """

    def __init__(self, prices: Prices, *, cost: float | None, tokens: int | None) -> None:
        """Take the limits in dollars and tokens; None: no limit."""
        self._prices, self._cost_max, self._tokens_max = prices, cost, tokens
        self._cost = self._dearest = 0.0
        self._tokens = self._dearest_tokens = 0
        self._unknown = 0

    @property
    def limited(self) -> bool:
        return self._cost_max is not None or self._tokens_max is not None

    def count(self, call: Call) -> None:
        """Count what a call took; of a model without a price its tokens alone."""
        if call.input_tokens is None and call.outcome not in UNBILLED:
            if call.at_most is None:
                self.count_unknown(1)
                return
            prompt, answer = call.at_most
            call = call.model_copy(update={"input_tokens": prompt, "output_tokens": answer})
        cost = self._prices.cost(call) or 0.0
        tokens = (call.input_tokens or 0) + (call.output_tokens or 0)
        self._cost, self._tokens = self._cost + cost, self._tokens + tokens
        self._dearest = max(self._dearest, cost)
        self._dearest_tokens = max(self._dearest_tokens, tokens)

    def count_unknown(self, calls: int) -> None:
        """Count calls of which nobody knows what they took."""
        self._unknown += calls

    def refuse_more(self) -> None:
        """Raise `QuotaExhausted` where a limit is reached."""
        cost = self._cost + self._unknown * self._dearest
        tokens = self._tokens + self._unknown * self._dearest_tokens
        way_on = "the same command goes on with a higher one"
        if self._cost_max is not None and cost >= self._cost_max:
            raise QuotaExhausted(f"max_cost: {dollars(cost)} of ${self._cost_max:g}; {way_on}")
        if self._tokens_max is not None and tokens >= self._tokens_max:
            raise QuotaExhausted(f"max_tokens: {tokens} of {self._tokens_max}; {way_on}")


def dollars(cost: float | None) -> str:
    """Return a cost as people read it; an unknown one is not nothing."""
    return "cost unknown" if cost is None else f"${cost:.4f}"


def ledger_of(calls: Iterable[Call], prices: Prices, *, unknown: int = 0) -> Ledger:
    """Return the sums over calls by role."""
    roles: dict[str, Account] = {}
    for call in calls:
        roles[call.role] = _added(roles.get(call.role, Account()), call, prices.cost(call))
    return Ledger(roles=roles, unknown=unknown, priced=prices.as_of if roles else None)


def _added(account: Account, call: Call, cost: float | None) -> Account:
    delivered = call.reported is not None or call.input_tokens is not None
    return Account(
        delivered=account.delivered + delivered,
        failed=account.failed + (not delivered),
        input_tokens=account.input_tokens + (call.input_tokens or 0),
        cached_tokens=account.cached_tokens + (call.cached_tokens or 0),
        written_tokens=account.written_tokens + (call.written_tokens or 0),
        output_tokens=account.output_tokens + (call.output_tokens or 0),
        reasoning_tokens=account.reasoning_tokens + (call.reasoning_tokens or 0),
        seconds=round(account.seconds + call.seconds, 4),
        outcomes=account.outcomes | {call.outcome: account.outcomes.get(call.outcome, 0) + 1},
        cost=None if account.cost is None or cost is None else account.cost + cost,
    )
