"""Agreement with references: the paper's own counts, and laws that hold for any."""

from collections.abc import Iterable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from judging import INTERVALS, judged, label
from scipy.stats import binomtest

from src.errors import InputError
from src.evaluation.diagnoses import (
    EMPTY,
    UNMAPPED,
    codes,
    confidence,
    decisions,
    families,
    paired,
)
from src.evaluation.intervals import BY_CASE, WILSON, Intervals, Share, mcnemar
from src.evaluation.judged import Judged, by_length, complete

RIGHT, WRONG = "6A70", "6B00"


def percent(value: float | None) -> float:
    assert value is not None
    return round(100 * value, 1)


def on(cases: Iterable[str], *reports: tuple[int, str, Sequence[str]]) -> list[Judged]:
    """Return reports on cases in their order: so many of each reference and list of codes."""
    names = iter(cases)
    return [
        judged(reference, *listed, subject=next(names))
        for count, reference, listed in reports
        for _ in range(count)
    ]


CASES = [f"case-{n}" for n in range(1, 102)]


# the paper's tables -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "r1", "coverage", "mrr"),
    [(39, 3, 73.6, 79.2, 0.764), (40, 2, 75.5, 79.2, 0.774), (44, 1, 83.0, 84.9, 0.840)],
)
def test_table_2_code_measures_of_the_strongest_backbone(
    first: int, second: int, r1: float, coverage: float, mrr: float
) -> None:
    found = codes(
        on(
            CASES,
            (first, RIGHT, [RIGHT]),
            (second, RIGHT, [WRONG, RIGHT]),
            (53 - first - second, RIGHT, [WRONG]),
        ),
        INTERVALS,
    )
    assert (percent(found.r1.value), percent(found.coverage.value)) == (r1, coverage)
    assert found.mrr == pytest.approx(mrr, abs=5e-4)
    assert (found.n, found.r1.hits) == (53, first)


def at_levels(rows: Sequence[tuple[str, int, int]], empty: int) -> list[Judged]:
    """Return reports by level, so many of them right and so many wrong; and empty ones."""
    stated = [
        judged(RIGHT, code, level=level)
        for level, right, wrong in rows
        for code in [RIGHT] * right + [WRONG] * wrong
    ]
    return stated + [judged(RIGHT) for _ in range(empty)]


@pytest.mark.parametrize(
    ("rows", "empty", "r1"),
    [
        ([("low", 1, 2), ("moderate", 10, 20), ("high", 31, 15)], 2, 51.9),
        ([("low", 3, 9), ("moderate", 41, 19), ("high", 5, 0)], 4, 60.5),
    ],
)
def test_figure_21_confidence_by_correctness_on_held_out_cases(
    rows: list[tuple[str, int, int]], empty: int, r1: float
) -> None:
    reports = at_levels(rows, empty)
    found = confidence(reports)
    assert [(row.level, row.exact, row.other) for row in found] == [*rows, ("none", 0, empty)]
    assert sum(row.n for row in found) == 81
    assert percent(codes(reports, INTERVALS).r1.value) == r1


@pytest.mark.parametrize(
    ("rows", "issued", "withheld"),
    [
        ([("low", 0, 1, 8), ("moderate", 16, 14, 21), ("high", 10, 2, 2)], 74, 27),
        ([("low", 13, 4, 17), ("moderate", 16, 9, 2), ("high", 0, 0, 0)], 61, 40),
    ],
)
def test_figure_25_confidence_where_experts_may_withhold(
    rows: list[tuple[str, int, int, int]], issued: int, withheld: int
) -> None:
    reports = [
        judged(reference, code, level=level)
        for level, *counts in rows
        for reference, code, number in zip(
            (RIGHT, RIGHT, ""), (RIGHT, WRONG, WRONG), counts, strict=True
        )
        for _ in range(number)
    ]
    reports += [judged("") for _ in range(withheld)]
    found = confidence(reports)
    assert [(row.level, row.exact, row.other, row.withheld) for row in found[:-1]] == rows
    assert sum(row.n for row in found[:-1]) == issued
    assert found[-1].n == withheld


