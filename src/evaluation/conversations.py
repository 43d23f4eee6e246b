"""Read recorded conversations: official interaction files and research logs.

Two forms of file are read: a JSON list, as the organisers ask for, and JSON lines, one
conversation a row. The reply's role is `assistant` (2026) or the persona's first name (2025).
Whatever is malformed is an `InputError` of one line with file and place.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import (
    AfterValidator,
    AliasChoices,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
)
from pydantic.fields import FieldInfo

from src.clinical.bdi import item_number
from src.errors import InputError
from src.evaluation.metrics import KEY_SYMPTOMS, Symptom, Total, person_key, truths_by_person
from src.prompts import one_line, read_text
from src.records import Answer, Item, Question, Record, Turn

LOG = ConfigDict(extra="ignore", coerce_numbers_to_str=True)
"""Logs say more than is read here, and personas' numbers come with and without quotes."""


def _whole(value: object) -> object:
    """Mark half an emoji, where a log was cut, so that the text can be stored."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _once(items: Sequence[int]) -> tuple[int, ...]:
    return tuple(dict.fromkeys(items))


def _called(*names: str) -> FieldInfo:
    """Return a field that is read under the first of some names that is there."""
    found: FieldInfo = Field(validation_alias=AliasChoices(*names))
    return found


Text = Annotated[str, BeforeValidator(_whole)]
Symptoms = Annotated[list[Symptom], AfterValidator(_once)]


class RecordedMessage(Record):
    """One message of a log; who spoke is known by the role."""

    model_config = ConfigDict(extra="ignore")
    role: str
    message: Text


class Row(Record):
    """One conversation of a log in any of the forms; of two keys the first that says anything."""

    model_config = LOG
    name: Text | None = None
    persona: Text | None = None
    LLM: Text | None = None
    official_pid: Text | None = None
    said: Annotated[list[RecordedMessage], Field(min_length=1), _called("conversation", "turns")]
    gold_total: Annotated[Total | None, _called("gold_bdi", "bdi_total")] = None
    gold_symptoms: Annotated[Symptoms | None, _called("gold_key_symptoms")] = None
    predicted_total: Annotated[Total | None, _called("pred_bdi", "pred_total")] = None
    predicted_symptoms: Annotated[list[Text] | None, _called("pred_key_symptoms")] = None


class Gold(Record):
    """The truth about one persona."""

    model_config = LOG
    pid: Text
    name: Text | None = None
    total: Annotated[Total, _called("bdi_total", "gold_bdi")]
    symptoms: Annotated[Symptoms | None, _called("key_symptoms", "gold_key_symptoms")] = None


class Conversation(Record):
    """One recorded conversation, with what is known and what was said about the persona."""

    row: Annotated[int, Field(ge=1)]
    """Position in its file."""
    person: str
    turns: tuple[Turn, ...]
    closing: str | None = None
    """A last message of the interviewer that nobody answered."""
    k: Annotated[int, Field(ge=1)]
    """Messages of the interviewer as recorded, the closing included."""
    gold_total: Total | None = None
    gold_symptoms: tuple[Item, ...] | None = None
    predicted_total: Total | None = None
    """What the recording system itself concluded."""
    predicted_symptoms: tuple[Item, ...] | None = None
    unknown_symptoms: tuple[str, ...] = ()
    """Names among the first four predicted that are no item of the BDI-II; they were kept out."""


Form = TypeVar("Form", Row, Gold)


def read_conversations(
    path: str | Path, gold: str | Path | None = None
) -> tuple[Conversation, ...]:
    """Return a file's conversations.

    `gold` names a file of truths by official number (`pid`); it fills in for the rows that carry
    none. A persona it does not list stays without truth.
    """
    truths = read_gold(gold) if gold is not None else {}
    rows = enumerate(_rows(path, Row), 1)
    read = tuple(_conversation(row, place, number=n, truths=truths) for n, (place, row) in rows)
    try:
        truths_by_person((c.person, c.gold_total) for c in read if c.gold_total is not None)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return read


def read_gold(path: str | Path) -> dict[str, Gold]:
    """Return the truths by official number and, in lower case, by name."""
    truths: dict[str, Gold] = {}
    for place, truth in _rows(path, Gold):
        for key in {person_key(truth.pid), person_key(truth.name or truth.pid)}:
            if key in truths:
                raise InputError(f"{place}: persona {key!r} stands there twice")
            truths[key] = truth
    return truths


def notes(conversations: Iterable[Conversation]) -> tuple[str, ...]:
    """Return what a reader of these conversations' figures should know, one line each."""
    strange = [c.unknown_symptoms for c in conversations if c.unknown_symptoms]
    if not strange:
        return ()
    note = (
        f"{sum(map(len, strange))} predicted symptom names in {len(strange)} conversations are "
        f"on no list of the BDI-II and were kept out (the first: {strange[0][0]!r})"
    )
    return (note,)


