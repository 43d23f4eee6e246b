import asyncio
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.analysts.consensus import (
    Agreement,
    ConsensusAnalyst,
    consensus_profile,
    distance,
    reliabilities,
    weighted_median,
)
from src.analysts.imputation import Imputation
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

APPENDIX = Imputation(
    mode="appendix",
    renormalise=False,
    donor_confidence=0.7,
    donor_score=2,
    donor_weights=(0.5, 0.3, 0.2),
    imputed_cap=2,
    imputed_rounding="half_down",
)
OFF = replace(APPENDIX, mode="off")
SILENT = SymptomScore(score=0, confidence=0.0)
MODES: tuple[Agreement, Agreement] = ("all", "assessed")


def heard(score: int, confidence: float = 0.8, evidence: str = "") -> SymptomScore:
    return SymptomScore(score=score, confidence=confidence, evidence=evidence)


def scored(known: dict[int, int | SymptomScore], rest: SymptomScore = SILENT) -> Assessment:
    entries = {n: s if isinstance(s, SymptomScore) else heard(s) for n, s in known.items()}
    return Assessment(symptoms=tuple(entries.get(n, rest) for n in range(1, ITEMS + 1)))


def flat(score: int) -> Assessment:
    return scored({}, heard(score))


def held(sample: int, final: Assessment, *, words: str | None = None) -> Interview:
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
        closing=Question(text="Thank you.", source="fixed") if sample % 2 else None,
        stop=StopReason.STABLE,
        final=final,
    )


def analysed(
    finals: Sequence[Assessment | Interview],
    *,
    agreement: Agreement = "all",
    imputation: Imputation = OFF,
) -> Consensus:
    analyst = ConsensusAnalyst(imputation=imputation, agreement=agreement, selected=3)
    interviews = [
        f if isinstance(f, Interview) else held(number, f) for number, f in enumerate(finals, 1)
    ]
    return asyncio.run(analyst.analyse(interviews))


readings = st.one_of(
    st.just(SILENT), st.builds(heard, st.integers(0, 3), st.sampled_from([0.3, 0.7, 1.0]))
)
assessments = st.lists(readings, min_size=ITEMS, max_size=ITEMS).map(
    lambda symptoms: Assessment(symptoms=tuple(symptoms))
)
batches = st.lists(assessments, min_size=1, max_size=5)
modes = st.sampled_from(MODES)


@pytest.mark.parametrize(("runs", "compared", "apart"), [(10, 45, 25), (20, 190, 100)])
def test_every_pair_of_runs_is_compared_once(runs: int, compared: int, apart: int) -> None:
    # Half of the runs lie one point above the other half on every item, so that each pair
    # across the halves (and no other) loses a third.
    weights = reliabilities([flat(n % 2) for n in range(runs)], "all")
    assert sum(weights) / runs == 1 - Fraction(apart, 3 * compared)


def test_agreement_follows_equation_one() -> None:
    runs = [flat(0), scored({1: 1, 2: 2, 3: 3}, heard(0))]
    points = 21 * 3 - (1 + 2 + 3)
    assert reliabilities(runs, "all") == (Fraction(points, 63),) * 2


def test_a_weight_is_the_mean_over_all_other_runs() -> None:
    # Gaps on each of 21 items: 0-1 and 1-3 are 1 and 2, 0-3 is 3.
    assert reliabilities([flat(0), flat(1), flat(3)], "all") == (
        Fraction(2 + 0, 6),
        Fraction(2 + 1, 6),
        Fraction(0 + 1, 6),
    )


@given(batches)
def test_over_all_items_the_weights_stand_as_whole_numbers(batch: list[Assessment]) -> None:
    if len(batch) > 1:
        for run, weight in zip(batch, reliabilities(batch, "all"), strict=True):
            points = sum(3 * ITEMS - distance(run, other) for other in batch) - 3 * ITEMS
            assert weight * (3 * ITEMS * (len(batch) - 1)) == points