@pytest.mark.parametrize(
    ("withheld", "overcalled", "missed", "issued", "agreement"),
    [(11, 18, 0, 23, 65.4), (16, 13, 0, 20, 73.5), (20, 9, 1, 22, 80.8), (19, 10, 0, 20, 79.6)],
)
def test_figure_24_decision_agreement_in_the_human_study(
    withheld: int, overcalled: int, missed: int, issued: int, agreement: float
) -> None:
    found = decisions(
        on(
            CASES,
            (withheld, "", []),
            (overcalled, "", [WRONG]),
            (missed, RIGHT, []),
            (issued, RIGHT, [WRONG]),
        ),
        INTERVALS,
    )
    cells = (found.neither, found.report_only, found.reference_only, found.both_name)
    assert cells == (withheld, overcalled, missed, issued)
    assert percent(found.agreement.value) == agreement


# Both diagnosers' lists on the 101 shared transcripts: 43 with a disorder, 58 without. One of the
# former is left empty by the second alone; the ranks are such as give the printed counts.
SHARED: list[tuple[int, str, list[str], list[str]]] = [
    (24, RIGHT, [RIGHT], [RIGHT]),
    (2, RIGHT, [RIGHT], [WRONG, RIGHT]),
    (5, RIGHT, [WRONG, RIGHT], [RIGHT]),
    (4, RIGHT, [WRONG, RIGHT], [WRONG, RIGHT]),
    (1, RIGHT, [WRONG, RIGHT], []),
    (2, RIGHT, [WRONG], [WRONG, RIGHT]),
    (5, RIGHT, [WRONG], [WRONG]),
    (27, "", [], []),
    (12, "", [WRONG], []),
    (19, "", [WRONG], [WRONG]),
]


def test_table_15_paired_outcomes_on_shared_transcripts() -> None:
    direct = on(CASES, *((n, reference, first) for n, reference, first, _ in SHARED))
    dara = on(CASES, *((n, reference, second) for n, reference, _, second in SHARED))
    found = {row.endpoint: row for row in paired(direct, dara)}
    cells = {
        endpoint: (row.n, row.both, row.a_only, row.b_only, row.neither)
        for endpoint, row in found.items()
    }
    assert cells == {
        "decision": (101, 69, 1, 12, 19),
        "rank 1": (43, 24, 2, 5, 12),
        "coverage": (43, 35, 1, 2, 5),
    }
    assert found["decision"].p == pytest.approx(28 / 2**13)


@pytest.mark.parametrize(
    ("gains", "losses", "p"),
    [(5, 0, 0.0625), (3, 0, 0.25), (0, 5, 0.0625), (2, 1, 1.0), (0, 0, 1.0)],
)
def test_mcnemar_is_exact_and_two_sided(gains: int, losses: int, p: float) -> None:
    assert mcnemar(gains, losses) == pytest.approx(p)
    rows: list[tuple[int, list[str], list[str]]] = [
        (gains, [WRONG], [RIGHT]),
        (losses, [RIGHT], [WRONG]),
        (4, [RIGHT], [RIGHT]),
    ]
    before = on(CASES, *((n, RIGHT, a) for n, a, _ in rows))
    after = on(CASES, *((n, RIGHT, b) for n, _, b in rows))
    assert {row.endpoint: row.p for row in paired(before, after)}["rank 1"] == pytest.approx(p)


TABLE_17 = {
    "6B43": (17, 14, 16), "6A70": (9, 5, 8), "6B00": (7, 4, 7), "6A71": (3, 0, 0),
    "6A72": (3, 1, 2), "6A05": (1, 1, 1), "6A73": (1, 0, 0), "6B40": (1, 0, 1), "6B66": (1, 1, 1),
}  # fmt: skip


def test_table_17_counts_by_code_add_up_to_those_of_all() -> None:
    reports = []
    for code, (n, r1, any_) in TABLE_17.items():
        rows = (r1, code, [code]), (any_ - r1, code, ["6A00", code]), (n - any_, code, ["6A00"])
        own = on((f"{code}-{k}" for k in range(n)), *rows)
        found = codes(own, INTERVALS)
        assert (found.n, found.r1.hits, found.coverage.hits) == (n, r1, any_)
        reports += own
    whole = codes(reports, INTERVALS)
    assert (whole.n, whole.r1.hits, whole.coverage.hits) == (43, 26, 36)


