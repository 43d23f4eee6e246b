import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.analysts.imputation import Imputation
from src.analysts.median import MedianAnalyst, min_valid, require_enough
from src.errors import TooFewInterviews
from src.records import (
    ITEMS,
    Answer,
    Assessment,
    Consensus,
    Failure,
    Interview,
    Question,
    StopReason,
    SymptomScore,
    Turn,
)

NOTHING_INFERRED = Imputation(
    mode="off",
    renormalise=False,
    donor_confidence=0.7,
    donor_score=2,
    donor_weights=(0.5, 0.3, 0.2),
    imputed_cap=2,
    imputed_rounding="half_down",
)
totals_of_a_batch = st.lists(st.integers(0, 63), min_size=1, max_size=12)


def profile(total: int) -> Assessment:
    """Spread a total over the items from the first on, three points each."""
    scores = [min(3, max(0, total - 3 * n)) for n in range(ITEMS)]
    return Assessment(symptoms=tuple(SymptomScore(score=s, confidence=0.8) for s in scores))


def held(sample: int, total: int, *, words: str | None = None) -> Interview:
    turn = Turn(
        number=1,
        question=Question(text="How was your week?", source="fixed"),
        answer=Answer(text=words or f"It was week number {sample}."),
    )
    return Interview(
        subject="persona-07",
        sample=sample,
        seed=sample,
        turns=(turn,),
        stop=StopReason.STABLE,
        final=profile(total),
    )


def broken(sample: int) -> Interview:
    failure = Failure(kind="patient_failed", text="no usable answer")
    return Interview(subject="persona-07", sample=sample, seed=sample, failure=failure)


def analysed(interviews: list[Interview]) -> Consensus:
    analyst = MedianAnalyst(imputation=NOTHING_INFERRED, selected=3)
    return asyncio.run(analyst.analyse(interviews))


def test_the_middle_total_speaks_and_the_three_nearest_are_selected() -> None:
    result = analysed([held(n, total) for n, total in enumerate([4, 34, 20, 18, 15], 1)])
    assert result.total == 18
    assert [run.sample for run in result.selected] == [4, 3, 5]
    assert [run.total for run in result.selected] == [18, 20, 15]


def test_half_a_point_rounds_down() -> None:
    result = analysed([held(1, 11), held(2, 14)])
    assert result.total == 12
    assert result.spread.median == 12.5


def test_of_equally_near_samples_the_lower_number_comes_first() -> None:
    result = analysed([held(5, 22), held(2, 18), held(9, 20), held(4, 22), held(3, 18)])
    assert [run.sample for run in result.selected] == [9, 2, 3]


def test_profile_and_key_symptoms_are_the_closest_samples() -> None:
    result = analysed([held(1, 0), held(2, 7), held(3, 60)])
    assert result.profile == profile(7)
    assert result.key_symptoms == profile(7).key_symptoms == (1, 2, 3)


@given(totals_of_a_batch, st.randoms(use_true_random=False))
def test_the_order_of_the_samples_means_nothing(totals: list[int], random: Any) -> None:
    interviews = [held(n, total) for n, total in enumerate(totals, 1)]
    shuffled = list(interviews)
    random.shuffle(shuffled)
    assert analysed(shuffled) == analysed(interviews)


@given(totals_of_a_batch)
def test_half_of_the_samples_lie_on_either_side(totals: list[int]) -> None:
    median = analysed([held(n, total) for n, total in enumerate(totals, 1)]).total
    assert 2 * sum(total <= median for total in totals) >= len(totals)
    assert 2 * sum(total < median for total in totals) <= len(totals)


@given(totals_of_a_batch)
def test_the_spread_runs_from_least_to_most(totals: list[int]) -> None:
    spread = analysed([held(n, total) for n, total in enumerate(totals, 1)]).spread
    assert (spread.minimum, spread.maximum) == (min(totals), max(totals))
    assert (
        spread.minimum
        <= spread.lower_quartile
        <= spread.median
        <= spread.upper_quartile
        <= spread.maximum
    )


def test_quartiles_lie_between_neighbours() -> None:
    spread = analysed([held(n, total) for n, total in enumerate([10, 20, 30, 40], 1)]).spread
    assert (spread.lower_quartile, spread.median, spread.upper_quartile) == (17.5, 25.0, 32.5)


def test_a_repeated_transcript_counts_once_and_is_reported() -> None:
    same = [held(n, 30, words="I would rather not say.") for n in (2, 4, 6)]
    result = analysed([held(1, 10), *same, held(3, 14), held(5, 12)])
    assert result.identical == ((2, 4, 6),)
    assert result.total == 13  # of 10, 12, 14 and one 30; with all three 30s it would be 22
    assert result.totals == {1: 10, 2: 30, 3: 14, 4: 30, 5: 12, 6: 30}


def test_interviews_without_a_turn_are_not_taken_for_the_same() -> None:
    silent = [held(n, n).model_copy(update={"turns": ()}) for n in (1, 2)]
    assert analysed(silent).identical == ()


def test_failed_interviews_are_no_zeros() -> None:
    result = analysed([broken(1), held(2, 30), broken(3), held(4, 32), held(5, 31)])
    assert result.total == 31
    assert set(result.totals) == {2, 4, 5}


def test_an_interview_without_a_final_assessment_is_left_out() -> None:
    unscored = held(2, 0).model_copy(update={"final": None})
    assert analysed([held(1, 30), unscored]).totals == {1: 30}


@pytest.mark.parametrize("interviews", [[], [broken(1), broken(2)]])
def test_without_a_valid_interview_there_is_no_answer(interviews: list[Interview]) -> None:
    with pytest.raises(TooFewInterviews, match=f"none of the {len(interviews)} interviews"):
        analysed(interviews)


def test_one_sample_number_cannot_stand_for_two_interviews() -> None:
    with pytest.raises(ValueError, match="sample 3 stands there twice"):
        analysed([held(3, 10), held(3, 20)])


@pytest.mark.parametrize(
    ("planned", "needed"),
    [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4), (10, 8), (13, 10), (20, 15), (30, 23)],
)
def test_three_quarters_but_at_least_three_must_be_valid(
    planned: int, needed: int, options: Any
) -> None:
    share, least = options["consensus"]["min_share"], options["consensus"]["min_interviews"]
    assert min_valid(planned, share=share, least=least) == needed
    require_enough(needed, planned, share=share, least=least)
    with pytest.raises(TooFewInterviews, match=rf"{needed - 1}/{planned}.* needs {needed}\b"):
        require_enough(needed - 1, planned, share=share, least=least)


def test_a_share_is_taken_as_written() -> None:
    # As floats 0.55 * 100 lies a hair above 55 and would be rounded up to 56.
    assert min_valid(100, share=0.55, least=3) == 55


def test_both_analysts_need_the_same_number_of_interviews(options: Any) -> None:
    for key in ("min_share", "min_interviews", "selected"):
        assert options["median"][key] == options["consensus"][key]