@given(batches, modes)
def test_a_weight_lies_between_nothing_and_one(batch: list[Assessment], mode: Agreement) -> None:
    assert all(0 <= weight <= 1 for weight in reliabilities(batch, mode))


def test_shared_silence_is_agreement_only_where_all_items_count() -> None:
    runs = [scored({1: 3}), scored({1: 1})]
    assert reliabilities(runs, "all") == (Fraction(61, 63),) * 2
    assert reliabilities(runs, "assessed") == (Fraction(1, 3),) * 2


def test_an_inferred_score_is_masked_as_well() -> None:
    inferred = SymptomScore(score=2, confidence=0.0, imputed=True)
    runs = [scored({1: 3, 2: inferred}), scored({1: 3, 2: heard(0)})]
    assert reliabilities(runs, "assessed") == (Fraction(1),) * 2


def test_a_run_that_shares_no_assessed_item_weighs_nothing() -> None:
    runs = [scored({1: 2, 2: 1}), scored({1: 2}), scored({21: 3})]
    assert reliabilities(runs, "assessed") == (Fraction(1), Fraction(1), Fraction(0))


def test_runs_without_any_weight_weigh_the_same() -> None:
    opposite = [flat(0), flat(3)]
    assert reliabilities(opposite, "all") == (Fraction(0),) * 2
    assert weighted_median([3, 0, 2], [Fraction(0)] * 3) == 2
    assert analysed(opposite).total == 0


def test_a_single_run_is_its_own_consensus() -> None:
    for mode in MODES:
        result = analysed([scored({1: 2, 5: 3})], agreement=mode)
        assert (result.total, result.other_total) == (5, 5)
        assert result.weights == {1: 1.0}


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        ((1, 1, 2), 1),  # 0 and 1 together reach exactly half
        ((1, 1, 3), 2),  # and now they do not
        ((2, 1, 1), 0),
        ((0, 0, 1), 2),
    ],
)
def test_the_first_value_that_reaches_half_the_weight_is_the_median(
    weights: tuple[int, ...], expected: int
) -> None:
    assert weighted_median([0, 1, 2], [Fraction(w) for w in weights]) == expected


def test_reaching_half_is_exact_where_floats_would_miss_it() -> None:
    weights = [Fraction(1, 10)] * 10 + [Fraction(1)]
    assert 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 + 0.1 < 1.0
    assert weighted_median([1] * 10 + [2], weights) == 1


@given(
    st.lists(st.tuples(st.integers(0, 3), st.fractions(0, 1)), min_size=1),
    st.fractions(min_value=Fraction(1, 1000), max_value=1000),
)
def test_only_the_proportion_of_the_weights_matters(
    weighed: list[tuple[int, Fraction]], scale: Fraction
) -> None:
    values = [value for value, _ in weighed]
    weights = [weight for _, weight in weighed]
    assert weighted_median(values, [weight * scale for weight in weights]) == weighted_median(
        values, weights
    )


