"""The organisers' measures of eRisk Task 1, and what they have to beat.

Formulas and the latency constant are those that reproduce the published scores.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from src.clinical.bdi import HIGHEST, Bands, band, item_number
from src.errors import InputError
from src.records import Item, Record

KEY_SYMPTOMS = 4
"""Key symptoms a system may name, and the denominator of the hit rate."""


def _item(name: object) -> int:
    try:
        return item_number(str(name))
    except InputError as error:
        raise ValueError(str(error)) from error


Total = Annotated[int, Field(ge=0, le=HIGHEST, strict=True)]
Symptom = Annotated[Item, BeforeValidator(_item)]
"""An item by one of its names, in any case."""
Unit = Literal["conversation", "person"]


class Outcome(Record):
    """One conversation's prediction beside the truth."""

    person: str
    predicted: Total
    gold: Total
    k: Annotated[int, Field(ge=1)]
    """Messages of the interviewer, the closing included."""
    predicted_symptoms: tuple[Item, ...] = ()
    gold_symptoms: tuple[Item, ...] | None = None
    """None where the key symptoms are not known."""


class Metrics(Record):
    """The measures over a set of outcomes; None where one is not defined."""

    conversations: int
    persons: int
    dchr: float
    """Depression Category Hit Rate."""
    adodl: float
    """Average closeness of the totals, 1 = exact."""
    ashr: float | None
    """Average Symptom Hit Rate, over the outcomes whose key symptoms are known."""
    ldchr: float
    """Category hits, each worth the speed of its conversation."""
    lashr: float | None
    """Symptom hits, each worth the speed of its conversation."""
    spearman: float | None
    """Rank correlation of predicted and true totals; None for fewer than two distinct values."""
    spread: float
    """Standard deviation of the predicted totals; a system that says the same of all has 0."""
    gold_spread: float


class Constant(Record):
    """The best that one and the same guess for everybody achieves."""

    total: int
    adodl: float
    dchr: float


def person_key(name: str) -> str:
    """Return what two spellings of one person's name share."""
    return name.strip().lower()


def truths_by_person(known: Iterable[tuple[str, int]]) -> dict[str, int]:
    """Return each person's one true total; two different ones are an `InputError`."""
    truths: dict[str, int] = {}
    for person, gold in known:
        if (first := truths.setdefault(person_key(person), gold)) != gold:
            raise InputError(
                f"{person} has two truths, {first} and {gold}: give each person one true total, "
                "or different persons different names"
            )
    return truths


def category_hit(outcome: Outcome, bands: Bands = "erisk") -> float:
    """Return 1 where prediction and truth fall into the same severity band, else 0."""
    return float(band(outcome.predicted, bands) == band(outcome.gold, bands))


def closeness(predicted: int, gold: int) -> float:
    """Return how near two totals are, 0 to 1."""
    return (HIGHEST - abs(predicted - gold)) / HIGHEST


def symptom_hits(outcome: Outcome) -> float | None:
    """Return the share of the four key symptoms that were named; None where they are not known.

    Only the first four names count, as in a submission.
    """
    if not outcome.gold_symptoms:
        return None
    named = set(outcome.predicted_symptoms[:KEY_SYMPTOMS])
    return len(named & set(outcome.gold_symptoms)) / KEY_SYMPTOMS


def speed(k: int, k0: int = 10) -> float:
    """Return what a hit is still worth after k messages: 1 after the first, one half after k0."""
    if k < 1 or k0 <= 1:
        raise InputError(f"speed is defined from one message on and for k0 above 1, not {k}, {k0}")
    decay = math.log(3) / (k0 - 1)
    return 1 - (-1 + 2 / (1 + math.exp(-decay * (k - 1))))


def person_means(values: Iterable[tuple[str, float]]) -> tuple[float, ...]:
    """Return each person's mean, in the order in which the persons first appear."""
    by_person: defaultdict[str, list[float]] = defaultdict(list)
    for person, value in values:
        by_person[person].append(value)
    return tuple(fmean(own) for own in by_person.values())


def person_average(values: Iterable[tuple[str, float]]) -> float:
    """Return the mean over persons of each person's mean: the person is the unit."""
    means = person_means(values)
    if not means:
        raise InputError("there is nothing to average")
    return fmean(means)


def spearman(predicted: Sequence[float], gold: Sequence[float]) -> float | None:
    """Return the rank correlation, or None where either side does not vary."""
    if min(len(set(predicted)), len(set(gold))) <= 1:
        return None
    from scipy.stats import spearmanr  # noqa: PLC0415 - takes longer than all else in --help

    return float(spearmanr(predicted, gold).statistic)


def measure(
    outcomes: Sequence[Outcome],
    *,
    bands: Bands = "erisk",
    k0: int = 10,
    unit: Unit = "conversation",
) -> Metrics:
    """Return every measure, averaged over conversations or first within each person."""
    if not outcomes:
        raise InputError("there is no outcome to measure")

    persons = [person_key(outcome.person) for outcome in outcomes]
    units = persons if unit == "person" else [str(n) for n in range(len(outcomes))]
    category = [category_hit(outcome, bands) for outcome in outcomes]
    worth = [speed(outcome.k, k0) for outcome in outcomes]
    known = [
        (one, hits, hits * value)
        for one, value, outcome in zip(units, worth, outcomes, strict=True)
        if (hits := symptom_hits(outcome)) is not None
    ]

    def average(values: Iterable[float]) -> float:
        return person_average(zip(units, values, strict=True))

    predicted = person_means(zip(units, (o.predicted for o in outcomes), strict=True))
    gold = person_means(zip(units, (o.gold for o in outcomes), strict=True))
    return Metrics(
        conversations=len(outcomes),
        persons=len(set(persons)),
        dchr=average(category),
        adodl=average(closeness(o.predicted, o.gold) for o in outcomes),
        ashr=person_average((one, hits) for one, hits, _ in known) if known else None,
        ldchr=average(hit * value for hit, value in zip(category, worth, strict=True)),
        lashr=person_average((one, late) for one, _, late in known) if known else None,
        spearman=spearman(predicted, gold),
        spread=pstdev(predicted),
        gold_spread=pstdev(gold),
    )


def best_constant(golds: Sequence[int], bands: Bands = "erisk") -> Constant:
    """Return the constant guess with the highest ADODL.

    Several often tie; the one with the most category hits is the harder one to beat, and the
    lowest of those is taken. With the person as the unit, give one truth per person.
    """
    if not golds:
        raise InputError("a constant guess needs at least one truth to be compared with")

    def hits(guess: int) -> int:
        return sum(band(guess, bands) == band(gold, bands) for gold in golds)

    best = min(
        range(HIGHEST + 1),
        key=lambda guess: (sum(abs(guess - gold) for gold in golds), -hits(guess), guess),
    )
    return Constant(
        total=best,
        adodl=fmean(closeness(best, gold) for gold in golds),
        dchr=hits(best) / len(golds),
    )
