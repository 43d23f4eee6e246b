from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.analysts.imputation import Imputation, impute
from src.clinical.bdi import ASSESSABLE, DONORS, SENSITIVE
from src.records import ITEMS, Assessment, SymptomScore

SILENT = SymptomScore(score=0, confidence=0.0)
APPENDIX = Imputation(
    mode="appendix",
    renormalise=False,
    donor_confidence=0.7,
    donor_score=2,
    donor_weights=(0.5, 0.3, 0.2),
    imputed_cap=2,
    imputed_rounding="half_down",
)
STRICT = replace(APPENDIX, mode="strict")
OFF = replace(APPENDIX, mode="off")


def heard(score: int, confidence: float = 0.9) -> SymptomScore:
    return SymptomScore(score=score, confidence=confidence, evidence="said so")


def assessment(known: dict[int, SymptomScore]) -> Assessment:
    return Assessment(symptoms=tuple(known.get(n, SILENT) for n in range(1, ITEMS + 1)))


def all_but(item: int) -> Assessment:
    return assessment({n: heard(3, 1.0) for n in range(1, ITEMS + 1) if n != item})


readings = st.one_of(
    st.just(SILENT),
    st.builds(heard, st.integers(0, 3), st.sampled_from([0.2, 0.69, 0.7, 0.71, 1.0])),
)
assessments = st.lists(readings, min_size=ITEMS, max_size=ITEMS).map(
    lambda symptoms: Assessment(symptoms=tuple(symptoms))
)
settings = st.builds(
    replace,
    st.just(APPENDIX),
    mode=st.sampled_from(["appendix", "strict", "off"]),
    renormalise=st.booleans(),
    imputed_rounding=st.sampled_from(["half_down", "half_up"]),
)


def test_the_numbers_in_conf_are_those_of_appendix_b(options: Any) -> None:
    assert options.imputation("consensus") == APPENDIX


def test_the_baseline_in_conf_infers_nothing(options: Any) -> None:
    assert options.imputation("median") == OFF


def test_seventeen_items_can_be_inferred_and_the_sensitive_four_cannot() -> None:
    inferred = {n for n in range(1, ITEMS + 1) if impute(all_but(n), APPENDIX)[n].imputed}
    assert inferred == set(ASSESSABLE)
    assert len(inferred) == 17
    assert not inferred & SENSITIVE


# Item 15 (loss of energy) has the donors 20, 16 and 1, in this order.
@pytest.mark.parametrize(
    ("donors", "expected"),
    [
        ((2, 0, 0), 1),  # 1.0
        ((3, 0, 0), 1),  # 1.5: half rounds down
        ((0, 2, 0), 1),  # 0.6
        ((0, 0, 2), 0),  # 0.4
        ((0, 0, 3), 1),  # 0.6
        ((0, 3, 3), 1),  # 1.5
        ((2, 2, 0), 2),  # 1.6
        ((2, 0, 2), 1),  # 1.4
        ((3, 0, 2), 2),  # 1.9
        ((2, 2, 2), 2),  # 2.0
        ((3, 3, 3), 2),  # 3.0: capped
        ((1, 1, 1), 0),  # nobody counts
    ],
)
def test_undivided_the_donors_weights_decide_how_much_is_inferred(
    donors: tuple[int, int, int], expected: int
) -> None:
    known = dict(zip(DONORS[15], map(heard, donors), strict=True))
    assert impute(assessment(known), APPENDIX)[15].score == expected


@pytest.mark.parametrize("donors", [(3, 0, 0), (0, 3, 3)])
def test_half_can_be_rounded_up_instead(donors: tuple[int, int, int]) -> None:
    known = dict(zip(DONORS[15], map(heard, donors), strict=True))
    half_up = replace(APPENDIX, imputed_rounding="half_up")
    assert impute(assessment(known), half_up)[15].score == 2


