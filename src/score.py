"""Score recorded conversations, or the interviews of a finished run; no interview is held.

    python -m src.score conversations.jsonl scorer=lexical
    python -m src.score interactions_run1.json gold=gold.jsonl out=scores.json
    python -m src.score outputs/offline turns=all

Each FILE is an official interactions file (2025 or 2026), JSON lines with `conversation` or
`turns`, or a run's folder. With truths it prints the official measures beside the best constant
guess and what the recording system itself concluded.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import get_args

from rich.console import Console
from rich.table import Table

from src import build, command, config
from src.clinical import bdi
from src.errors import InputError, boundary
from src.evaluation.conversations import Conversation, notes, read_conversations
from src.evaluation.metrics import (
    Constant,
    Metrics,
    Outcome,
    Unit,
    best_constant,
    measure,
)
from src.evaluation.recorded import conversations_of_run
from src.interview.roles import Scorer
from src.prompts import located
from src.records import INTENDED_USE, Assessment, Record
from src.settings import ScoreSettings

SHOWN_TURNS = (1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 24)
"""With turns=all, the turns after which the measures are printed; the file holds them all."""


class Scored(Record):
    """One conversation and what the scorer made of it, after the last turn or after every one."""

    source: str
    conversation: Conversation
    by_turn: dict[int, Assessment]
    """By finished turns; the last is the reading of the whole."""

    def after(self, turn: int) -> Assessment:
        """Return the reading after a turn, or after the last one before it."""
        return self.by_turn[max(n for n in self.by_turn if n <= turn)]

    @property
    def whole(self) -> Assessment:
        return self.by_turn[max(self.by_turn)]


def score(arguments: Sequence[str]) -> None:
    """Do what the arguments say; whatever goes wrong is a `TacitError`."""
    sources = [a for a in arguments if located(a).exists()]
    settings = config.read_settings(
        "score", ScoreSettings, [a for a in arguments if a not in sources]
    )
    if not sources:
        raise InputError("nothing to score: name a file of conversations or a run's folder")
    out = _writable(settings.out) if settings.out else None
    scorer = build.scorer(settings.scorer)
    recorded = [
        (source, conversation)
        for source in sources
        for conversation in _conversations(source, settings.gold)
    ]
    scored = asyncio.run(_score_all(recorded, scorer, every_turn=settings.turns == "all"))
    console = command.console()
    console.print(INTENDED_USE, style="dim")
    for note in notes(conversation for _, conversation in recorded):
        console.print(f"note: {note}", style="yellow")
    measured = _measured(scored, settings)
    _show(console, scored, measured, settings)
    if out:
        text = json.dumps(_written(scored, measured, settings), indent=2, ensure_ascii=False)
        with boundary(str(out)):
            out.write_text(text + "\n", encoding="utf-8")
        console.print(f"Written: {out}")


def _conversations(source: str, gold: str | None) -> Sequence[Conversation]:
    path = located(source)
    return conversations_of_run(path) if path.is_dir() else read_conversations(source, gold)


async def _score_all(
    recorded: Sequence[tuple[str, Conversation]], scorer: Scorer, *, every_turn: bool
) -> list[Scored]:
    """Return every conversation with its readings, in order."""
    scored = []
    for source, conversation in recorded:
        turns, count = conversation.turns, len(conversation.turns)
        by_turn = {
            n: await scorer.score(turns[:n])
            for n in (([*range(1, count + 1)] if every_turn else []) or [count])
        }
        scored.append(Scored(source=source, conversation=conversation, by_turn=by_turn))
    return scored


def _measured(scored: Sequence[Scored], settings: ScoreSettings) -> dict[str, Metrics]:
    """Return the measures by what they are of; none where no truth is known."""
    known = [one for one in scored if one.conversation.gold_total is not None]
    if not known:
        return {}
    recorded = [one.conversation for one in known if one.conversation.predicted_total is not None]
    sets = {
        "this scorer": [_outcome(one.conversation, one.whole) for one in known],
        "as recorded": [_outcome(conversation, None) for conversation in recorded],
    }
    found = {
        f"{what}, {unit}": measure(outcomes, bands=settings.bands, unit=unit)
        for what, outcomes in sets.items()
        if outcomes
        for unit in get_args(Unit)
    }
    longest = max(len(one.conversation.turns) for one in known)
    for turn in SHOWN_TURNS if settings.turns == "all" else ():
        if turn < longest:
            early = [_outcome(one.conversation, one.after(turn), turn) for one in known]
            found[f"after turn {turn}, conversation"] = measure(early, bands=settings.bands)
    return found


def _outcome(
    conversation: Conversation, read: Assessment | None, after: int | None = None
) -> Outcome:
    """Return a reading, or else the recorded prediction, beside the truth."""
    total = read.total if read else conversation.predicted_total
    symptoms = read.key_symptoms if read else conversation.predicted_symptoms
    assert total is not None
    assert conversation.gold_total is not None
    return Outcome(
        person=conversation.person,
        predicted=total,
        gold=conversation.gold_total,
        k=min(after or conversation.k, conversation.k),
        predicted_symptoms=symptoms or (),
        gold_symptoms=conversation.gold_symptoms,
    )


def _constants(scored: Sequence[Scored], bands: bdi.Bands) -> dict[str, Constant]:
    """Return the best constant guess over the conversations, and over the persons."""
    known = {
        n: (one.conversation.person, one.conversation.gold_total)
        for n, one in enumerate(scored)
        if one.conversation.gold_total is not None
    }
    each = {"conversation": list(known.values()), "person": sorted(set(known.values()))}
    return {
        unit: best_constant([gold for _, gold in pairs], bands)
        for unit, pairs in each.items()
        if pairs
    }


def _show(
    console: Console,
    scored: Sequence[Scored],
    measured: Mapping[str, Metrics],
    settings: ScoreSettings,
) -> None:
    persons = len({one.conversation.person for one in scored})
    console.print(f"{len(scored)} conversations, {persons} persons, {settings.bands} bands")
    if not measured:
        table = Table("row", "person", "total", "band", "assessed", "key symptoms", box=None)
        for one in scored:
            band = bdi.band(one.whole.total, settings.bands)
            names = ", ".join(map(bdi.name, one.whole.key_symptoms))
            c, assessed = one.conversation, f"{len(one.whole.assessed)}/{len(bdi.NAMES)}"
            table.add_row(str(c.row), c.person, str(one.whole.total), band, assessed, names)
        console.print(table)
        console.print("No truth is known (gold=FILE names one): nothing to measure against.")
        return
    table = Table("what, and the unit of its averages", box=None)
    for heading in ("n", "DCHR", "ADODL", "ASHR", "LDCHR", "LASHR", "rank r", "spread"):
        table.add_column(heading, justify="right")
    for unit, constant in _constants(scored, settings.bands).items():
        best = (constant.dchr, constant.adodl, None, None, None, None, 0.0)
        table.add_row(f"always {constant.total}, {unit}", "", *map(_figure, best))
    for what, m in measured.items():
        values = (m.dchr, m.adodl, m.ashr, m.ldchr, m.lashr, m.spearman, m.spread)
        n = m.persons if what.endswith("person") else m.conversations
        table.add_row(what, str(n), *map(_figure, values))
    console.print(table)
    of_persons = measured["this scorer, person"]
    console.print(
        f"Spread of the true totals over persons: {of_persons.gold_spread:.2f}. The same name is "
        "one person in every file."
    )


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) > 1 else f"{value:.4f}"


def _written(
    scored: Sequence[Scored], measured: Mapping[str, Metrics], settings: ScoreSettings
) -> dict[str, object]:
    """Return all of it: the measures, and a row per conversation in the order of the files."""
    constants = _constants(scored, settings.bands)
    return {
        "intended_use": INTENDED_USE,
        "settings": settings.model_dump(mode="json"),
        "measures": {what: m.model_dump() for what, m in measured.items()},
        "best_constant": {unit: constant.model_dump() for unit, constant in constants.items()},
        "conversations": [_row(one, settings) for one in scored],
    }


def _row(one: Scored, settings: ScoreSettings) -> dict[str, object]:
    about = one.conversation.model_dump(mode="json", exclude={"turns", "closing"})
    row = {"source": one.source, **about, **_reading(one.whole, settings.bands)}
    if settings.turns == "all":
        row["by_turn"] = {n: _reading(read, settings.bands) for n, read in one.by_turn.items()}
    return row


def _reading(read: Assessment, bands: bdi.Bands) -> dict[str, object]:
    return {
        "total": read.total,
        "band": bdi.band(read.total, bands),
        "key_symptoms": [bdi.name(item) for item in read.key_symptoms],
        "items": [
            {
                "item": n,
                "name": bdi.name(n),
                "score": symptom.score,
                "confidence": symptom.confidence,
                "assessed": symptom.assessed,
                "evidence": symptom.evidence,
            }
            for n, symptom in enumerate(read.symptoms, 1)
        ],
    }


def _writable(path: str) -> Path:
    """Return where to write, refusing before the work what could not be written after it."""
    out = Path(path).absolute()
    if out.is_dir() or not out.parent.is_dir():
        raise InputError(f"out={path}: names no file in a folder that exists")
    return out


if __name__ == "__main__":
    command.main(__doc__, "score", score)
