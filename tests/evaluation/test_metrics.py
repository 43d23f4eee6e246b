import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from src.errors import InputError
from src.evaluation.metrics import (
    Outcome,
    best_constant,
    category_hit,
    closeness,
    measure,
    person_average,
    spearman,
    speed,
    symptom_hits,
)

totals = st.integers(0, 63)
golds = st.lists(totals, min_size=1, max_size=12)


def outcome(
    predicted: int,
    gold: int,
    *,
    person: str = "Mo",
    k: int = 1,
    named: tuple[int, ...] = (),
    true: tuple[int, ...] | None = None,
) -> Outcome:
    return Outcome(
        person=person,
        predicted=predicted,
        gold=gold,
        k=k,
        predicted_symptoms=named,
        gold_symptoms=true,
    )


outcomes = st.builds(
    outcome,
    totals,
    totals,
    person=st.sampled_from(["Mo", "Kit", "Ari"]),
    k=st.integers(1, 40),
    named=st.lists(st.integers(1, 21), max_size=4, unique=True).map(tuple),
    true=st.none() | st.lists(st.integers(1, 21), min_size=1, max_size=4, unique=True).map(tuple),
)


PUBLISHED_SPEEDS = {
    1: 1.0,
    4: 0.819,
    5: 0.761,
    6: 0.704,
    8: 0.597,
    10: 0.5,
    12: 0.414,
    18: 0.223,
    30: 0.056,
}


@pytest.mark.parametrize(("k", "worth"), PUBLISHED_SPEEDS.items())
def test_a_hit_is_worth_less_the_later_it_comes(k: int, worth: float) -> None:
    assert round(speed(k), 3) == worth


@given(st.integers(2, 60))
def test_half_is_left_after_k0_messages(k0: int) -> None:
    assert math.isclose(speed(k0, k0), 0.5)


@given(st.integers(1, 200), st.integers(2, 60))
def test_another_message_never_pays(k: int, k0: int) -> None:
    assert 1 >= speed(k, k0) > speed(k + 1, k0) - 1e-12 >= -1e-12


@pytest.mark.parametrize(("k", "k0"), [(0, 10), (-1, 10), (5, 1)])
def test_no_speed_without_a_message(k: int, k0: int) -> None:
    with pytest.raises(InputError, match="from one message on"):
        speed(k, k0)


@pytest.mark.parametrize(
    ("one", "next_one"), [(9, 10), (18, 19), (29, 30)], ids=["mild", "moderate", "severe"]
)
def test_the_organisers_bands_begin_where_official_scores_say(one: int, next_one: int) -> None:
    assert category_hit(outcome(one, next_one)) == 0
    assert category_hit(outcome(one, next_one), "manual") == 1


@pytest.mark.parametrize(
    ("one", "next_one"), [(13, 14), (19, 20), (28, 29)], ids=["mild", "moderate", "severe"]
)
def test_the_manuals_bands_are_on_offer(one: int, next_one: int) -> None:
    assert category_hit(outcome(one, next_one), "manual") == 0
    assert category_hit(outcome(one, next_one)) == 1


@pytest.mark.parametrize(
    ("predicted", "gold", "close"), [(0, 63, 0.0), (63, 0, 0.0), (20, 20, 1.0), (18, 25, 8 / 9)]
)
def test_adodl_measures_what_is_left_of_sixty_three_points(
    predicted: int, gold: int, close: float
) -> None:
    assert closeness(predicted, gold) == close


def test_symptom_hits_are_out_of_four_however_few_are_true() -> None:
    assert symptom_hits(outcome(1, 1, named=(4, 1, 2, 3), true=(1, 2, 3, 4))) == 1
    assert symptom_hits(outcome(1, 1, named=(1, 5), true=(1,))) == 0.25
    assert symptom_hits(outcome(1, 1, true=(1, 2))) == 0


def test_a_fifth_name_and_a_repeated_one_earn_nothing() -> None:
    assert symptom_hits(outcome(1, 1, named=(5, 6, 7, 8, 1), true=(1,))) == 0
    assert symptom_hits(outcome(1, 1, named=(1, 1, 1, 1), true=(1, 2, 3, 4))) == 0.25


def test_symptoms_are_only_judged_where_the_truth_is_known() -> None:
    known = outcome(20, 20, k=10, named=(1, 2), true=(1, 2, 3, 4))
    result = measure([known, outcome(20, 20)])
    assert (result.ashr, result.lashr) == (0.5, 0.25)
    result = measure([outcome(20, 20)])
    assert (result.ashr, result.lashr) == (None, None)


def test_late_hits_are_worth_their_speed() -> None:
    result = measure([outcome(20, 25, k=10), outcome(20, 5, k=1), outcome(3, 3, k=1)])
    assert result.dchr == pytest.approx(2 / 3)
    assert result.ldchr == pytest.approx((0.5 + 0 + 1) / 3)
    assert result.adodl == pytest.approx((58 + 48 + 63) / 63 / 3)


