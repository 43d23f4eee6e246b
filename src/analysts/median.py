"""The baseline's analyst, and what every analyst does with its samples first (§3.2).

The median of the samples' totals speaks for the subject; the samples nearest to it are selected
(decision 12). How many valid samples an answer needs is decision 22.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import quantiles

from src.analysts.imputation import Imputation, impute
from src.errors import TooFewInterviews
from src.records import Assessment, Consensus, Interview, Message, SelectedRun, Spread, visible


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One valid interview as an analyst sees it: its number and its own answer."""

    number: int
    assessment: Assessment
    """After imputation."""
    messages: int

    @property
    def total(self) -> int:
        return self.assessment.total

    def selected(self) -> SelectedRun:
        """Return the sample as a run of a submission, with its own answer."""
        return SelectedRun(
            sample=self.number,
            total=self.total,
            key_symptoms=self.assessment.key_symptoms,
            messages=self.messages,
        )


@dataclass(frozen=True, kw_only=True)
class Batch:
    """The valid samples of one subject."""

    samples: tuple[Sample, ...]
    """By number; of samples with the same transcript only the first."""
    totals: dict[int, int]
    """Every valid sample's total by number, the repeated ones included."""
    identical: tuple[tuple[int, ...], ...]
    """Numbers of the samples that share a transcript."""

    def spread(self) -> Spread:
        """Return the quartiles of the totals, interpolated between neighbours."""
        totals = sorted(sample.total for sample in self.samples)
        lower, middle, upper = (
            quantiles(totals, n=4, method="inclusive") if len(totals) > 1 else totals * 3
        )
        return Spread(
            minimum=totals[0],
            lower_quartile=lower,
            median=middle,
            upper_quartile=upper,
            maximum=totals[-1],
        )


def min_valid(planned: int, *, share: float, least: int) -> int:
    """Return how many of the planned interviews must be valid before an answer is given."""
    return min(planned, max(least, math.ceil(Fraction(str(share)) * planned)))


def require_enough(valid: int, planned: int, *, share: float, least: int) -> None:
    """Raise `TooFewInterviews` below the bound.

    `valid` counts every valid interview, those with the same transcript too: they were held as
    planned, and a persona that repeats itself is a finding rather than a failure.
    """
    needed = min_valid(planned, share=share, least=least)
    if valid < needed:
        raise TooFewInterviews(
            f"n_valid/n_planned is {valid}/{planned}, and an answer needs {needed}"
        )


def gather(interviews: Sequence[Interview], imputation: Imputation) -> Batch:
    """Return the valid samples, imputed, each distinct transcript once.

    Interviews without a single turn are never taken for the same. None valid:
    `TooFewInterviews`.
    """
    samples: dict[int, Sample] = {}
    transcripts: defaultdict[tuple[Message, ...], list[int]] = defaultdict(list)
    for interview in sorted(interviews, key=lambda interview: interview.sample):
        if not interview.valid or interview.final is None:
            continue
        if interview.sample in samples:
            raise ValueError(f"sample {interview.sample} stands there twice: is it one subject?")
        samples[interview.sample] = Sample(
            number=interview.sample,
            assessment=impute(interview.final, imputation),
            messages=interview.messages,
        )
        if interview.turns:
            transcripts[visible(interview.turns)].append(interview.sample)
    if not samples:
        raise TooFewInterviews(f"none of the {len(interviews)} interviews is valid: no answer")
    identical = tuple(tuple(group) for group in transcripts.values() if len(group) > 1)
    repeated = {number for group in identical for number in group[1:]}
    return Batch(
        samples=tuple(s for number, s in samples.items() if number not in repeated),
        totals={number: sample.total for number, sample in samples.items()},
        identical=identical,
    )


@dataclass(frozen=True, kw_only=True)
class MedianAnalyst:
    """Let the middle of the samples' totals speak for the subject."""

    imputation: Imputation
    selected: int
    """How many runs are selected for a submission."""

    async def analyse(self, interviews: Sequence[Interview]) -> Consensus:
        """Return the median total with the profile of the sample closest to it."""
        batch = gather(interviews, self.imputation)
        spread = batch.spread()
        median = math.floor(spread.median)
        closest = sorted(batch.samples, key=lambda s: (abs(s.total - median), s.number))
        return Consensus(
            profile=closest[0].assessment,
            total=median,
            key_symptoms=closest[0].assessment.key_symptoms,
            spread=spread,
            selected=tuple(sample.selected() for sample in closest[: self.selected]),
            totals=batch.totals,
            identical=batch.identical,
        )