def test_held_out_family_agreement_splits_into_exact_and_misses_within() -> None:
    reports = on(
        CASES, (42, RIGHT, [RIGHT]), (18, RIGHT, ["6A71"]), (19, RIGHT, [WRONG]), (2, RIGHT, [])
    )
    found = families(reports)
    assert (found.n, found.family, found.exact, found.within) == (81, 60, 42, 18)


# what counts as what ------------------------------------------------------------------------


def test_codes_count_by_their_base_and_an_empty_list_is_a_miss() -> None:
    assert judged("6A70", "6A70.1").exact
    assert judged("6A70", "6A70.Z&XS25").exact
    assert not judged("6A70", "6A71").exact
    assert judged("6A70").rank is None


def test_only_the_first_reference_is_compared_with() -> None:
    assert not judged("6A70 6B00", "6B00").covered
    assert judged("6A70 6B00", "6B00", "6A70").rank == 2


def test_reports_without_reference_failed_and_suppressed_ones_are_in_no_measure() -> None:
    odd = [judged(None, RIGHT), judged(RIGHT, status="failed"), judged(RIGHT, status="suppressed")]
    sound = [judged(RIGHT, RIGHT), judged("", WRONG)]
    assert codes(odd + sound, INTERVALS) == codes(sound, INTERVALS)
    assert decisions(odd + sound, INTERVALS) == decisions(sound, INTERVALS)
    assert confidence(odd + sound) == confidence(sound)
    assert codes(odd, INTERVALS).r1.value is None


def test_families_know_secondary_unmapped_and_empty() -> None:
    reports = [
        judged("6A70", "6E62"), judged("6A70", "6A30"), judged("6A70", "XX"), judged("6A70"),
        judged("6B00", "6B01"), judged(""),
    ]  # fmt: skip
    found = families(reports)
    assert found.confusion == {
        "Anxiety/fear": {"Anxiety/fear": 1},
        "Mood": {"Secondary": 1, UNMAPPED: 2, EMPTY: 1},
    }
    assert (found.family, found.exact, found.within) == (1, 0, 1)


def test_pairs_are_of_the_same_interview_and_need_one_reference() -> None:
    a = [judged("6A70", "6A70", subject="case-1"), judged("6A70", subject="case-2")]
    assert [row.n for row in paired(a, a[:1])] == [1, 1, 1]
    other = [judged("6B00", "6A70", subject="case-1")]
    with pytest.raises(InputError, match="case-1: the two runs have different references"):
        paired(a, other)


def test_no_p_is_given_where_a_case_counts_twice() -> None:
    twice = [judged("6A70", "6A70", subject="case-1", sample=n) for n in (1, 2)]
    assert {row.p for row in paired(twice, twice)} == {None}


def test_first_exchanges_are_compared_on_the_same_cases_at_every_length() -> None:
    short = judged("6A70", "6A70", subject="case-1", exchanges=3, whole=3)
    long_ = [judged("6A70", WRONG, subject="case-2", exchanges=n) for n in (4, 8, 16)]
    rows = by_length([short, *long_])
    assert {length: len(part) for length, part in rows.items()} == {4: 2, 8: 2, 16: 2}
    assert all(short in part for part in rows.values())
    assert complete([short, *long_]) == [short, long_[-1]]
    assert by_length([short, long_[-1]]) == {}


# intervals ----------------------------------------------------------------------------------


def test_an_interval_is_wilsons_where_every_case_counts_once() -> None:
    share = INTERVALS.share((f"case-{n}", n < 49) for n in range(81))
    assert (share.method, share.hits, share.n) == (WILSON, 49, 81)
    assert share.low == pytest.approx(0.4961, abs=1e-3)
    assert share.high == pytest.approx(0.7040, abs=1e-3)


