"""Tables of what interviews and reports took: what is printed and written as CSV. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from src.evaluation.sheets import Row, Sheet
from src.evaluation.tooling import (
    Cards,
    Cost,
    Spending,
    by_asker,
    by_exchange,
    flagged,
    latency_of,
    spending_of,
    tool_counts,
    tools_of,
    total,
)
from src.llm.servers import ANALYST
from src.records import Call, Interview, ToolUse
from src.reports import Findings

SPENT = ("requests", "input_tokens", "cached_tokens", "output_tokens", "cost")


@dataclass(frozen=True, kw_only=True)
class Held:
    """What one run holds: interviews that came to an end, the reports on them, all calls."""

    interviews: Sequence[Interview]
    reports: Mapping[str, Sequence[Findings]]
    """On whole interviews, by condition."""
    calls: Sequence[Call]
    """Of the whole run, failed interviews and tries included."""
    cards: Cards


def tool_sheets(runs: Mapping[str, Held], cost: Cost, *, capped: str) -> Iterator[Sheet]:
    """Yield the tables; `capped` is the flag of a reply that had no tool round left."""
    yield Sheet("tools", "Tools", tuple(_tools(runs)))
    yield Sheet("capped", "Replies without a round left", tuple(_capped(runs, capped)))
    yield Sheet("tokens", "Tokens and dollars, means", tuple(_tokens(runs, cost)))
    yield Sheet("spent", "All requests of a run", tuple(_spent(runs, cost)))
    yield Sheet("totals", "What each condition took in all", tuple(_totals(runs, cost)))
    yield Sheet("latency", "Seconds of the models", tuple(_latency(runs)))
    exchanges = tuple(_exchanges(runs))
    yield Sheet("tool_exchanges", "Tools by exchange", exchanges, printed=False)


def _tools(runs: Mapping[str, Held]) -> Iterator[Row]:
    for run, held in runs.items():
        units: dict[str, list[Sequence[ToolUse]]] = {run: [*map(tools_of, held.interviews)]}
        units |= {name: [one.tools for one in found] for name, found in held.reports.items()}
        for who, uses in units.items():
            for count in tool_counts(uses):
                cells = count.model_dump()
                yield {"who": who, **cells, "mean": count.mean, "share": count.share}


def _capped(runs: Mapping[str, Held], flag: str) -> Iterator[Row]:
    for run, held in runs.items():
        if replies := flagged(held.interviews, flag):
            yield {"who": run, "replies": replies}


def _exchanges(runs: Mapping[str, Held]) -> Iterator[Row]:
    for run, held in runs.items():
        rows = by_exchange(held.interviews)
        tools = sorted({tool for row in rows for tool in row.using})
        for row in rows:
            for tool in tools:
                using = row.using.get(tool, 0)
                cells: Row = {"exchange": row.exchange, "active": row.active, "tool": tool}
                yield {"who": run, **cells, "users": using, "share": using / row.active}


def _tokens(runs: Mapping[str, Held], cost: Cost) -> Iterator[Row]:
    for run, held in runs.items():
        for one in spending_of(held.interviews, held.reports, cost):
            yield _spending(run, one)


def _spending(run: str, one: Spending) -> Row:
    return {"run": run, **one.model_dump(), "total_tokens": one.total_tokens}


def _spent(runs: Mapping[str, Held], cost: Cost) -> Iterator[Row]:
    for run, held in runs.items():
        for asker, calls in by_asker(held.calls, held.reports).items():
            found = total(calls, cost, held.cards)
            cells = found.model_dump(include={*SPENT})
            yield {"run": run, "role": asker, **cells}


def _totals(runs: Mapping[str, Held], cost: Cost) -> Iterator[Row]:
    """Yield what each condition took: the interviews whole, and its own reports."""
    for held in runs.values():
        asked = by_asker(held.calls, held.reports)
        shared = [call for role in asked.keys() - {ANALYST, *held.reports} for call in asked[role]]
        for name, findings in held.reports.items():
            found = total([*shared, *asked.get(name, ())], cost, held.cards)
            counted: Row = {"interviews": len(held.interviews), "reports": len(findings)}
            cells: Row = {"condition": name, **counted, **found.model_dump()}
            if found.requests:
                yield cells | {"total_tokens": found.total_tokens}


def _latency(runs: Mapping[str, Held]) -> Iterator[Row]:
    for run, held in runs.items():
        for one in latency_of(held.interviews, held.reports):
            yield {"run": run, **one.model_dump()}
