"""Compare diagnostic reports with the cases' references; nothing is interviewed or diagnosed.

    python -m src.evaluate runs=[outputs/psycidra,outputs/direct]
    python -m src.evaluate runs=[outputs/psycidra] out=evaluation view=true
    python -m src.evaluate runs=[outputs/psycidra] view=case-001/1 out=evaluation
    python -m src.evaluate runs=[outputs/a,outputs/b] compare=[a/diagnosis,b/diagnosis]

A condition is `run/analyst`. Printed are agreement of codes and decisions, families, confidence,
pairs of conditions on the same cases, tools, tokens, dollars and seconds; out=FOLDER writes these
and longer tables as CSV, with what each column means, and view=true a page for each interview.
"""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, combinations
from pathlib import Path

from pydantic import RootModel
from rich.console import Console
from rich.table import Column, Table

from src import command, config
from src.conditions import Run, runs_of, times_held_out
from src.errors import InputError, boundary
from src.evaluation.guarded import guard_sheet
from src.evaluation.intervals import Intervals
from src.evaluation.judged import Judged
from src.evaluation.sheets import Agreement, Cell, Row, Sheet
from src.evaluation.tool_sheets import tool_sheets
from src.evaluation.view import page
from src.interviewers.agent import CAPPED
from src.interviewers.assessment_guard import GUARDED
from src.llm.ledger import Prices
from src.prompts import load_yaml
from src.records import INTENDED_USE
from src.rehearsal import Assumptions
from src.settings.evaluate import EvaluateSettings

COLUMNS = "conf/evaluate_columns.yaml"
COMPANIONS = ("_hits", "_low", "_high", "_by")
"""Columns that stand beside a share; on a terminal they are in its cell."""
LARGE, SMALL = 100, 0.1
"""From the one on a terminal shows one decimal, below the other four."""
SHOWN_PAIRS = 6
"""Pairs of conditions that a terminal shows: those of two interviewers and two diagnosers."""

Reports = dict[str, list[Judged]]


class Columns(RootModel[dict[str, str]]):
    """What each column means."""


def evaluate(arguments: Sequence[str]) -> None:
    """Do what the arguments say; whatever goes wrong is a `TacitError`."""
    settings = config.read_settings("evaluate", EvaluateSettings, arguments)
    out = command.empty_folder(settings.out, replaced=False) if settings.out else None
    runs = runs_of(settings.runs)
    reports = {label: one.judged for run in runs for label, one in run.conditions.items()}
    pairs = _pairs(settings, reports)
    pages = dict(_pages(settings, runs))
    agreement = Agreement(
        intervals=Intervals(level=settings.level, resamples=settings.resamples, seed=settings.seed),
        ages=settings.age_bands,
    )
    prices = load_yaml(settings.price_list, Prices)
    assumed = load_yaml(settings.estimate, Assumptions)
    held = {run.name: run.held(assumed) for run in runs}
    tools = tool_sheets(held, prices.cost, capped=CAPPED)
    found = chain(agreement.sheets(reports, pairs), tools, [guard_sheet(held, GUARDED)])
    sheets = [sheet for sheet in found if sheet.rows]
    console = command.console()
    console.print(INTENDED_USE, style="dim")
    for note in _notes(runs, reports, level=settings.level):
        console.print(note, style="yellow")
    _show(console, sheets)
    if out is None:
        console.print(f"out=FOLDER writes all {len(sheets)} tables as CSV")
        return
    tables = {f"{sheet.name}.csv": _csv(sheet.rows) for sheet in sheets}
    _put(out, {**tables, "columns.csv": _csv(_dictionary(sheets)), **pages})
    console.print(f"Written: {out}, {len(tables)} tables, {len(pages)} pages")


def _pairs(settings: EvaluateSettings, reports: Reports) -> list[tuple[str, str]]:
    """Return the conditions to compare; refuse unknown ones, and those without references."""
    if settings.compare is None:
        return list(combinations(reports, 2))
    for condition in settings.compare:
        if condition not in reports:
            raise InputError(f"compare: no condition {condition}; there are: {', '.join(reports)}")
        if all(one.references is None for one in reports[condition]):
            raise InputError(
                f"compare: {condition} has no references: its subjects are personas, not cases"
            )
    return [settings.compare]


