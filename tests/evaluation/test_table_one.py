"""What a reader can recompute from the paper's Table 1."""

import numpy as np

BASELINE = (35.0, 34.4, 22.0, 23.9, 22.5, 28.3, 34.9, 33.0, 36.6, 32.5, 6.3, 7.5, 8.0, 26.6)
HYBRID = (31.8, 30.2, 20.6, 15.4, 20.0, 24.4, 32.5, 35.2, 39.6, 33.9, 8.0, 12.0, 8.4, 21.0)
PRINTED_GAPS = (3.1, 4.1, 1.4, 8.4, 2.5, 3.9, 2.4, 2.1, 3.0, 1.4, 1.7, 4.6, 0.4, 5.7)
PERSONAS = range(7, 21)


def gaps() -> list[float]:
    return [round(abs(b - h), 1) for b, h in zip(BASELINE, HYBRID, strict=True)]


def test_the_two_systems_means_share_the_printed_variance() -> None:
    assert round(float(np.corrcoef(BASELINE, HYBRID)[0, 1]) ** 2, 3) == 0.885


def test_the_hybrid_is_lower_for_eight_of_fourteen() -> None:
    assert len(PERSONAS) == len(BASELINE) == 14
    assert sum(h < b for b, h in zip(BASELINE, HYBRID, strict=True)) == 8


def test_thirteen_of_fourteen_lie_within_six_points() -> None:
    assert sum(gap <= 6 for gap in gaps()) == 13


def test_persona_ten_alone_differs_by_more_than_a_band() -> None:
    assert [p for p, gap in zip(PERSONAS, gaps(), strict=True) if gap > 7] == [10]


def test_the_printed_gaps_differ_from_the_printed_means_by_a_tenth_at_most() -> None:
    off = [round(abs(own - printed), 1) for own, printed in zip(gaps(), PRINTED_GAPS, strict=True)]
    assert max(off) == 0.1
    assert 0.0 in off
