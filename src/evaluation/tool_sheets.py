"""Tables of what interviews and reports took: what is printed and written as CSV. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from src.evaluation.sheets import Row, Sheet
from src.evaluation.tooling import (
    Cost,
    Spending,
    by_exchange,
    flagged,
    latency_of,
    spending_of,
    tool_counts,
    tools_of,
)
from src.records import Call, Interview, ToolUse
from src.reports import Findings


@dataclass(frozen=True, kw_only=True)
class Held:
    """What one run holds: interviews that came to an end, the reports on them, all calls."""

    interviews: Sequence[Interview]
    reports: Mapping[str, Sequence[Findings]]
    """On whole interviews, by condition."""
    calls: Sequence[Call]
    """Of the whole run, failed interviews and tries included."""


def tool_sheets(runs: Mapping[str, Held], cost: Cost, *, capped: str) -> Iterator[Sheet]:
    """Yield the tables; `capped` is the flag of a reply that had no tool round left."""
    yield Sheet("tools", "Tools", tuple(_tools(runs)))
    yield Sheet("capped", "Replies without a round left", tuple(_capped(runs, capped)))
    yield Sheet("tokens", "Tokens and dollars, means", tuple(_tokens(runs, cost)))
    yield Sheet("spent", "All requests of a run", tuple(_spent(runs, cost)))
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
        for role in sorted({call.role for call in held.calls}):
            calls = [call for call in held.calls if call.role == role]
            paid = [cost(call) for call in calls]
            known = [one for one in paid if one is not None]
            yield {
                "run": run,
                "role": role,
                "requests": len(calls),
                "input_tokens": sum(call.input_tokens or 0 for call in calls),
                "cached_tokens": sum(call.cached_tokens or 0 for call in calls),
                "output_tokens": sum(call.output_tokens or 0 for call in calls),
                "cost": sum(known) if len(known) == len(paid) else None,
            }


def _latency(runs: Mapping[str, Held]) -> Iterator[Row]:
    for run, held in runs.items():
        for one in latency_of(held.interviews, held.reports):
            yield {"run": run, **one.model_dump()}
