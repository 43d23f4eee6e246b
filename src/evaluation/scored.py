"""Recorded conversations with what a scorer made of them: measures beside the truth, and rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import get_args

from src.clinical import bdi
from src.evaluation.conversations import Conversation
from src.evaluation.metrics import (
    Constant,
    Metrics,
    Outcome,
    Unit,
    best_constant,
    measure,
    truths_by_person,
)
from src.llm.ledger import Ledger
from src.records import INTENDED_USE, Assessment, Failure, Record
from src.settings import ScoreSettings

SHOWN_TURNS = (1, 2, 3, 4, 6, 8, 10, 12, 15, 18, 24)
"""With turns=all, the turns after which the measures are printed; the file holds them all."""


class Scored(Record):
    """One conversation and what the scorer made of it, after the last turn or after every one."""

    source: str
    conversation: Conversation
    by_turn: dict[int, Assessment]
    """By finished turns; the last is the reading of the whole."""
    failure: Failure | None = None
    """Why there is no reading; such a conversation counts in no measure."""

    def after(self, turn: int) -> Assessment:
        """Return the reading after a turn, or after the last one before it."""
        return self.by_turn[max(n for n in self.by_turn if n <= turn)]

    @property
    def whole(self) -> Assessment:
        return self.by_turn[max(self.by_turn)]


def _known(scored: Sequence[Scored]) -> list[tuple[Scored, int]]:
    """Return what was read and can be measured, with the true totals."""
    return [
        (one, gold)
        for one in scored
        if one.by_turn and (gold := one.conversation.gold_total) is not None
    ]


def refuse_two_truths(conversations: Iterable[Conversation]) -> None:
    """Raise an `InputError` where one person has two truths, here or in another file."""
    truths_by_person((c.person, c.gold_total) for c in conversations if c.gold_total is not None)


def measured_of(scored: Sequence[Scored], settings: ScoreSettings) -> dict[str, Metrics]:
    """Return the measures by what they are of; none where no truth is known.

    Two different truths for one person are an `InputError`.
    """
    known = [one for one, _ in _known(scored)]
    refuse_two_truths([one.conversation for one in known])
    recorded = [one for one in known if one.conversation.predicted_total is not None]
    sets = {
        "this scorer": [_outcome(one.conversation, one.whole) for one in known],
        "as recorded": [_outcome(one.conversation) for one in recorded],
    }
    found = {
        f"{what}, {unit}": measure(outcomes, bands=settings.bands, unit=unit)
        for what, outcomes in sets.items()
        if outcomes
        for unit in get_args(Unit)
    }
    longest = max((len(one.conversation.turns) for one in known), default=0)
    for turn in SHOWN_TURNS if settings.turns == "all" else ():
        if turn < longest:
            early = [_outcome(one.conversation, one.after(turn), turn) for one in known]
            found[f"after turn {turn}, conversation"] = measure(early, bands=settings.bands)
    return found


def _outcome(
    conversation: Conversation, read: Assessment | None = None, after: int | None = None
) -> Outcome:
    """Return a reading, or else the recorded prediction, beside the truth.

    Where the record predicts no symptoms, its answer in symptoms is not known and not wrong.
    """
    total = read.total if read else conversation.predicted_total
    symptoms = read.key_symptoms if read else conversation.predicted_symptoms
    assert total is not None
    assert conversation.gold_total is not None
    return Outcome(
        person=conversation.person,
        predicted=total,
        gold=conversation.gold_total,
        k=min(after or conversation.k, conversation.k),
        predicted_symptoms=symptoms or (),
        gold_symptoms=None if symptoms is None else conversation.gold_symptoms,
    )


def constants_of(scored: Sequence[Scored], bands: bdi.Bands) -> dict[str, Constant]:
    """Return the best constant guess over the conversations, and over the persons."""
    each = [(one.conversation.person, gold) for one, gold in _known(scored)]
    by_unit = {
        "conversation": [gold for _, gold in each],
        "person": list(truths_by_person(each).values()),
    }
    return {unit: best_constant(golds, bands) for unit, golds in by_unit.items() if golds}


def written(
    scored: Sequence[Scored],
    measured: Mapping[str, Metrics],
    settings: ScoreSettings,
    ledger: Ledger,
) -> dict[str, object]:
    """Return all of it: the measures, and a row per conversation in the order of the files."""
    constants = constants_of(scored, settings.bands)
    return {
        "intended_use": INTENDED_USE,
        "settings": settings.model_dump(mode="json"),
        "ledger": ledger.model_dump(mode="json"),
        "measures": {what: m.model_dump() for what, m in measured.items()},
        "best_constant": {unit: constant.model_dump() for unit, constant in constants.items()},
        "conversations": [_row(one, settings) for one in scored],
    }


def _row(one: Scored, settings: ScoreSettings) -> dict[str, object]:
    about = one.conversation.model_dump(mode="json", exclude={"turns", "closing"})
    row: dict[str, object] = {"source": one.source, **about}
    if one.failure:
        return row | {"failure": one.failure.model_dump()}
    if settings.turns == "all":
        row["by_turn"] = {n: _reading(read, settings.bands) for n, read in one.by_turn.items()}
    return row | _reading(one.whole, settings.bands)


def _reading(read: Assessment, bands: bdi.Bands) -> dict[str, object]:
    items = [
        {"item": n, "name": bdi.name(n), "assessed": symptom.assessed}
        | symptom.model_dump(exclude={"imputed"})
        for n, symptom in enumerate(read.symptoms, 1)
    ]
    return {
        "total": read.total,
        "band": bdi.band(read.total, bands),
        "key_symptoms": [bdi.name(item) for item in read.key_symptoms],
        "items": items,
    }
