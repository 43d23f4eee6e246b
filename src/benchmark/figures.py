"""A measured ratio with its spread, and what it was measured on."""

import os
import platform
from collections.abc import Sequence
from datetime import date
from statistics import median

from rich.table import Table

from src.records import Record

GIB = 2**30


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
        """Whether the median is what was aimed at; None: nothing was."""
        if self.at_least is None and self.at_most is None:
            return None
        low, high = self.at_least or 0.0, self.at_most
        return low <= self.median and (high is None or self.median <= high)

    @property
    def aim(self) -> str:
        """Return what was aimed at, in words."""
        least = "" if self.at_least is None else f"≥ {self.at_least:g}"
        most = "" if self.at_most is None else f"≤ {self.at_most:g}"
        return f"{least} {most}".strip()


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
    for heading in ("part", "ratio", "median", "min–max", "n", "aim", "met"):
        shown.add_column(heading, justify="left" if heading in {"part", "ratio"} else "right")
    for one in figures:
        spread = f"{min(one.values):.2f}–{max(one.values):.2f}" if len(one.values) > 1 else ""
        met = {None: "", True: "yes", False: "no"}[one.met]
        count = f"{len(one.values)}"
        shown.add_row(one.part, one.name, f"{one.median:.3f}", spread, count, one.aim, met)
    return shown
