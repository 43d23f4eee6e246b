"""Shares with their uncertainty, and the exact test of two paired shares."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb, sqrt
from statistics import NormalDist

import numpy as np

from src.records import Record

WILSON, BY_CASE = "Wilson", "bootstrap by case"


class Share(Record):
    """So many of so many, with the limits of its interval; None where there is nothing."""

    hits: int
    n: int
    low: float | None = None
    high: float | None = None
    method: str = WILSON

    @property
    def value(self) -> float | None:
        return self.hits / self.n if self.n else None


@dataclass(frozen=True, kw_only=True)
class Intervals:
    """How intervals are made: Wilson's, or a bootstrap of whole cases where one comes up twice.

    Interviews of the same case are no independent draws; the percentiles are those of resampled
    cases. The paper gives no interval for diagnostic measures: these are an addition.
    """

    level: float
    resamples: int
    seed: int

    def share(self, hits: Iterable[tuple[str, bool]]) -> Share:
        """Return the share of hits, each given with its case."""
        cases: dict[str, list[bool]] = {}
        for case, hit in hits:
            cases.setdefault(case, []).append(hit)
        own = [cases[case] for case in sorted(cases)]  # so that no order of reports matters
        good = np.array([sum(one) for one in own], dtype=int)
        all_ = np.array([len(one) for one in own], dtype=int)
        k, n = int(good.sum()), int(all_.sum())
        if not n:
            return Share(hits=0, n=0)
        if n == len(cases) or k in (0, n):  # all alike: no resample would differ
            low, high = self._wilson(k * len(cases) // n, len(cases))
            return Share(hits=k, n=n, low=low, high=high)
        draws = np.random.default_rng(self.seed).integers(
            len(cases), size=(self.resamples, len(cases))
        )
        shares = good[draws].sum(axis=1) / all_[draws].sum(axis=1)
        tail = (1 - self.level) / 2
        low, high = (float(q) for q in np.quantile(shares, (tail, 1 - tail)))
        return Share(hits=k, n=n, low=low, high=high, method=BY_CASE)

    def _wilson(self, k: int, n: int) -> tuple[float, float]:
        z = NormalDist().inv_cdf((1 + self.level) / 2)
        middle, spread = k + z**2 / 2, z * sqrt(k * (n - k) / n + z**2 / 4)
        low, high = (middle - spread) / (n + z**2), (middle + spread) / (n + z**2)
        return max(0.0, low), min(1.0, high)


def mcnemar(gains: int, losses: int) -> float:
    """Return the exact two-sided p of so many gains against so many losses."""
    changed = gains + losses
    tail = sum(comb(changed, n) for n in range(min(gains, losses) + 1)) / (1 << changed)
    return min(1.0, 2 * tail)
