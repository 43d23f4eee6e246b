"""A measured ratio with its spread, and what it was measured on."""

import os
import platform
from collections.abc import Iterable, Sequence
from datetime import date
from statistics import median

from rich.table import Table

from src.records import Record

GIB = 2**30
HEADINGS = ("part", "ratio", "median", "min–max", "n", "aim", "met")


class Figure(Record):
    """One ratio, once for each repetition within a run of the bench."""

    part: str
    name: str
    values: tuple[float, ...]
    at_least: float | None = None
    at_most: float | None = None

    @property
    def median(self) -> float:
        return median(self.values)

    @property
    def met(self) -> bool | None:
        """Whether the median is what was aimed at; None: nothing was.

        Where one number alone will do, every value has to be it.
        """
        low, high = self.at_least, self.at_most
        if low is None and high is None:
            return None
        if low == high:
            return all(value == low for value in self.values)
        return (low is None or low <= self.median) and (high is None or self.median <= high)

    @property
    def aim(self) -> str:
        """Return what was aimed at, in words."""
        if self.at_least is not None and self.at_least == self.at_most:
            return f"= {self.at_least:g}"
        least = "" if self.at_least is None else f"≥ {self.at_least:g}"
        most = "" if self.at_most is None else f"≤ {self.at_most:g}"
        return f"{least} {most}".strip()

    @property
    def cells(self) -> tuple[str, ...]:
        """Return a line of a table, in the order of `HEADINGS`."""
        spread = f"{min(self.values):.2f}–{max(self.values):.2f}" if len(self.values) > 1 else ""
        met = {None: "", True: "yes", False: "no"}[self.met]
        count = f"{len(self.values)}"
        return self.part, self.name, f"{self.median:.3f}", spread, count, self.aim, met


class Machine(Record):
    """The class of a machine; nothing that names one."""

    cores: int
    memory_gb: int
    gpu: str | None
    system: str


class Results(Record):
    """Everything that one run of the bench found."""

    command: str
    config_digest: str
    date: date
    machine: Machine
    models: tuple[str, ...]
    """Served models that were asked; none: the stand-in."""
    figures: tuple[Figure, ...]

    @property
    def missed(self) -> list[str]:
        """Return each aim that was missed, with what was found instead."""
        return [
            f"{one.part}: {one.name}: {one.median:.3f}, not {one.aim}"
            for one in self.figures
            if one.met is False
        ]


def seen(
    part: str,
    name: str,
    values: Iterable[float | None],
    *,
    least: float | None = None,
    most: float | None = None,
) -> list[Figure]:
    """Return the figure of what was seen; none where nothing was, which is not the same as 0."""
    known = tuple(value for value in values if value is not None)
    if not known:
        return []
    return [Figure(part=part, name=name, values=known, at_least=least, at_most=most)]


def machine(gpu: str | None) -> Machine:
    """Return what this machine is; `gpu` is what the models run on."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Machine(
        cores=os.cpu_count() or 1,
        memory_gb=round(memory / GIB),
        gpu=gpu,
        system=f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    )


def table(figures: Sequence[Figure]) -> Table:
    """Return a line for each figure."""
    shown = Table(box=None)
    for heading in HEADINGS:
        shown.add_column(heading, justify="left" if heading in {"part", "ratio"} else "right")
    for one in figures:
        shown.add_row(*one.cells)
    return shown