def _rows(path: str | Path, form: type[Form]) -> Iterator[tuple[str, Form]]:
    """Yield each row of a JSON list or of JSON lines, with its place."""
    text = read_text(path).removeprefix("\ufeff")
    found: Iterable[tuple[str, object]]
    if text.lstrip().startswith("["):
        listed = _parsed(text, path, 1)
        assert isinstance(listed, list)
        found = ((f"row {n}", row) for n, row in enumerate(listed, 1))
    else:
        # Not splitlines(): JSON strings may hold the other line separators of Unicode as they are.
        lines = enumerate(text.split("\n"), 1)
        found = ((f"line {n}", _parsed(line, path, n)) for n, line in lines if line.strip())
    where = ""
    for where, row in found:
        place = f"{path}: {where}"
        if not isinstance(row, dict):
            raise InputError(f"{place}: a row is a JSON object")
        try:
            # null says as little as an absent key, and must not hide the key's other name.
            given = {key: value for key, value in row.items() if value is not None}
            yield place, form.model_validate(given)
        except ValidationError as error:
            raise InputError(f"{place}: {one_line(error)}") from error
    if not where:
        raise InputError(f"{path}: the file is empty")


def _parsed(text: str, path: str | Path, first_line: int) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        line = first_line + getattr(error, "lineno", 1) - 1
        reason = getattr(error, "msg", "it cannot be read")
        raise InputError(f"{path}: line {line}: is no JSON ({reason})") from error


def _conversation(row: Row, place: str, *, number: int, truths: dict[str, Gold]) -> Conversation:
    given = [row.name, row.persona, row.LLM, row.official_pid]
    truth = next((truths[person_key(n)] for n in given if n and person_key(n) in truths), None)
    given.insert(2, truth.name if truth else None)
    names = [name for name in given if name]
    if not names:
        raise InputError(f"{place}: nobody is named (`name`, `persona` or `LLM`)")
    roles = {"user", "assistant", *map(person_key, names)}
    for n, message in enumerate(row.said):
        if person_key(message.role) not in roles:
            raise InputError(
                f"{place}: conversation[{n}]: unknown role {message.role!r} (user, assistant or "
                "the persona's name)"
            )
    messages = [(person_key(message.role) == "user", message.message) for message in row.said]
    sides = {by_interviewer for by_interviewer, _ in messages}
    if len(sides) == 1:
        silent = "the persona" if sides == {True} else "the interviewer (role `user`)"
        raise InputError(f"{place}: has no message of {silent}")
    turns, closing = _turns(messages)
    predicted, unknown = _predicted(row.predicted_symptoms)
    return Conversation(
        row=number,
        person=names[0],
        turns=turns,
        closing=closing,
        k=sum(by_interviewer for by_interviewer, _ in messages),
        gold_total=truth.total if row.gold_total is None and truth else row.gold_total,
        gold_symptoms=truth.symptoms if row.gold_symptoms is None and truth else row.gold_symptoms,
        predicted_total=row.predicted_total,
        predicted_symptoms=predicted,
        unknown_symptoms=unknown,
    )


def _turns(messages: Sequence[tuple[bool, str]]) -> tuple[tuple[Turn, ...], str | None]:
    """Pair the messages; neighbours of one side become one message of several lines."""
    said = [
        (by_interviewer, "\n".join(text for _, text in neighbours))
        for by_interviewer, neighbours in groupby(messages, key=itemgetter(0))
    ]
    if not said[0][0]:
        said.insert(0, (True, ""))
    closing = said.pop()[1] if said[-1][0] else None
    texts = [text for _, text in said]
    turns = (
        Turn(
            number=n,
            question=Question(text=asked, source="recorded"),
            answer=Answer(text=answered),
        )
        for n, (asked, answered) in enumerate(zip(texts[::2], texts[1::2], strict=True), 1)
    )
    return tuple(turns), closing


def _predicted(
    names: Sequence[str] | None,
) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """Return the predicted items and the names that are none, of the first four names."""
    items, unknown = [], []
    for name in (names or ())[:KEY_SYMPTOMS]:
        try:
            items.append(item_number(name))
        except InputError:
            unknown.append(name)
    return None if names is None else _once(items), tuple(unknown)
