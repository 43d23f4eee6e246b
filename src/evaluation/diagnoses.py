"""How far reports agree with references: codes, decisions, families, confidence.

Pure. PsyCIDRA, section 5.3 and Appendices D and E: an empty list is a miss; measures of codes count
only where the reference has a disorder.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import get_args

from src.errors import InputError
from src.evaluation.intervals import Intervals, Share, mcnemar
from src.evaluation.judged import Judged, positive, with_reference
from src.records import Record
from src.reports import Level

UNMAPPED, EMPTY = "Unmapped", "Empty"
"""Columns of the confusion beside the families: a code of no family, and no code at all."""
OTHER = "Other"
GROUPS = {"Anxiety/fear": "Anxiety/fear", "OC-related": "OC", "Mood": "Mood"}
"""The paper's groups by family; every other family is in `Other` (Table 2)."""
LEVELS: tuple[Level, ...] = tuple(reversed(get_args(Level)))


class Codes(Record):
    """Agreement of codes (E1)."""

    n: int
    r1: Share
    coverage: Share
    mrr: float | None
    """Mean of 1/rank, 0 where the reference is absent."""
    length: float | None
    """Mean number of hypotheses."""


def codes(outcomes: Iterable[Judged], intervals: Intervals) -> Codes:
    """Return how well codes agree, over the reports on cases with a disorder."""
    counted = positive(outcomes)
    return Codes(
        n=len(counted),
        r1=intervals.share((one.subject, one.exact) for one in counted),
        coverage=intervals.share((one.subject, one.covered) for one in counted),
        mrr=fmean(1 / one.rank if one.rank else 0 for one in counted) if counted else None,
        length=fmean(len(one.hypotheses) for one in counted) if counted else None,
    )


class Decisions(Record):
    """Whether a disorder is named at all, codes ignored (E2)."""

    both_name: int
    report_only: int
    reference_only: int
    neither: int
    agreement: Share


def decisions(outcomes: Iterable[Judged], intervals: Intervals) -> Decisions:
    """Return the fourfold table of reports and references."""
    counted = with_reference(outcomes)
    cells = Counter((bool(one.hypotheses), bool(one.references)) for one in counted)
    return Decisions(
        both_name=cells[True, True],
        report_only=cells[True, False],
        reference_only=cells[False, True],
        neither=cells[False, False],
        agreement=intervals.share((one.subject, one.agreed) for one in counted),
    )


class Families(Record):
    """Agreement of the first hypothesis's family (E4)."""

    n: int
    family: int
    exact: int
    confusion: dict[str, dict[str, int]]
    """By reference's family and the report's: a family, `Unmapped` or `Empty`."""

    @property
    def within(self) -> int:
        """Return the misses within the right family."""
        return self.family - self.exact


def families(outcomes: Iterable[Judged]) -> Families:
    """Return which family was reported for which."""
    counted = positive(outcomes)
    confusion: dict[str, Counter[str]] = {}
    for one in counted:
        assert one.reference
        reported = (one.first.family or UNMAPPED) if one.first else EMPTY
        confusion.setdefault(one.reference.family, Counter())[reported] += 1
    return Families(
        n=len(counted),
        family=sum(one.same_family for one in counted),
        exact=sum(one.exact for one in counted),
        confusion={row: dict(cells) for row, cells in sorted(confusion.items())},
    )


class Stated(Record):
    """What became of the reports at one level of confidence (E5)."""

    level: str
    """The first hypothesis's; `none`: reports without one."""
    exact: int = 0
    other: int = 0
    """Another code, or none, where the reference has a disorder."""
    withheld: int = 0
    """The reference has no disorder."""

    @property
    def n(self) -> int:
        return self.exact + self.other + self.withheld


def confidence(outcomes: Iterable[Judged]) -> tuple[Stated, ...]:
    """Return a row for each level from low to high, and one for the empty reports."""
    cells: Counter[tuple[str, str]] = Counter(
        (
            one.first.confidence if one.first else "none",
            "withheld" if not one.references else "exact" if one.exact else "other",
        )
        for one in with_reference(outcomes)
    )
    kinds = ("exact", "other", "withheld")
    return tuple(
        Stated(level=level, **{kind: cells[level, kind] for kind in kinds})
        for level in (*LEVELS, "none")
    )


class Paired(Record):
    """Two diagnosers or interviewers on the same cases (E6)."""

    endpoint: str
    both: int
    a_only: int
    b_only: int
    neither: int
    p: float | None
    """McNemar's, exact and two-sided; None where a case counts twice, since the test takes
    interviews for independent."""

    @property
    def n(self) -> int:
        return self.both + self.a_only + self.b_only + self.neither


ENDPOINTS: Mapping[str, Callable[[Judged], bool]] = {
    "decision": lambda one: one.agreed,
    "rank 1": lambda one: one.exact,
    "coverage": lambda one: one.covered,
}


def paired(a: Iterable[Judged], b: Iterable[Judged]) -> tuple[Paired, ...]:
    """Return who agrees where, over what both reported on; an `InputError` for other references."""
    ours, theirs = ({one.key: one for one in with_reference(side)} for side in (a, b))
    pairs = [(ours[key], theirs[key]) for key in sorted(ours.keys() & theirs.keys())]
    for one, other in pairs:
        if one.references != other.references:
            raise InputError(f"{one.subject}: the two runs have different references for it")
    return tuple(_paired(endpoint, pairs) for endpoint in ENDPOINTS)


def _paired(endpoint: str, pairs: Sequence[tuple[Judged, Judged]]) -> Paired:
    reached = ENDPOINTS[endpoint]
    counted = [pair for pair in pairs if endpoint == "decision" or pair[0].references]
    cells = Counter((reached(one), reached(other)) for one, other in counted)
    single = len({one.subject for one, _ in counted}) == len(counted)
    return Paired(
        endpoint=endpoint,
        both=cells[True, True],
        a_only=cells[True, False],
        b_only=cells[False, True],
        neither=cells[False, False],
        p=mcnemar(cells[False, True], cells[True, False]) if single and counted else None,
    )