@given(assessments)
def test_renormalised_every_inferred_score_is_two(reading: Assessment) -> None:
    inferred = impute(reading, replace(APPENDIX, renormalise=True))
    assert {s.score for s in inferred.symptoms if s.imputed} <= {2}
    counting = any(
        reading[donor].score >= 2 and reading[donor].confidence >= 0.7 for donor in DONORS[1]
    )
    assert inferred[1].imputed == (counting and not reading[1].assessed)


@pytest.mark.parametrize(("confidence", "counts"), [(0.69, False), (0.7, True), (0.71, True)])
def test_a_donor_counts_from_the_confidence_of_appendix_b_on(
    confidence: float, *, counts: bool
) -> None:
    known = {20: heard(2, confidence)}
    assert impute(assessment(known), APPENDIX)[15].imputed is counts


@pytest.mark.parametrize(("confidence", "counts"), [(0.7, False), (0.71, True)])
def test_strict_wants_more_than_the_confidence_of_section_3_3(
    confidence: float, *, counts: bool
) -> None:
    known = {20: heard(2, 0.9), 16: heard(2, 0.9), 1: heard(2, confidence)}
    assert impute(assessment(known), STRICT)[15].imputed is counts


@pytest.mark.parametrize(("third", "expected"), [(1, 0), (2, 2), (3, 2)])
def test_strict_wants_all_three_donors_at_two_or_more(third: int, expected: int) -> None:
    known = {20: heard(2), 16: heard(3), 1: heard(third)}
    assert impute(assessment(known), STRICT)[15].score == expected


def test_strict_takes_the_plain_mean() -> None:
    known = {20: heard(3), 16: heard(1), 1: heard(1)}
    lenient = replace(STRICT, donor_score=1)
    assert impute(assessment(known), lenient)[15].score == 2  # 5/3, where the weights say 2.0
    known = {20: heard(1), 16: heard(1), 1: heard(3)}
    assert impute(assessment(known), lenient)[15].score == 2  # 5/3, where the weights say 1.4


@given(assessments)
def test_off_changes_nothing(reading: Assessment) -> None:
    assert impute(reading, OFF) == reading


@given(assessments, settings)
def test_what_was_spoken_of_is_never_touched(reading: Assessment, how: Imputation) -> None:
    inferred = impute(reading, how)
    assert inferred.assessed == reading.assessed
    assert all(inferred[n] == reading[n] for n in reading.assessed)


@given(assessments, settings)
def test_an_inferred_item_is_never_a_donor(reading: Assessment, how: Imputation) -> None:
    once = impute(reading, how)
    assert impute(once, how) == once


def test_an_inferred_item_is_no_donor_even_where_it_claims_to_be_certain() -> None:
    claimed = SymptomScore(score=3, confidence=0.9, imputed=True)
    known = dict.fromkeys(DONORS[15], claimed)
    assert not impute(assessment(known), APPENDIX)[15].imputed


def test_nothing_is_chained_from_one_silent_item_to_the_next() -> None:
    # 4 follows from 1, and 12 could only follow from 4 if inferred items were donors.
    known = {1: heard(3), 20: heard(0), 4: SILENT}
    weighty = replace(APPENDIX, donor_weights=(1.0, 0.0, 0.0))
    inferred = impute(assessment(known), weighty)
    assert inferred[4].imputed
    assert not inferred[12].imputed


@given(assessments, settings)
def test_an_inferred_score_is_marked_unassessed_and_never_severest(
    reading: Assessment, how: Imputation
) -> None:
    for symptom in impute(reading, how).symptoms:
        if symptom.imputed:
            assert 1 <= symptom.score <= 2
            assert symptom.confidence == 0.0
            assert not symptom.assessed


@given(assessments, settings)
def test_inferring_never_lowers_a_total(reading: Assessment, how: Imputation) -> None:
    assert impute(reading, how).total >= reading.total


def test_an_unsure_score_is_kept_however_sure_its_donors_are() -> None:
    known = {n: heard(3) for n in ASSESSABLE} | {15: heard(1, 0.05)}
    assert impute(assessment(known), APPENDIX)[15] == heard(1, 0.05)