def test_another_k0_moves_the_latency_aware_measures_alone() -> None:
    late = [outcome(20, 22, k=10, named=(1,), true=(1,))]
    usual, slow = measure(late), measure(late, k0=30)
    assert slow.ldchr > usual.ldchr
    assert slow.model_copy(update={"ldchr": usual.ldchr, "lashr": usual.lashr}) == usual


@given(st.lists(outcomes, min_size=1, max_size=8))
def test_a_prediction_that_is_the_truth_scores_full_marks(made: list[Outcome]) -> None:
    exact = [o.model_copy(update={"predicted": o.gold, "k": 1}) for o in made]
    result = measure(exact)
    assert (result.dchr, result.adodl, result.ldchr) == (1, 1, 1)
    assert result.spearman is None or math.isclose(result.spearman, 1)


@given(st.lists(outcomes, min_size=1, max_size=8))
def test_being_late_never_helps(made: list[Outcome]) -> None:
    result = measure(made)
    assert result.ldchr <= result.dchr
    assert (result.lashr is None) == (result.ashr is None)
    assert (result.lashr or 0) <= (result.ashr or 0)


def test_the_person_is_the_unit_where_asked() -> None:
    often = [outcome(0, 63, person="Mo")] * 3
    made = [*often, outcome(10, 10, person="Kit")]
    assert measure(made).adodl == 0.25
    assert measure(made, unit="person").adodl == 0.5
    assert measure(made).persons == 2


def test_a_name_in_another_case_is_the_same_person() -> None:
    made = [outcome(0, 63, person=name) for name in ("Mo", "mo", "MO ")]
    result = measure([*made, outcome(10, 10, person="Kit")], unit="person")
    assert (result.persons, result.adodl) == (2, 0.5)


@given(st.lists(outcomes, min_size=1, max_size=6), st.integers(2, 4))
def test_repeating_one_persons_conversations_changes_no_person_average(
    made: list[Outcome], times: int
) -> None:
    repeated = made + [o for o in made if o.person == made[0].person] * (times - 1)
    once, often = (measure(each, unit="person") for each in (made, repeated))
    for name in ("dchr", "adodl", "ashr", "ldchr", "lashr"):
        assert getattr(often, name) == pytest.approx(getattr(once, name))


def test_each_person_is_averaged_first() -> None:
    assert person_average([("Mo", 1.0), ("Mo", 0.0), ("Mo", 0.5), ("Kit", 1.0)]) == 0.75


def test_ranks_are_compared_between_persons() -> None:
    made = [
        outcome(10, 5, person="Mo"),
        outcome(30, 5, person="Mo"),
        outcome(19, 30, person="Kit"),
        outcome(40, 40, person="Ari"),
    ]
    assert measure(made).spearman != measure(made, unit="person").spearman
    assert measure(made, unit="person").spearman == 0.5


@pytest.mark.parametrize(
    ("predicted", "gold", "expected"),
    [
        ([1, 2, 3], [10, 20, 60], 1.0),
        ([3, 2, 1], [10, 20, 60], -1.0),
        ([5, 5, 5], [1, 2, 3], None),
        ([1, 2, 3], [7, 7, 7], None),
        ([4], [4], None),
    ],
)
def test_what_does_not_vary_has_no_rank_correlation(
    predicted: list[float], gold: list[float], expected: float | None
) -> None:
    assert spearman(predicted, gold) == (None if expected is None else pytest.approx(expected))


@given(golds, totals)
def test_no_other_constant_comes_closer_than_the_best(truths: list[int], guess: int) -> None:
    best = best_constant(truths)
    others = sum(closeness(guess, gold) for gold in truths) / len(truths)
    assert best.adodl >= others - 1e-12


def test_of_equally_close_constants_the_one_with_more_hits_is_taken() -> None:
    # Every guess from 12 to 20 is as close as the next; from 19 on it hits two bands, not one.
    best = best_constant([5, 12, 20, 25])
    assert (best.total, best.dchr) == (19, 0.5)


def test_of_fully_tied_constants_the_lowest_is_taken() -> None:
    assert best_constant([0, 12, 14, 63]).total == 12


def test_the_bands_of_the_best_constant_can_be_the_manuals() -> None:
    assert best_constant([10, 10, 13]).dchr == 1
    assert best_constant([13, 13, 9], "manual").dchr == 1
    assert best_constant([13, 13, 9]).dchr == pytest.approx(2 / 3)


def test_nothing_can_be_measured_from_nothing() -> None:
    with pytest.raises(InputError, match="no outcome"):
        measure([])
    with pytest.raises(InputError, match="at least one truth"):
        best_constant([])
    with pytest.raises(InputError, match="nothing to average"):
        person_average([])


@pytest.mark.parametrize("total", [-1, 64])
def test_a_total_off_the_scale_is_no_outcome(total: int) -> None:
    with pytest.raises(ValidationError):
        outcome(total, 10)
