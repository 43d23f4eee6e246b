"""What `dry_run=true` prints, and the estimate beside what a run took.

Nothing is asked, written or spent: a run folder is only read.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from src import build
from src.errors import InputError, InterviewError
from src.estimate import (
    Estimate,
    RoleEstimate,
    beside_line,
    estimated,
    estimated_cells,
    table,
    taken_cells,
    time_line,
)
from src.llm.ledger import Account, Ledger, Prices, dollars, ledger_of
from src.llm.servers import Servers
from src.prompts import load_yaml
from src.provenance import manifests_of, remembered_models
from src.rehearsal import Assumptions, Sent, expected_messages, rehearse, rehearsed
from src.settings import LoraSettings, RunSettings
from src.store import SubjectFolder
from src.subject import owed_samples

PAPER = "the paper reports $8 for ten of its baseline and $2 for twenty of its hybrid"
NOT_COUNTED = (
    "Not counted: retries, second drafts that the guard asks for, repairs of an answer, calls with "
    "which a model uses a tool, preflight, and an analyst's calls."
)
NOTHING = "Nothing was asked of a server, written or spent."
IN_INTERVIEWS = frozenset({"interviewer", "patient", "scorer"})
Printed = Table | str


class Forecast:
    """Estimates interviews under some settings; what is assumed stands in conf/estimate.yaml."""

    def __init__(self, settings: RunSettings, root: Path) -> None:
        """Read assumptions, prices, and what the run folder chose; wrong ones: `InputError`."""
        self.settings, self.assumed = settings, load_yaml(settings.estimate, Assumptions)
        self.prices = load_yaml(settings.price_list, Prices)
        asked = asked_in_interviews(settings)
        remembered = remembered_models(root, asked)
        self.names = {r: (remembered[r],) if r in remembered else asked[r] for r in asked}
        """By role: which of `models` may play it."""
        self.messages = expected_messages(settings, self.assumed)
        self._subject = _subjects(settings, root)[0]
        self._sent: dict[tuple[object, ...], list[Sent]] = {}

    def of(
        self,
        owed: Mapping[int, int],
        *,
        messages: int | None = None,
        chosen: Mapping[str, str] | None = None,
    ) -> Estimate:
        """Return the estimate of owed interviews, their number by the turns finished already.

        `messages`: of each interview, by itself as many as are expected. `chosen`: each role's
        model, by itself the first that may play it.
        """
        chosen = {role: names[0] for role, names in self.names.items()} | dict(chosen or {})
        return estimated(
            self._rehearsed(messages or self.messages, chosen),
            owed,
            settings=self.settings,
            chosen=chosen,
            prices=self.prices,
            assumed=self.assumed,
        )

    def _rehearsed(self, messages: int, chosen: Mapping[str, str]) -> list[Sent]:
        key = (messages, *chosen.values())
        if key not in self._sent:
            casting = build.Casting(rehearsed(self.settings, messages=messages))
            models = {role: self.settings.models[name] for role, name in chosen.items()}
            self._sent[key] = asyncio.run(
                rehearse(casting.cast_for, self._subject, models=models, assumed=self.assumed)
            )
        return self._sent[key]


def show_forecast(settings: RunSettings, console: Console, root: Path) -> None:
    """Print what the interviews that are owed will take; refuse what a run would refuse."""
    build.Casting(settings)
    names = _subjects(settings, root)
    folders = [SubjectFolder(root / name) for name in names]
    manifests, _ = manifests_of(settings, Servers(services={}), names, root)
    for folder in folders:
        _refuse_other(folder, manifests[folder.path.name].identity)
    if asked_in_interviews(settings):
        for line in _lines(Forecast(settings, root), folders):
            console.print(line)
    else:
        console.print("No model is asked in an interview: no token, no dollar, no GPU.")
    console.print(NOTHING, style="dim")


def asked_in_interviews(settings: RunSettings) -> dict[str, tuple[str, ...]]:
    """Return the names in `models` that may play each role of an interview."""
    return {role: names for role, names in settings.asked_models.items() if role in IN_INTERVIEWS}


def _subjects(settings: RunSettings, root: Path) -> list[str]:
    """Return whom the run is about; which personas are served, no server is asked."""
    if isinstance(settings.patient, LoraSettings):
        return [build.persona_name(number) for number in settings.personas]
    return build.subjects(settings, Servers(services={}), root)[0]


def _refuse_other(folder: SubjectFolder, identity: Mapping[str, str]) -> None:
    """Refuse a folder that was held otherwise; what only a server can tell is passed over."""
    held = folder.manifest()
    known = held.identity if held else {}
    told = {key: known[key] for key in known if key.endswith((".model", ".effort"))}
    folder.refuse_other({**told, **identity})


def _lines(forecast: Forecast, folders: Sequence[SubjectFolder]) -> list[Printed]:
    settings, spent = forecast.settings, _spent(folders, forecast.prices)
    owed: Counter[int] = Counter()
    for folder in folders if settings.only is None else ():
        owed.update(len(state.turns) for state in owed_samples(settings, folder)[0].values())
    owed[0] += len(settings.redo)
    lines: list[Printed] = [f"Owed: {owed.total()} interviews; what has ended is not held again."]
    if owed.total():
        lines += _owed(forecast, +owed, spent)
    return lines + _beside(forecast, folders, spent)


def _spent(folders: Sequence[SubjectFolder], prices: Prices) -> Ledger:
    return ledger_of(chain.from_iterable(folder.calls()[0] for folder in folders), prices)


def _owed(forecast: Forecast, owed: Mapping[int, int], spent: Ledger) -> list[Printed]:
    """Return what the owed interviews take: by role, then in all."""
    settings, estimate = forecast.settings, forecast.of(owed)
    each = f"{forecast.messages} messages each, as {settings.estimate} assumes"
    lines: list[Printed] = [
        f"{estimate.interviews} interviews of {each}:",
        table({role: (estimated_cells(one),) for role, one in estimate.roles.items()}),
        f"In all {dollars(estimate.cost)}; {time_line(estimate)}",
    ]
    if (most := settings.orchestrator.max_messages) > forecast.messages:
        longest = forecast.of(owed, messages=most)
        lines.append(f"With {most} messages each {dollars(longest.cost)}; {time_line(longest)}")
    lines += [*_rule(forecast, estimate), *_prices(forecast), *_limits(settings, estimate, spent)]
    return [*lines, NOT_COUNTED]


def _beside(forecast: Forecast, folders: Sequence[SubjectFolder], spent: Ledger) -> list[Printed]:
    """Return the estimate of as many interviews as have ended beside what was taken."""
    held = [state.ended.messages for f in folders for state in f.load().values() if state.ended]
    if not (held and spent.roles):
        return []
    estimate = forecast.of({0: len(held)})
    rows = {
        role: (estimated_cells(one), taken_cells(spent.roles[role]))
        for role, one in estimate.roles.items()
        if role in spent.roles
    }
    lengths = f"{fmean(held):.1f} messages, {forecast.messages} were estimated"
    spans = [span for folder in folders for span in folder.spans()]
    return [
        f"{len(held)} interviews have ended, on average with {lengths}:",
        table(rows),
        beside_line(estimate, spans),
    ]


def taken(settings: RunSettings, root: Path, folders: Sequence[SubjectFolder]) -> list[Printed]:
    """Return what a run took beside its estimate, or why there is none; nothing without models.

    The answers stand, whatever the rehearsal meets.
    """
    if not asked_in_interviews(settings):
        return []
    try:
        forecast = Forecast(settings, root)
        return _beside(forecast, folders, _spent(folders, forecast.prices))
    except (InputError, InterviewError) as error:
        return [f"No estimate to compare with: {error}"]


def _rule(forecast: Forecast, estimate: Estimate) -> list[str]:
    """Return how many interviews keep the interviewer's server busy, and how many there are."""
    if estimate.interviews_needed is None:
        return []
    settings, needed = forecast.settings, estimate.interviews_needed
    calls = settings.models[forecast.names["interviewer"][0]].calls
    own, limit = estimate.roles["interviewer"].seconds, settings.interviews
    rule = (
        "The interviewer's server stays busy where interviews >= calls x (sum of the latencies) / "
        f"its own latency = {calls} x {estimate.turn_seconds:.1f} s / {own:.1f} s = {needed}"
    )
    if estimate.interviews < needed:
        return [f"{rule}; this run owes {estimate.interviews}"]
    return [f"{rule}; interviews={limit} is {'enough' if limit >= needed else 'below'}"]


