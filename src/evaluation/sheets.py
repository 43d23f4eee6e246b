"""Tables of agreement with references: what is printed and written as CSV. Pure.

What each column means stands in conf/evaluate_columns.yaml.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from src.evaluation.diagnoses import (
    GROUPS,
    OTHER,
    Codes,
    codes,
    confidence,
    decisions,
    families,
    paired,
)
from src.evaluation.intervals import Intervals, Share
from src.evaluation.judged import Judged, by_length, complete, positive, with_reference

Cell = str | int | float | None
Row = dict[str, Cell]
Reports = Mapping[str, Sequence[Judged]]
"""By condition, `run/analyst`; first exchanges beside whole interviews."""


@dataclass(frozen=True)
class Sheet:
    """One table; all of its rows have the same columns."""

    name: str
    title: str
    rows: tuple[Row, ...]
    printed: bool = True
    """Whether it is short enough for a terminal."""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Makes the tables of agreement."""

    intervals: Intervals
    ages: tuple[int, ...]
    """Years at which a new age band begins."""

    def sheets(self, reports: Reports, pairs: Iterable[tuple[str, str]]) -> Iterator[Sheet]:
        """Yield every table; those that need references are empty where there are none."""
        whole = {condition: complete(all_) for condition, all_ in reports.items()}
        yield Sheet("conditions", "What there is", tuple(_conditions(whole)))
        yield Sheet("agreement", "Codes", tuple(self._agreement(whole)))
        yield Sheet("decisions", "Whether a disorder is named", tuple(self._decisions(whole)))
        broken = self._broken_down
        yield Sheet("groups", "By the paper's groups", tuple(broken(whole, {"group": _group})))
        yield Sheet("families", "Family of the first hypothesis", tuple(_families(whole)))
        yield Sheet("confidence", "By stated confidence", tuple(_confidence(whole)))
        yield Sheet("paired", "Pairs on the same cases", tuple(_paired(whole, pairs)))
        yield Sheet("prefixes", "By exchanges read", tuple(self._prefixes(reports)))
        people = {"sex": lambda one: one.sex, "age": self._band, "danger": _danger}
        yield Sheet("people", "By person", tuple(broken(whole, people)))
        kinds = {"family": _family, "code": _code}
        yield Sheet("codes", "By family and code", tuple(broken(whole, kinds)), printed=False)
        confused = tuple(_confusion(whole))
        yield Sheet("confusion", "Family by family", confused, printed=False)
        yield Sheet("reports", "Every report", tuple(_reports(reports)), printed=False)

    def _agreement(self, reports: Reports) -> Iterator[Row]:
        for condition, all_ in reports.items():
            if positive(all_):
                yield {"condition": condition, **_codes(codes(all_, self.intervals))}

    def _decisions(self, reports: Reports) -> Iterator[Row]:
        for condition, all_ in reports.items():
            if with_reference(all_):
                found = decisions(all_, self.intervals)
                cells = found.model_dump(exclude={"agreement"})
                yield {"condition": condition, **cells, **_share("agreement", found.agreement)}

    def _broken_down(
        self, reports: Reports, kinds: Mapping[str, Callable[[Judged], str | None]]
    ) -> Iterator[Row]:
        for condition, all_ in reports.items():
            counted = positive(all_)
            for kind, value_of in kinds.items():
                values = sorted({value for one in counted if (value := value_of(one))})
                for value in values:
                    part = [one for one in counted if value_of(one) == value]
                    cells = _codes(codes(part, self.intervals))
                    yield {"condition": condition, "by": kind, "value": value, **cells}

    def _prefixes(self, reports: Reports) -> Iterator[Row]:
        for condition, all_ in reports.items():
            for exchanges, part in by_length(all_).items():
                shorter = sum(one.whole < exchanges for one in positive(part))
                cells = _codes(codes(part, self.intervals))
                agreed = decisions(part, self.intervals).agreement
                yield {
                    "condition": condition,
                    "exchanges": exchanges,
                    "shorter": shorter,
                    **cells,
                    **_share("agreement", agreed),
                }

    def _band(self, one: Judged) -> str | None:
        if one.age is None:
            return None
        for low, high in pairwise((0, *self.ages)):
            if one.age < high:
                return f"{low:02}-{high - 1}"
        return f"{self.ages[-1]}+" if self.ages else "all"


def _conditions(reports: Reports) -> Iterator[Row]:
    for condition, all_ in reports.items():
        made = [one for one in all_ if one.status == "reported"]
        yield {
            "condition": condition,
            "interviews": len(all_),
            "suppressed": sum(one.status == "suppressed" for one in all_),
            "failed": sum(one.status == "failed" for one in all_),
            "named": sum(bool(one.hypotheses) for one in made),
            "empty": sum(not one.hypotheses for one in made),
            "unknown": sum(not named.known for one in made for named in one.hypotheses),
        }


def _group(one: Judged) -> str | None:
    return GROUPS.get(one.reference.family, OTHER) if one.reference else None


def _family(one: Judged) -> str | None:
    return one.reference.family if one.reference else None


def _code(one: Judged) -> str | None:
    return f"{one.reference.code} {one.reference.name}" if one.reference else None


def _danger(one: Judged) -> str | None:
    return None if one.safety is None else "present" if one.safety else "none"


def _share(name: str, share: Share) -> Row:
    return {
        f"{name}_hits": share.hits,
        name: share.value,
        f"{name}_low": share.low,
        f"{name}_high": share.high,
        f"{name}_by": share.method,
    }


def _codes(found: Codes) -> Row:
    return {
        "n": found.n,
        **_share("r1", found.r1),
        **_share("coverage", found.coverage),
        "mrr": found.mrr,
        "length": found.length,
    }


def _families(reports: Reports) -> Iterator[Row]:
    for condition, all_ in reports.items():
        found = families(all_)
        if found.n:
            cells = {"n": found.n, "family": found.family, "exact": found.exact}
            yield {"condition": condition, **cells, "within": found.within}


def _confusion(reports: Reports) -> Iterator[Row]:
    for condition, all_ in reports.items():
        for row, cells in families(all_).confusion.items():
            for column, count in sorted(cells.items()):
                yield {
                    "condition": condition,
                    "reference_family": row,
                    "reported_family": column,
                    "count": count,
                }


def _confidence(reports: Reports) -> Iterator[Row]:
    for condition, all_ in reports.items():
        for row in confidence(all_) if with_reference(all_) else ():
            yield {"condition": condition, "n": row.n, **row.model_dump()}


def _paired(reports: Reports, pairs: Iterable[tuple[str, str]]) -> Iterator[Row]:
    for a, b in pairs:
        for found in paired(reports[a], reports[b]):
            if found.n:
                yield {"a": a, "b": b, "n": found.n, **found.model_dump()}


def _reports(reports: Reports) -> Iterator[Row]:
    for condition, all_ in reports.items():
        for one in all_:
            known = one.references
            yield {
                "condition": condition,
                "subject": one.subject,
                "sample": one.sample,
                "exchanges": one.exchanges,
                "whole": one.whole,
                "status": one.status,
                "reference": None if known is None else " ".join(r.code for r in known) or "none",
                "codes": " ".join(named.base for named in one.hypotheses),
                "raw": " | ".join(named.raw for named in one.hypotheses),
                "unknown": sum(not named.known for named in one.hypotheses),
                "confidence": one.first.confidence if one.first else None,
                "rank": one.rank,
            }
