"""One report beside the reference of its case. Pure.

PsyCIDRA, section 5.3: exact agreement is that of ICD-11 base codes with the case's first reference.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from src.records import Record
from src.reports import Named


class Label(Record):
    """One disorder of a reference."""

    code: str
    name: str
    family: str


class Judged(Record):
    """What one diagnoser made of one interview, or of its first exchanges, and the reference."""

    subject: str
    sample: int
    exchanges: int
    """Exchanges that were read."""
    whole: int
    """Exchanges that the interview has."""
    references: tuple[Label, ...] | None
    """The most fitting first; empty: no disorder; None: nobody knows."""
    status: Literal["reported", "suppressed", "failed"] = "reported"
    hypotheses: tuple[Named, ...] = ()
    """By rank; empty in a report: none was justified."""
    sex: str | None = None
    age: int | None = None
    safety: bool | None = None
    """Whether the case's profile holds a present danger."""

    @property
    def key(self) -> tuple[str, int]:
        return self.subject, self.sample

    @property
    def reference(self) -> Label | None:
        """Return the disorder that codes are compared with."""
        return self.references[0] if self.references else None

    @property
    def first(self) -> Named | None:
        return self.hypotheses[0] if self.hypotheses else None

    @property
    def rank(self) -> int | None:
        """Return the place of the reference's code in the list; None: it is not there."""
        wanted = self.reference.code if self.reference else None
        ranks = (n for n, named in enumerate(self.hypotheses, 1) if named.base == wanted)
        return next(ranks, None)

    @property
    def exact(self) -> bool:
        return self.rank == 1

    @property
    def covered(self) -> bool:
        return self.rank is not None

    @property
    def agreed(self) -> bool:
        """Whether report and reference both name a disorder, or neither does; codes ignored."""
        return bool(self.hypotheses) == bool(self.references)

    @property
    def same_family(self) -> bool:
        if self.first is None or self.reference is None:
            return False
        return self.exact or self.first.family == self.reference.family


def with_reference(outcomes: Iterable[Judged]) -> list[Judged]:
    """Return the reports whose reference is known, be it no disorder."""
    return [one for one in outcomes if one.status == "reported" and one.references is not None]


def positive(outcomes: Iterable[Judged]) -> list[Judged]:
    """Return the reports on cases with a disorder: those that measures of codes count."""
    return [one for one in with_reference(outcomes) if one.references]


def complete(outcomes: Iterable[Judged]) -> list[Judged]:
    """Return what was made of whole interviews."""
    return [one for one in outcomes if one.exchanges == one.whole]


def by_length(outcomes: Sequence[Judged]) -> dict[int, list[Judged]]:
    """Return, by number of exchanges, what was made of so many first ones.

    An interview that ended earlier counts with all it has, so that every row is of the same cases.
    """
    parts = {one.exchanges for one in outcomes if one.exchanges < one.whole}
    if not parts:
        return {}
    longest = max(one.whole for one in outcomes)
    return {
        length: [one for one in outcomes if one.exchanges == min(length, one.whole)]
        for length in sorted({*parts, longest})
    }
