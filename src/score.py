"""Score recorded conversations, or the interviews of a finished run; no interview is held.

    python -m src.score conversations.jsonl scorer=lexical
    python -m src.score interactions_run1.json gold=gold.jsonl out=scores.json
    python -m src.score outputs/offline turns=all
    python -m src.score check=rubric scorer=lexical

Each FILE is an official interactions file (2025 or 2026), JSON lines with `conversation` or
`turns`, or a run's folder. With truths it prints the official measures beside the best constant
guess and what the recording system itself concluded. `check=rubric` scores invented sentences
whose level the rubric gives.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from src import build, command, config
from src.clinical import bdi
from src.errors import InputError, InterviewError, QuotaExhausted, ServerError, boundary
from src.evaluation.conversations import Conversation, notes, read_conversations
from src.evaluation.metrics import Metrics
from src.evaluation.recorded import conversations_of_run
from src.evaluation.scored import Scored, constants_of, measured_of, refuse_two_truths, written
from src.interview.roles import Scorer
from src.llm.caller import Asking, Caller
from src.llm.ledger import Allowance, Prices
from src.llm.preflight import schema_check
from src.llm.proofs import Proofs, prove
from src.llm.servers import open_servers
from src.prompts import load_yaml, located
from src.readings import KeyFor, Readings, key_for
from src.records import INTENDED_USE, Assessment, Failure, Turn
from src.score_estimate import lines_of
from src.settings import ScoreSettings
from src.steering.rubric import Rubric, outcomes, wrong
from src.summary import spent_lines

RUBRIC_CHECK = "conf/checks/rubric.yaml"
JOURNAL = ".journal.jsonl"
"""Ends the name of the file beside the output where a model's readings are kept as they come."""


def score(arguments: Sequence[str]) -> None:
    """Do what the arguments say; whatever goes wrong is a `TacitError`."""
    sources = [a for a in arguments if located(a).exists()]
    settings = config.read_settings(
        "score", ScoreSettings, [a for a in arguments if a not in sources]
    )
    build.refuse_unaccepted(settings)
    if bool(sources) == bool(settings.check):
        raise InputError("name a file of conversations or a run's folder, or check=rubric")
    out = _writable(settings.out, [*sources, settings.gold]) if settings.out else None
    journal = out.with_name(f"{out.name}{JOURNAL}") if out and settings.asked_models else None
    if journal and journal.resolve() in {located(source) for source in sources}:
        raise InputError(f"out={settings.out}: {journal.name}, which is read, would be written to")
    recorded = [(s, c) for s in sources for c in _conversations(s, settings.gold)]
    refuse_two_truths(conversation for _, conversation in recorded)
    prices = load_yaml(settings.price_list, Prices)
    allowance = Allowance(prices, cost=settings.max_cost, tokens=settings.max_tokens)
    console = command.console()
    console.print(INTENDED_USE, style="dim")
    ended: list[QuotaExhausted | ServerError] = []
    with Readings(journal, allowance).opened(to_write=not settings.dry_run) as readings:
        if settings.dry_run:
            _show_estimate(settings, recorded, readings, prices, console)
            return
        if settings.check:
            asyncio.run(_check(settings, console, readings))
        else:
            scored, ended = asyncio.run(_score_all(settings, recorded, console, readings))
            for note in notes(conversation for _, conversation in recorded):
                console.print(f"note: {note}", style="yellow")
            measured = measured_of(scored, settings)
            _show(console, scored, measured, settings)
            if out:
                _write(out, written(scored, measured, settings, readings.ledger(prices)))
                console.print(f"Written: {out}")
        for line in spent_lines(readings.ledger(prices)):
            console.print(line)
    if ended:
        raise ended[0]


def _conversations(source: str, gold: str | None) -> Sequence[Conversation]:
    path = located(source)
    return conversations_of_run(path) if path.is_dir() else read_conversations(source, gold)


