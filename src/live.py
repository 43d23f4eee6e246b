"""What the terminal shows meanwhile: a live table, or plain lines off a terminal."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic

from rich.console import Console
from rich.live import Live
from rich.table import Table

from src.records import Interview, Turn


@dataclass
class Row:
    """Where one subject's samples stand."""

    planned: int
    ended: int = 0
    turns: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    totals: dict[int, int] = field(default_factory=dict)
    """Latest total of each sample."""


class Watch:
    """Follows a run. Nothing in the run depends on it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rows: dict[str, Row] = {}
        self._started = monotonic()

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
        row = self._rows[subject]
        row.turns += 1
        if turn.assessment:
            row.totals[sample] = turn.assessment.total

    def end(self, interview: Interview) -> None:
        row = self._rows[interview.subject]
        row.ended += 1
        if interview.failure:
            row.failed[interview.failure.kind] += 1
        if not self._console.is_terminal and row.ended == row.planned:
            self._console.print(f"{interview.subject}  " + "  ".join(_cells(row)), highlight=False)

    def _table(self) -> Table:
        table = Table(box=None, header_style="bold", title_justify="left")
        table.title = f"{monotonic() - self._started:.0f} s"
        for heading in ("subject", "ended", "turns", "totals", "failed"):
            table.add_column(heading)
        for subject, row in self._rows.items():
            table.add_row(subject, *_cells(row))
        return table


def _cells(row: Row) -> tuple[str, str, str, str]:
    totals = sorted(row.totals.values())
    middle = (
        f"{totals[0]}–{totals[-1]}, middle {totals[len(totals) // 2]}" if totals else "none yet"
    )
    failed = ", ".join(f"{kind} {n}" for kind, n in sorted(row.failed.items())) or "none failed"
    return f"{row.ended}/{row.planned} interviews", f"{row.turns} turns", middle, failed