def _prices(forecast: Forecast) -> list[str]:
    """Return what one persona costs by the price list, with each model that may play."""
    settings, samples = forecast.settings, forecast.settings.samples
    one = forecast.of({0: samples})
    efforts = "".join(f", {role} effort {e.effort}" for role, e in one.roles.items() if e.effort)
    priced = f"{dollars(one.cost)} at the prices of {forecast.prices.as_of}{efforts}"
    paper = "" if settings.of_cases else f"; {PAPER}"
    lines = [f"One subject, {samples} interviews: {priced}{paper}"]
    for role, names in forecast.names.items():
        others = [(n, forecast.of({0: samples}, chosen={role: n}).roles[role]) for n in names]
        if len(others) > 1:
            told = ", ".join(f"{n} {dollars(other.cost)}" for n, other in others)
            lines.append(f"The {role} is the first of these that its API lists: {told} a persona")
    if unknown := [role.model for role in one.roles.values() if role.cost is None]:
        lines.append(f"{settings.price_list} has no price of {', '.join(unknown)}")
    return lines


def _limits(settings: RunSettings, estimate: Estimate, spent: Ledger) -> list[str]:
    """Return a line for each limit of the run that ends it before its interviews are held."""
    accounts: list[RoleEstimate | Account] = [*estimate.roles.values(), *spent.roles.values()]
    tokens = sum(account.input_tokens + account.output_tokens for account in accounts)
    costs = (estimate.cost, spent.cost)
    cost = None if None in costs else sum(cost or 0.0 for cost in costs)
    lines = []
    if settings.max_cost is not None and cost is not None and cost > settings.max_cost:
        lines.append(f"max_cost={settings.max_cost:g} will end the run: it takes {dollars(cost)}")
    if settings.max_tokens is not None and tokens > settings.max_tokens:
        lines.append(f"max_tokens={settings.max_tokens} will end the run: it takes {tokens}")
    return lines
