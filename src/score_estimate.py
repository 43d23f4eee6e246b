"""What `python -m src.score FILE dry_run=true` prints; nothing is asked, written or spent."""

import asyncio
from collections.abc import Iterator, Sequence
from datetime import timedelta

from rich.table import Table

from src import build
from src.estimate import RoleEstimate, estimated_cells, role_estimate, table, wall_time
from src.llm.ledger import Ledger, Prices, dollars
from src.prompts import load_yaml
from src.records import Turn
from src.rehearsal import Assumptions, Sent, Stage
from src.settings import ScoreSettings

ROLE = "scorer"
NOT_COUNTED = "Not counted: retries, repairs of an answer, preflight."
Owed = Sequence[tuple[int, Sequence[Turn]]]
"""What is to be read: the conversation's number, and its turns so far."""


def lines_of(settings: ScoreSettings, owed: Owed, spent: Ledger) -> Iterator[Table | str]:
    """Yield what these readings take, beside what was spent before.

    With several models that may rate: by the first, which is the one that is asked where its API
    lists it.
    """
    names = settings.asked_models.get(ROLE, ())
    if not (names and owed):
        yield "No reading is owed." if names else "No model is asked: no token, no dollar, no GPU."
        return
    assumed, prices = (
        load_yaml(settings.estimate, Assumptions),
        load_yaml(settings.price_list, Prices),
    )
    model, speed = settings.models[names[0]], assumed.speed_of(names[0], settings.models[names[0]])
    counts = [(one, 1) for one in asyncio.run(_rehearsed(settings, owed, assumed))]
    role = role_estimate(counts, ROLE, model=model, prices=prices, speed=speed)
    conversations = len({number for number, _ in owed})
    seconds, bound = wall_time(
        counts, {ROLE: role}, conversations, settings=settings, chosen={ROLE: names[0]}
    )
    yield f"{len(owed)} readings of {conversations} conversations are owed:"
    yield table({ROLE: (estimated_cells(role),)})
    yield (
        f"In all {dollars(role.cost)} at the prices of {prices.as_of}; "
        f"{timedelta(seconds=round(seconds))} on the wall, bound by {bound}"
    )
    yield from _limits(settings, role, spent)
    yield NOT_COUNTED


async def _rehearsed(settings: ScoreSettings, owed: Owed, assumed: Assumptions) -> list[Sent]:
    """Return the requests, in the order of the conversations."""
    name = settings.asked_models[ROLE][0]
    stage = Stage({ROLE: settings.models[name]}, assumed)
    scorer_for = build.scorer_of(settings.scorer)
    for number, turns in owed:
        await scorer_for(stage.asking(number)).score(turns)
    return stage.sent


def _limits(settings: ScoreSettings, role: RoleEstimate, spent: Ledger) -> Iterator[str]:
    """Yield a line for each limit that ends the command before all is read."""
    tokens = role.input_tokens + role.output_tokens
    tokens += sum(one.input_tokens + one.output_tokens for one in spent.roles.values())
    costs = [role.cost, spent.cost]
    if settings.max_cost is not None and None not in costs:
        cost = sum(one or 0.0 for one in costs)
        if cost > settings.max_cost:
            yield f"max_cost={settings.max_cost:g} will end it: it takes {dollars(cost)}"
    if settings.max_tokens is not None and tokens > settings.max_tokens:
        yield f"max_tokens={settings.max_tokens} will end it: it takes {tokens}"