async def _score_all(
    settings: ScoreSettings,
    recorded: Sequence[tuple[str, Conversation]],
    console: Console,
    readings: Readings,
) -> tuple[list[Scored], list[QuotaExhausted | ServerError]]:
    """Return every conversation with its readings, in order, and what ended the scoring early."""
    ended: list[QuotaExhausted | ServerError] = []
    admitted = asyncio.Semaphore(settings.interviews)

    async def one(scorer: Scorer, number: int, source: str, conversation: Conversation) -> Scored:
        by_turn: dict[int, Assessment] = {}
        failure = None
        async with admitted:
            try:
                for turns in _to_read(conversation, settings):
                    key = key_of(number, turns)
                    reading = readings.get(key)
                    if reading is None and ended:
                        raise ended[0]
                    if reading is None:
                        reading = await readings.keep(key, await scorer.score(turns))
                    by_turn[len(turns)] = reading
            except InterviewError as error:
                failure = Failure(kind=error.kind, text=str(error), transport=error.transport)
            except (QuotaExhausted, ServerError) as error:  # what is paid for is still written
                failure = Failure(kind=error.kind, text=str(error))
                ended.append(error)
        by_turn = {} if failure else by_turn
        return Scored(source=source, conversation=conversation, by_turn=by_turn, failure=failure)

    async with _scorers(settings, console, readings) as (scorer, key_of):
        rows = (one(scorer(n), n, *row) for n, row in enumerate(recorded, 1))
        return list(await asyncio.gather(*rows)), ended


def _to_read(conversation: Conversation, settings: ScoreSettings) -> Iterator[Sequence[Turn]]:
    """Yield the turns of a conversation up to each that a reading is asked of."""
    count = len(conversation.turns)
    for n in range(1 if settings.turns == "all" else count, count + 1):
        yield conversation.turns[:n]


def _show_estimate(
    settings: ScoreSettings,
    recorded: Sequence[tuple[str, Conversation]],
    readings: Readings,
    prices: Prices,
    console: Console,
) -> None:
    """Print what is still to be paid for; with several models that may rate, by the first."""
    first = next(iter(settings.asked_models.get("scorer", ())), None)
    key_of = key_for(settings, settings.models[first] if first else None)
    rubric = load_yaml(RUBRIC_CHECK, Rubric).rows if settings.check else ()
    asked = [
        *((number, row.turns) for number, row in enumerate(rubric, 1)),
        *(
            (number, turns)
            for number, (_, conversation) in enumerate(recorded, 1)
            for turns in _to_read(conversation, settings)
        ),
    ]
    owed = [one for one in asked if readings.get(key_of(*one)) is None]
    for line in lines_of(settings, owed, readings.ledger(prices)):
        console.print(line)


async def _check(settings: ScoreSettings, console: Console, readings: Readings) -> None:
    """Print which of the rubric's sentences the scorer rates otherwise."""
    rubric = load_yaml(RUBRIC_CHECK, Rubric)
    async with _scorers(settings, console, readings) as (scorer, _):
        found = await outcomes(scorer, rubric)
    for line in wrong(found):
        console.print(line)
    console.print(f"{sum(one.right for one in found)} of {len(found)} sentences at their level")


@asynccontextmanager
async def _scorers(
    settings: ScoreSettings, console: Console, readings: Readings
) -> AsyncIterator[tuple[Callable[[int], Scorer], KeyFor]]:
    """Open the servers; yield what makes a conversation's scorer by its number, and its keys."""
    scorer_for = build.scorer_of(settings.scorer)
    local = settings.local_hosts if settings.privacy == "local" else None
    async with open_servers(
        settings.asked_models,
        settings.models,
        remembered={},
        local_hosts=local,
        endpoints=config.folder(settings.endpoints),
        adapters=False,
    ) as servers:
        for line in servers.introduction:
            console.print(line)
        ours = (s for s in servers.services.values() if s.model.settings.backend == "vllm")
        await prove(map(schema_check, ours), Proofs(config.folder(settings.endpoints)))

        def asking(role: str, number: int) -> Asking:
            model = servers.services[role].model
            about = {"role": role, "name": model.settings.name, "subject": "recorded"}
            return Caller(model, readings, **about, sample=number, run_seed=settings.seed)

        rating = servers.services.get("scorer")
        key_of = key_for(settings, rating.model.settings if rating else None)
        yield lambda number: scorer_for(lambda role: asking(role, number)), key_of


