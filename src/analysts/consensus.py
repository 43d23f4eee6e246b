"""Reliability-weighted consensus of a subject's samples (§3.3, equation 1; decisions 10, 11).

All weights are exact: a median that is decided by "reaching half" must not hang on the order in
which floats were added.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, TypeVar, get_args

from src.analysts.imputation import Imputation
from src.analysts.median import Sample, gather
from src.records import ITEMS, Assessment, Consensus, Interview, SymptomScore

Agreement = Literal["all", "assessed"]
Value = TypeVar("Value", int, float)

LARGEST_GAP = 3
"""Two scores of one item differ by at most this much."""


def reliabilities(assessments: Sequence[Assessment], agreement: Agreement) -> tuple[Fraction, ...]:
    """Return each run's mean agreement with the others over the items, 0 to 1 (equation 1).

    With `all` every pair of runs is compared on 21 items, so the weights stand to each other as
    the whole numbers Σ(3 - |Δ|). With `assessed` an item that either run did not assess is left
    out; a run that shares no assessed item with any other has 0. A single run has 1.
    """
    if len(assessments) == 1:
        return (Fraction(1),)
    agreed = [0] * len(assessments)
    compared = [0] * len(assessments)
    for item in range(1, ITEMS + 1):
        scores = {
            run: assessment[item].score
            for run, assessment in enumerate(assessments)
            if agreement == "all" or assessment[item].assessed
        }
        counts = Counter(scores.values())  # four scores stand for all runs: linear in their number
        for run, score in scores.items():
            points = sum(n * (LARGEST_GAP - abs(score - other)) for other, n in counts.items())
            agreed[run] += points - LARGEST_GAP  # less what it agrees with itself
            compared[run] += len(scores) - 1
    return tuple(
        Fraction(points, LARGEST_GAP * count) if count else Fraction(0)
        for points, count in zip(agreed, compared, strict=True)
    )


def weighted_median(values: Sequence[Value], weights: Sequence[Fraction]) -> Value:
    """Return the first value, from below, that reaches half of the weight.

    Where no value has any weight, all weigh the same.
    """
    if not any(weights):
        weights = [Fraction(1)] * len(values)
    ranked = sorted(zip(values, weights, strict=True))
    total, reached = sum(weights), Fraction(0)
    for value, weight in ranked:
        reached += weight
        if 2 * reached >= total:
            return value
    raise ValueError("a median needs at least one value")


def consensus_profile(assessments: Sequence[Assessment], weights: Sequence[Fraction]) -> Assessment:
    """Return the weighted median per item; the assessments in order of their samples' numbers."""
    return Assessment(
        symptoms=tuple(
            _consensus_symptom([assessment[item] for assessment in assessments], weights)
            for item in range(1, ITEMS + 1)
        )
    )


def _consensus_symptom(
    readings: Sequence[SymptomScore], weights: Sequence[Fraction]
) -> SymptomScore:
    """Return what the samples say of one item.

    The evidence is that of the heaviest sample which assessed the item with the consensus score:
    silence and imputation quote nobody. A score above 0 that a sample imputed is marked so where
    no sample assessed the item with it, or half of the weight did not assess the item at all; it
    then has neither confidence nor evidence, whatever other samples heard.
    """
    score = weighted_median([reading.score for reading in readings], weights)
    confidence = weighted_median([reading.confidence for reading in readings], weights)
    holders = [i for i, reading in enumerate(readings) if reading.score == score]
    spoken = [i for i in holders if readings[i].assessed]
    inferred = score > 0 and any(readings[i].imputed for i in holders)
    if inferred and (not spoken or confidence == 0):
        return SymptomScore(score=score, confidence=0.0, imputed=True)
    return SymptomScore(
        score=score,
        confidence=confidence,
        evidence=readings[max(spoken, key=lambda i: (weights[i], -i))].evidence if spoken else "",
    )


def distance(one: Assessment, other: Assessment) -> int:
    """Return the L1 distance of two profiles."""
    return sum(abs(a.score - b.score) for a, b in zip(one.symptoms, other.symptoms, strict=True))


@dataclass(frozen=True, kw_only=True)
class ConsensusAnalyst:
    """Weigh the samples by how well they agree, and take the weighted median of each item."""

    imputation: Imputation
    agreement: Agreement
    selected: int
    """How many runs are selected for a submission."""

    async def analyse(self, interviews: Sequence[Interview]) -> Consensus:
        """Return the consensus, its total under both agreement modes, and the nearest runs."""
        batch = gather(interviews, self.imputation)
        assessments = [sample.assessment for sample in batch.samples]
        weights = reliabilities(assessments, self.agreement)
        profile = consensus_profile(assessments, weights)
        (other,) = (mode for mode in get_args(Agreement) if mode != self.agreement)
        nearest = _nearest(batch.samples, weights, profile)
        return Consensus(
            profile=profile,
            total=profile.total,
            key_symptoms=profile.key_symptoms,
            spread=batch.spread(),
            selected=tuple(sample.selected() for sample in nearest[: self.selected]),
            weights={
                sample.number: float(weight)
                for sample, weight in zip(batch.samples, weights, strict=True)
            },
            totals=batch.totals,
            identical=batch.identical,
            other_total=consensus_profile(assessments, reliabilities(assessments, other)).total,
        )


def _nearest(
    samples: Sequence[Sample], weights: Sequence[Fraction], profile: Assessment
) -> list[Sample]:
    """Rank by distance of the totals; ties by profile, weight (heavier first) and number."""
    ranked = sorted(
        zip(samples, weights, strict=True),
        key=lambda pair: (
            abs(pair[0].total - profile.total),
            distance(pair[0].assessment, profile),
            -pair[1],
            pair[0].number,
        ),
    )
    return [sample for sample, _ in ranked]
