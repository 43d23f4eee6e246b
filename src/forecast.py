"""What `dry_run=true` prints, and the estimate beside what a run took.

Nothing is asked, written or spent: a run folder is only read.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.table import Table

from src import build
from src.estimate import (
    Assumptions,
    Estimate,
    Sent,
    estimated,
    expected_messages,
    rehearse,
    rehearsed,
)
from src.llm.ledger import Account, Ledger, Prices, dollars, ledger_of
from src.prompts import load_yaml
from src.provenance import remembered_models
from src.settings import RunSettings
from src.store import SubjectFolder
from src.subject import owed_samples

PAPER = "The paper reports $8 for ten of its baseline and $2 for twenty of its hybrid."
NOT_COUNTED = (
    "Not counted: retries, second drafts that the guard asks for, repairs of an answer, preflight."
)


class Forecast:
    """Estimates a run's interviews by its settings, conf/estimate.yaml and the price list."""

    def __init__(self, settings: RunSettings, root: Path) -> None:
        """Read the run folder and rehearse an interview; a malformed file is an `InputError`."""
        self.settings, self.assumed = settings, load_yaml(settings.estimate, Assumptions)
        self.prices = load_yaml(settings.price_list, Prices)
        asked = {} if settings.only else settings.asked_models
        remembered = remembered_models(root, asked)
        self.names = {r: (remembered[r],) if r in remembered else asked[r] for r in asked}
        self.messages = expected_messages(settings, self.assumed)
        self._sent: dict[tuple[int, tuple[str, ...]], list[Sent]] = {}

    @property
    def chosen(self) -> dict[str, str]:
        """Return each role's model by its name in `models`: the folder's, or the first."""
        return {role: names[0] for role, names in self.names.items()}

    def of(
        self,
        owed: Counter[int],
        *,
        messages: int | None = None,
        chosen: Mapping[str, str] | None = None,
    ) -> Estimate:
        """Return the estimate of interviews, counted by the turns they have finished."""
        chosen = chosen or self.chosen
        return estimated(
            self._rehearsed(messages or self.messages, chosen),
            owed,
            settings=self.settings,
            chosen=chosen,
            prices=self.prices,
            assumed=self.assumed,
        )

    def _rehearsed(self, messages: int, chosen: Mapping[str, str]) -> list[Sent]:
        key = (messages, tuple(chosen.values()))
        if key not in self._sent:
            steady = rehearsed(self.settings, messages=messages)
            models = {role: self.settings.models[name] for role, name in chosen.items()}
            subject = build.persona_name(self.settings.personas[0])
            casting = build.Casting(steady)
            self._sent[key] = asyncio.run(
                rehearse(casting.cast_for, subject, models=models, assumed=self.assumed)
            )
        return self._sent[key]


def show_forecast(settings: RunSettings, console: Console, root: Path) -> None:
    """Print what the interviews that are owed will take."""
    forecast = Forecast(settings, root)
    folders = [SubjectFolder(root / build.persona_name(n)) for n in settings.personas]
    owed, ended = owed_turns(settings, folders)
    if not settings.asked_models:
        console.print("No model is asked: this run costs nothing and needs no GPU.")
    for line in forecast_lines(forecast, owed, ended) if settings.asked_models else ():
        console.print(line)
    console.print("Nothing was asked, written or spent.", style="dim")


def owed_turns(
    settings: RunSettings, folders: Sequence[SubjectFolder]
) -> tuple[Counter[int], int]:
    """Return the owed interviews by the turns they have finished, and how many are finished."""
    owed: Counter[int] = Counter()
    finished = 0
    for folder in folders:
        samples, ended = owed_samples(settings, folder)
        owed.update(len(state.turns) for state in samples.values())
        finished += len(ended)
    return owed, finished


def forecast_lines(forecast: Forecast, owed: Counter[int], ended: int) -> list[Table | str]:
    settings = forecast.settings
    if settings.only or not owed:
        return [f"No interview is owed: {ended} are finished. The answer costs nothing."]
    estimate = forecast.of(owed)
    lines: list[Table | str] = [table(estimate)]
    lines.append(f"{estimate.interviews} interviews")
    return lines


def table(estimate: Estimate) -> Table:
    """Return one line a role."""
    headings = ("role", "model", "effort", "calls", "tokens in", "cached", "tokens out", "cost")
    shown = Table(*headings, box=None)
    for role, one in estimate.roles.items():
        tokens = (one.input_tokens, one.cached_tokens, one.output_tokens)
        shown.add_row(
            role, one.model, one.effort or "", str(one.calls), *map(str, tokens), dollars(one.cost)
        )
    return shown