def _show(
    console: Console,
    scored: Sequence[Scored],
    measured: Mapping[str, Metrics],
    settings: ScoreSettings,
) -> None:
    for one in scored:
        if one.failure:
            row = f"row {one.conversation.row}: {one.failure.kind}: {one.failure.text}"
            console.print(f"! {row}", style="red")
    volunteered = [str(n) for n, one in enumerate(scored, 1) if one.by_turn and one.whole[9].score]
    if volunteered:
        console.print(
            f"Self-harm comes up in conversation {', '.join(volunteered)}. This command only reads "
            "what was recorded, and can alert nobody.",
            style="yellow",
        )
    unknown = sum(one.conversation.gold_total is None for one in scored)
    if settings.gold and unknown:
        console.print(
            f"note: {unknown} of {len(scored)} conversations have no truth in {settings.gold}"
        )
    persons = len({one.conversation.person for one in scored})
    console.print(f"{len(scored)} conversations, {persons} persons, {settings.bands} bands")
    if not measured:
        console.print(_readings(scored, settings.bands))
        console.print("No truth is known (gold=FILE names one): nothing to measure against.")
        return
    figures = ("n", "DCHR", "ADODL", "ASHR", "LDCHR", "LASHR", "rank r", "spread")
    columns = (Column(figure, justify="right") for figure in figures)
    table = Table("what, and the unit of its averages", *columns, box=None)
    for unit, constant in constants_of(scored, settings.bands).items():
        best = (constant.dchr, constant.adodl, None, None, None, None, 0.0)
        table.add_row(f"always {constant.total}, {unit}", "", *map(_figure, best))
    for what, m in measured.items():
        values = (m.dchr, m.adodl, m.ashr, m.ldchr, m.lashr, m.spearman, m.spread)
        n = m.persons if what.endswith("person") else m.conversations
        table.add_row(what, str(n), *map(_figure, values))
    console.print(table)
    spread = measured["this scorer, person"].gold_spread
    console.print(
        f"Spread of the true totals over persons: {spread:.2f}. The same name is one person in "
        "every file."
    )


def _readings(scored: Sequence[Scored], bands: bdi.Bands) -> Table:
    table = Table("row", "person", "total", "band", "assessed", "key symptoms", box=None)
    for c, read in ((one.conversation, one.whole) for one in scored if one.by_turn):
        names = ", ".join(map(bdi.name, read.key_symptoms))
        assessed = f"{len(read.assessed)}/{len(bdi.NAMES)}"
        band = bdi.band(read.total, bands)
        table.add_row(str(c.row), c.person, str(read.total), band, assessed, names)
    return table


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f}" if abs(value) > 1 else f"{value:.4f}"


def _write(out: Path, content: Mapping[str, object]) -> None:
    """Write the output whole or not at all."""
    text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    with boundary(str(out)):
        draft = out.with_name(f".{out.name}.{os.getpid()}")
        draft.write_text(text, encoding="utf-8", errors="replace")
        draft.replace(out)


def _writable(path: str, read: Sequence[str | None]) -> Path:
    """Return where to write, refusing before the work what could not be written after it."""
    out = Path(path).absolute()
    if out.is_dir() or not os.access(out.parent, os.W_OK):
        raise InputError(f"out={path}: names no file in a folder that can be written to")
    if out.resolve() in {located(source) for source in read if source}:
        raise InputError(f"out={path}: would take the place of what is read")
    return out


if __name__ == "__main__":
    command.main(__doc__, "score", score)
