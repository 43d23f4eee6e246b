"""Infer an item that was never spoken of from related ones (§3.3, Appendix B; decision 1).

§3.3 and Appendix B contradict each other, so both readings are here and a setting chooses.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from src.clinical.bdi import DONORS
from src.records import Assessment, SymptomScore

ImputationMode = Literal["appendix", "strict", "off"]
Rounding = Literal["half_down", "half_up"]


@dataclass(frozen=True, kw_only=True)
class Imputation:
    """When a donor counts, and what becomes of those that do."""

    mode: ImputationMode
    """`appendix`: any donor that is certain and severe enough adds its weighted score.
    `strict`: all three donors, or nothing; their plain mean. `off`: nothing is inferred."""
    renormalise: bool
    """Only `appendix`: whether the weighted sum is divided by the weights of the donors that
    count. It then never falls below `donor_score`, so that with the paper's numbers every
    inferred score is 2; undivided, one donor alone carries less than three."""
    donor_confidence: float
    """0 to 1: reached in `appendix` ("at least"), exceeded in `strict` ("greater than")."""
    donor_score: int
    """Reached in both modes."""
    donor_weights: tuple[float, float, float]
    """By the order of the donors in Table 4."""
    imputed_cap: int
    """Highest score that is ever inferred."""
    imputed_rounding: Rounding
    """Where an estimate lies halfway between two scores."""

    def estimate(self, donors: Sequence[SymptomScore]) -> int:
        """Return the score that three donors in order of priority speak for; 0 for none."""
        if self.mode == "off":
            return 0
        counting = [
            (Fraction(str(weight)), donor.score)
            for weight, donor in zip(self.donor_weights, donors, strict=True)
            if self._counts(donor)
        ]
        if not counting or (self.mode == "strict" and len(counting) < len(donors)):
            return 0
        if self.mode == "strict":
            severity = Fraction(sum(score for _, score in counting), len(counting))
        else:
            severity = sum((weight * score for weight, score in counting), Fraction(0))
            if self.renormalise:
                severity /= sum(weight for weight, _ in counting)
        return min(self._rounded(severity), self.imputed_cap)

    def _counts(self, donor: SymptomScore) -> bool:
        """Tell whether a donor was spoken of itself (no chains), certainly and severely."""
        certain = (
            donor.confidence > self.donor_confidence
            if self.mode == "strict"
            else donor.confidence >= self.donor_confidence
        )
        return donor.assessed and certain and donor.score >= self.donor_score

    def _rounded(self, severity: Fraction) -> int:
        half = Fraction(1, 2)
        if self.imputed_rounding == "half_down":
            return math.ceil(severity - half)
        return math.floor(severity + half)


def impute(assessment: Assessment, settings: Imputation) -> Assessment:
    """Return the assessment with unspoken items inferred and marked; nothing else changes.

    An inferred item keeps confidence 0 and so counts as not assessed. An estimate of 0 leaves
    the item as it was: it says no more than silence does. All donors are read from the given
    assessment, so that the order of the items cannot matter.
    """
    symptoms = list(assessment.symptoms)
    for item, donors in DONORS.items():
        if assessment[item].confidence > 0:
            continue
        score = settings.estimate([assessment[donor] for donor in donors])
        if score > 0:
            symptoms[item - 1] = SymptomScore(score=score, confidence=0.0, imputed=True)
    return assessment.model_copy(update={"symptoms": tuple(symptoms)})