def _notes(runs: Sequence[Run], reports: Reports, *, level: float) -> Iterator[str]:
    """Yield what must be known before any figure is read."""
    conditions = {label: one for run in runs for label, one in run.conditions.items()}
    if any(one.cautions for one in conditions.values()):
        yield "Simulated patients, machinery: rule-based players took part; no figure is of quality"
    for run in runs:
        if run.held_out:
            names = times_held_out(run)
            yield (
                f"{run.name}: the held-out cohort {run.held_out} was run {len(names)} times in "
                f"this folder: {', '.join(names)}"
            )
        for label, one in run.conditions.items():
            there = {subject for subject, _ in run.interviews}
            if missing := sorted(there - one.subjects):
                yield f"{label}: no result for {len(missing)} subjects, first {missing[0]}"
    for label, judged in reports.items():
        if all(one.references is None for one in judged):
            yield f"{label}: no reference is known, so nothing is measured against one"
    yield f"Intervals: {level:.0%}, Wilson's, or a bootstrap by case where cases repeat"


def _pages(settings: EvaluateSettings, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """Yield the asked pages by file name."""
    wanted = 0
    for run in runs if settings.view else ():
        for (subject, sample), interview in run.interviews.items():
            if settings.view not in (True, f"{subject}/{sample}"):
                continue
            wanted += 1
            text = page(
                interview,
                {
                    name: one.diagnoses[subject, sample]
                    for name, one in run.analysts.items()
                    if (subject, sample) in one.diagnoses
                },
                title=f"{subject}, interview {sample}, run {run.name}",
                references=run.references.get(subject),
            )
            yield f"pages/{run.name.replace('/', '-')}/{subject}-{sample}.md", text
    if settings.view and not wanted:
        raise InputError(f"view={settings.view}: no such interview in {', '.join(settings.runs)}")


def _show(console: Console, sheets: Sequence[Sheet]) -> None:
    for sheet in sheets:
        rows = [dict(_cells(row)) for row in sheet.rows]
        if not sheet.printed:
            continue
        if sheet.name == "paired" and len({(row["a"], row["b"]) for row in rows}) > SHOWN_PAIRS:
            console.print("\nToo many pairs to show: compare=[A/analyst,B/analyst] names two")
            continue
        columns = (Column(name, overflow="fold") for name in rows[0])
        table = Table(*columns, title=f"\n{sheet.title}", title_justify="left", box=None)
        for row in rows:
            table.add_row(*row.values())
        console.print(table)


def _cells(row: Row) -> Iterator[tuple[str, str]]:
    """Yield what a terminal shows of a row: a share with its count and interval in one cell."""
    for column, value in row.items():
        if f"{column}_low" in row:
            low, high = row[f"{column}_low"], row[f"{column}_high"]
            limits = f" [{_percent(low, 0)}–{_percent(high, 0)}]" if low is not None else ""
            yield column, f"{row[f'{column}_hits']} = {_percent(value, 1)}%{limits}"
        elif not column.endswith(COMPANIONS):
            yield column, _plain(value)


def _percent(value: Cell, decimals: int) -> str:
    return f"{100 * value:.{decimals}f}" if isinstance(value, float) else "-"


def _plain(value: Cell) -> str:
    if not isinstance(value, float):
        return "-" if value is None else str(value)
    return (
        f"{value:.1f}" if value >= LARGE else f"{value:.3f}" if value >= SMALL else f"{value:.4f}"
    )


def _csv(rows: Sequence[Mapping[str, Cell]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    for row in rows:
        short = {k: round(v, 6) if isinstance(v, float) else v for k, v in row.items()}
        writer.writerow(short)
    return text.getvalue()


def _dictionary(sheets: Sequence[Sheet]) -> list[Row]:
    """Return what each column of each table means."""
    meanings = load_yaml(COLUMNS, Columns).root
    found: list[Row] = []
    for sheet in sheets:
        for column in sheet.rows[0]:
            of = next((column.removesuffix(c) for c in COMPANIONS if column.endswith(c)), column)
            meaning = meanings[of] if of == column else f"of {of}: {meanings[column[len(of) :]]}"
            found.append({"table": sheet.name, "column": column, "meaning": meaning})
    return found


def _put(out: Path, texts: Mapping[str, str]) -> None:
    with boundary(str(out)):
        for name, text in texts.items():
            (out / name).parent.mkdir(parents=True, exist_ok=True)
            (out / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    command.main(__doc__, "evaluate", evaluate)