@given(st.lists(st.integers(0, 3), min_size=1), st.integers(1, 5))
def test_a_weight_of_n_is_n_equal_values(values: list[int], times: int) -> None:
    weights = [Fraction(1 + (n % times)) for n in range(len(values))]
    spelled = [v for v, w in zip(values, weights, strict=True) for _ in range(int(w))]
    plain = sorted(spelled)[(len(spelled) - 1) // 2]
    assert weighted_median(values, weights) == plain


@given(batches, modes, st.randoms(use_true_random=False))
def test_the_order_of_the_samples_means_nothing(
    batch: list[Assessment], mode: Agreement, random: Any
) -> None:
    interviews = [held(number, final) for number, final in enumerate(batch, 1)]
    shuffled = list(interviews)
    random.shuffle(shuffled)
    first, second = (
        analysed(order, agreement=mode, imputation=APPENDIX) for order in (interviews, shuffled)
    )
    assert first == second
    assert list(first.weights) == list(second.weights)


@given(batches, modes, st.integers(1, 4))
def test_a_repeated_transcript_counts_once(
    batch: list[Assessment], mode: Agreement, copies: int
) -> None:
    first = held(1, batch[0], words="The same words.")
    rest = [held(number, final) for number, final in enumerate(batch[1:], 2)]
    repeats = [held(50 + n, batch[0], words="The same words.") for n in range(copies)]
    once = analysed([first, *rest], agreement=mode)
    often = analysed([*repeats, first, *rest], agreement=mode)
    assert often.identical == ((1, *range(50, 50 + copies)),)
    assert set(often.totals) == set(once.totals) | set(range(50, 50 + copies))
    ignored = {"identical", "totals"}
    assert often.model_dump(exclude=ignored) == once.model_dump(exclude=ignored)


@given(batches, modes)
def test_the_consensus_of_an_item_is_a_score_that_some_run_gave(
    batch: list[Assessment], mode: Agreement
) -> None:
    profile = consensus_profile(batch, reliabilities(batch, mode))
    for item in range(1, ITEMS + 1):
        assert profile[item].score in {run[item].score for run in batch}
        assert profile[item].confidence in {run[item].confidence for run in batch}


@given(assessments, st.integers(1, 5), modes)
def test_runs_that_all_agree_are_the_consensus(
    reading: Assessment, runs: int, mode: Agreement
) -> None:
    assert analysed([reading] * runs, agreement=mode).profile == reading


@given(batches)
def test_both_agreement_modes_are_reported(batch: list[Assessment]) -> None:
    over_all, assessed = (analysed(batch, agreement=mode) for mode in MODES)
    assert (over_all.total, over_all.other_total) == (assessed.other_total, assessed.total)
    assert over_all.total == over_all.profile.total


def test_a_sample_that_contradicts_the_others_loses_weight() -> None:
    result = analysed([flat(1), flat(1), flat(3)])
    assert result.weights[1] == result.weights[2] > result.weights[3]
    assert result.total == 21


def test_the_evidence_is_that_of_the_heaviest_sample_with_the_score() -> None:
    runs = [
        scored({1: heard(2, evidence="far off"), 2: 3, 3: 3}),
        scored({1: heard(2, evidence="near")}),
        scored({1: heard(2, evidence="near as well")}),
        scored({1: heard(0, evidence="another score")}),
    ]
    assert analysed(runs).profile[1].evidence == "near"


def test_silence_is_never_quoted_as_evidence() -> None:
    mute = SymptomScore(score=0, confidence=0.0, evidence="was not spoken of")
    runs = [scored({1: mute}), scored({1: heard(0, evidence="I sleep well")})]
    assert analysed(runs).profile[1].evidence == "I sleep well"
    assert analysed([scored({1: mute})] * 2).profile[1].evidence == ""


def test_a_consensus_that_rests_on_inferred_scores_says_so() -> None:
    donors: dict[int, int | SymptomScore] = {20: heard(2), 16: heard(2), 1: heard(2)}
    spoken = scored(donors | {15: heard(2)})
    result = analysed([scored(donors), scored(donors), spoken], imputation=APPENDIX)
    assert result.profile[15] == SymptomScore(score=2, confidence=0.0, imputed=True)
    result = analysed([scored(donors), spoken, spoken], imputation=APPENDIX)
    assert result.profile[15] == heard(2)


def test_a_score_that_only_imputation_holds_is_never_presented_as_heard() -> None:
    inferred = SymptomScore(score=2, confidence=0.0, imputed=True)
    readings = [
        heard(0, 0.7, "I sleep well"),
        heard(0, 0.7),
        SILENT,
        inferred,
        inferred,
        heard(3, 0.7, "I never sleep"),
        heard(3, 0.7),
    ]
    runs = [scored({1: heard(1, 0.7), 16: reading}) for reading in readings]
    profile = consensus_profile(runs, [Fraction(1)] * len(runs))
    assert sorted(reading.confidence for reading in readings)[len(readings) // 2] == 0.7
    assert profile[16] == SymptomScore(score=2, confidence=0.0, imputed=True)
    assert profile.key_symptoms == (1, 16)


def test_one_sample_that_heard_the_score_makes_it_heard() -> None:
    inferred = SymptomScore(score=2, confidence=0.0, imputed=True)
    runs = [scored({16: one}) for one in (inferred, heard(2, 0.7, "I wake at four"), heard(3, 0.7))]
    profile = consensus_profile(runs, [Fraction(1)] * 3)
    assert profile[16] == heard(2, 0.7, "I wake at four")


def test_samples_are_imputed_before_they_are_weighed() -> None:
    runs = [scored({20: heard(2), 16: heard(2), 1: heard(2)})] * 3
    result = analysed(runs, imputation=APPENDIX)
    assert result.total > 6
    assert result.totals == {1: result.total, 2: result.total, 3: result.total}
    assert analysed(runs).total == 6


def test_the_selected_runs_keep_their_own_answers() -> None:
    runs = [scored({1: 3, 2: 3, 4: 1}), scored({1: 3, 2: 2}), scored({5: 3}), scored({1: 3, 2: 1})]
    result = analysed(runs)
    assert result.total == 5
    assert [(run.sample, run.total) for run in result.selected] == [(2, 5), (4, 4), (1, 7)]
    assert [run.key_symptoms for run in result.selected] == [(1, 2), (1, 2), (1, 2, 4)]
    assert [run.messages for run in result.selected] == [1, 1, 2]


def test_equally_near_totals_are_told_apart_by_the_profile() -> None:
    # The first three have the same total and the same weight; the second and third are the
    # consensus itself.
    runs = [
        scored({3: 1}, heard(0)),
        scored({2: 1}, heard(0)),
        scored({2: 1}, heard(0)),
        scored({1: 1, 3: 1}, heard(0)),
    ]
    result = analysed(runs)
    assert result.weights[1] == result.weights[2] == result.weights[3]
    assert [run.sample for run in result.selected] == [2, 3, 1]


def test_equally_near_profiles_are_told_apart_by_weight() -> None:
    # The consensus is 1 on items 1 to 3. Samples 1, 2 and 3 leave it by two points each.
    runs = [
        scored({1: 1, 2: 0, 3: 1, 4: 0, 5: 0}, heard(0)),
        scored({1: 2, 2: 1, 3: 1, 4: 0, 5: 0}, heard(0)),
        scored({1: 1, 2: 1, 3: 1, 4: 0, 5: 1}, heard(0)),
        scored({1: 1, 2: 1, 3: 1, 4: 0, 5: 0}, heard(0)),
        scored({1: 2, 2: 1, 3: 1, 4: 0, 5: 0}, heard(0)),
    ]
    result = analysed(runs)
    assert result.total == 3
    assert result.weights[2] == result.weights[5] > result.weights[1]
    assert [run.sample for run in result.selected] == [4, 2, 5]


def test_fully_tied_runs_come_by_number() -> None:
    assert [run.sample for run in analysed([flat(1)] * 5).selected] == [1, 2, 3]


def test_fewer_distinct_runs_than_wanted_are_all_selected() -> None:
    assert len(analysed([flat(1), flat(2)]).selected) == 2


def test_failed_interviews_have_no_say() -> None:
    failure = Failure(kind="scorer_failed", text="no answer in form")
    failed = Interview(subject="persona-07", sample=9, seed=9, failure=failure)
    result = analysed([failed, held(1, flat(2)), held(2, flat(2))])
    assert result.total == 42
    assert set(result.totals) == {1, 2}
    with pytest.raises(TooFewInterviews, match="none of the 1 interviews"):
        analysed([failed])


def test_the_defaults_in_conf_are_the_papers(options: Any) -> None:
    values = options["consensus"]
    assert (values["kind"], values["agreement"], values["selected"]) == ("consensus", "all", 3)
