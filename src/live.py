"""What the terminal shows meanwhile: a live table, or plain lines off a terminal."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.table import Table

from src.llm.ledger import Prices, dollars
from src.records import Call, Interview, Turn

NEWS_EVERY = 30.0
"""Seconds between two lines about a subject off a terminal."""


@dataclass
class Row:
    """Where one subject's samples stand."""

    planned: int
    ended: int = 0
    turns: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    totals: dict[int, int] = field(default_factory=dict)
    """Latest total of each sample."""
    tokens: int = 0
    cost: float | None = 0.0
    told: float = field(default_factory=monotonic)


class Watch:
    """Follows a run. Nothing in the run depends on it."""

    def __init__(self, console: Console, prices: Prices | None = None, *, planned: int = 0) -> None:
        """Take the prices by which calls are counted, and how many interviews the run has."""
        self._console, self._prices, self._planned = console, prices, planned
        self._rows: dict[str, Row] = {}
        self._started = monotonic()
        self._ended = 0

    @contextmanager
    def showing(self) -> Iterator[None]:
        """Show the table until the block ends, where there is a terminal."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, get_renderable=self._table, refresh_per_second=8):
            yield

    def begin(self, subject: str, planned: int, finished: list[Interview]) -> None:
        """Add a subject, with what an earlier run finished."""
        row = self._rows[subject] = Row(planned, ended=len(finished))
        for interview in finished:
            if interview.final:
                row.totals[interview.sample] = interview.final.total

    def turn(self, subject: str, sample: int, turn: Turn) -> None:
        """Count a finished turn."""
        row = self._rows[subject]
        row.turns += 1
        if turn.assessment:
            row.totals[sample] = turn.assessment.total
        if not self._console.is_terminal and monotonic() - row.told > NEWS_EVERY:
            self._tell(subject, row)

    def call(self, subject: str, call: Call) -> None:
        """Count a call's tokens and cost."""
        if (row := self._rows.get(subject)) is None:
            return  # an analyst's call, where no interview is owed
        row.tokens += (call.input_tokens or 0) + (call.output_tokens or 0)
        cost = self._prices.cost(call) if self._prices else None
        row.cost = None if row.cost is None or cost is None else row.cost + cost

    def end(self, interview: Interview) -> None:
        """Count an interview that ended, as planned or not."""
        row = self._rows[interview.subject]
        row.ended += 1
        self._ended += 1
        if interview.failure:
            row.failed[interview.failure.kind] += 1
        if not self._console.is_terminal and row.ended == row.planned:
            self._tell(interview.subject, row)

    def _tell(self, subject: str, row: Row) -> None:
        row.told = monotonic()
        cells = [cell for cell in _cells(row) if cell]
        self._console.print(f"{subject}  " + "  ".join(cells))

    def _table(self) -> Table:
        passed = monotonic() - self._started
        left = self._planned - sum(row.ended for row in self._rows.values())
        soon = f", about {passed / self._ended * left:.0f} s left" if self._ended else ""
        headings = ("subject", "ended", "turns", "totals", "failed", "tokens", "cost")
        table = Table(*headings, title=f"{passed:.0f} s{soon}", title_justify="left", box=None)
        for subject, row in self._rows.items():
            table.add_row(subject, *_cells(row))
        return table


def _cells(row: Row) -> tuple[str, ...]:
    totals = sorted(row.totals.values())
    middle = (
        f"{totals[0]}–{totals[-1]}, middle {totals[len(totals) // 2]}" if totals else "none yet"
    )
    failed = ", ".join(f"{kind} {n}" for kind, n in sorted(row.failed.items())) or "none failed"
    spent = (f"{row.tokens} tokens", dollars(row.cost)) if row.tokens else ("", "")
    return f"{row.ended}/{row.planned} interviews", f"{row.turns} turns", middle, failed, *spent