@given(st.integers(0, 60), st.integers(0, 60), st.sampled_from([0.8, 0.95, 0.99]))
def test_intervals_and_p_are_those_of_scipy(k: int, misses: int, level: float) -> None:
    n = k + misses
    assert mcnemar(k, misses) == pytest.approx(binomtest(k, n).pvalue if n else 1.0)
    if n:
        limits = binomtest(k, n).proportion_ci(confidence_level=level, method="wilson")
        hits = ((f"case-{case}", case < k) for case in range(n))
        share = Intervals(level=level, resamples=1, seed=1).share(hits)
        assert (share.low, share.high) == pytest.approx((limits.low, limits.high), abs=1e-9)


def test_interviews_of_one_case_do_not_narrow_an_interval() -> None:
    once = [(f"case-{n}", n < 12) for n in range(20)]
    tenfold = INTERVALS.share(once * 10)
    single = INTERVALS.share(once)
    assert tenfold.method == BY_CASE
    assert width(tenfold) == pytest.approx(width(single), rel=0.25)


def width(share: Share) -> float:
    assert share.low is not None
    assert share.high is not None
    return share.high - share.low


def test_a_case_always_right_is_as_uncertain_as_one_interview() -> None:
    many = INTERVALS.share([("case-1", True)] * 50)
    assert (many.low, many.high) == (
        INTERVALS.share([("case-1", True)]).low,
        INTERVALS.share([("case-1", True)]).high,
    )


def test_a_bootstrap_gives_the_same_twice() -> None:
    hits = [(f"case-{n % 7}", n % 3 == 0) for n in range(40)]
    again = Intervals(level=0.95, resamples=400, seed=1)
    assert INTERVALS.share(hits) == again.share(hits)


# laws ---------------------------------------------------------------------------------------

CODES = st.sampled_from(["6A70", "6A71", "6B00", "6E62", "6A30", "6A70.1"])
REPORTS = st.lists(
    st.tuples(
        st.sampled_from(["", "6A70", "6B00", "6C40", None]),
        st.lists(CODES, max_size=3),
        st.sampled_from(["low", "moderate", "high"]),
        st.sampled_from(["case-1", "case-2", "case-3", "case-4"]),
    ),
    max_size=12,
).map(
    lambda rows: [
        judged(reference, *listed, level=level, subject=subject, sample=n)
        for n, (reference, listed, level, subject) in enumerate(rows)
    ]
)


@given(REPORTS)
def test_rank_one_is_within_coverage_and_the_reciprocal_rank_between(reports: list[Judged]) -> None:
    found = codes(reports, INTERVALS)
    assert found.r1.hits <= found.coverage.hits <= found.n
    if found.mrr is not None:
        assert found.r1.value is not None
        assert found.coverage.value is not None
        assert found.r1.value - 1e-12 <= found.mrr <= found.coverage.value + 1e-12
    counted = families(reports)
    assert counted.exact == found.r1.hits <= counted.family
    assert sum(n for row in counted.confusion.values() for n in row.values()) == found.n
    assert sum(row.exact for row in confidence(reports)) == found.r1.hits
    split = decisions(reports, INTERVALS)
    assert split.both_name + split.neither == split.agreement.hits


@given(REPORTS, st.randoms(use_true_random=False))
def test_no_measure_depends_on_the_order_of_cases(reports: list[Judged], random: Random) -> None:
    shuffled = random.sample(reports, len(reports))
    assert codes(shuffled, INTERVALS) == codes(reports, INTERVALS)
    assert decisions(shuffled, INTERVALS) == decisions(reports, INTERVALS)
    assert families(shuffled) == families(reports)
    assert confidence(shuffled) == confidence(reports)
    assert paired(shuffled, reports) == paired(reports, shuffled)


@given(REPORTS)
def test_a_condition_paired_with_itself_gains_and_loses_nothing(reports: list[Judged]) -> None:
    for row in paired(reports, reports):
        assert (row.a_only, row.b_only) == (0, 0)


def test_a_label_has_the_family_that_tables_use() -> None:
    assert label("6E8Y").family == "Residual"
