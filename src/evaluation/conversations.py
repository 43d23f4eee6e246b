"""Read recorded conversations: official interaction files and research logs.

Two forms of file are read: a JSON list, as the organisers ask for, and JSON lines, one
conversation a row. The reply's role is `assistant` (2026) or the persona's first name (2025).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from src.clinical.bdi import HIGHEST, item_number
from src.errors import InputError
from src.evaluation.metrics import Total
from src.prompts import read_text
from src.records import Answer, Item, Question, Record, Turn

Row = dict[str, Any]
"""One JSON object; each value is checked where it is read."""


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
    """Names in the recorded prediction that are no item of the BDI-II; they were kept out."""


class Gold(Record):
    """The truth about one persona."""

    name: str | None
    total: Total
    symptoms: tuple[Item, ...] | None


def read_conversations(
    path: str | Path, gold: str | Path | None = None
) -> tuple[Conversation, ...]:
    """Return a file's conversations; anything malformed is an `InputError` with its line.

    `gold` names a file of truths by official number (`pid`); it fills in for the rows that carry
    none. A persona it does not list stays without truth.
    """
    truths = read_gold(gold) if gold is not None else {}
    return tuple(
        _conversation(row, place, number=number, truths=truths)
        for number, (place, row) in enumerate(_rows(path), 1)
    )


def read_gold(path: str | Path) -> dict[str, Gold]:
    """Return the truths by official number and, in lower case, by name."""
    truths: dict[str, Gold] = {}
    for place, row in _rows(path):
        total = _total(row, ("bdi_total", "gold_bdi"), place)
        if not isinstance(row.get("pid"), int | str) or total is None:
            raise InputError(f"{place}: a truth needs `pid` and `bdi_total`")
        name = row.get("name")
        truth = Gold(
            name=_text(name) if name is not None else None,
            total=total,
            symptoms=_gold_symptoms(row, ("key_symptoms", "gold_key_symptoms"), place),
        )
        for key in {_key(row["pid"]), *([_key(name)] if name is not None else [])}:
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


def _rows(path: str | Path) -> Iterator[tuple[str, Row]]:
    """Yield each object of a JSON list or of JSON lines, with its file and line."""
    text = read_text(path).removeprefix("\ufeff")
    found = _listed(text, path) if text.lstrip().startswith("[") else _lines(text, path)
    empty = True
    for line, row in found:
        empty = False
        place = f"{path}: line {line}"
        if not isinstance(row, dict):
            raise InputError(f"{place}: a row is a JSON object, not {_kind(row)}")
        yield place, row
    if empty:
        raise InputError(f"{path}: the file is empty")


def _lines(text: str, path: str | Path) -> Iterator[tuple[int, object]]:
    # Not splitlines(): JSON strings may hold the other line separators of Unicode as they are.
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield number, _parsed(line, path, first_line=number)


def _listed(text: str, path: str | Path) -> Iterator[tuple[int, object]]:
    _parsed(text, path, first_line=1)
    decoder = json.JSONDecoder()
    position, line = text.index("[") + 1, 1
    counted = 0
    while True:
        while text[position] in " \t\r\n,":
            position += 1
        line += text.count("\n", counted, position)
        counted = position
        if text[position] == "]":
            return
        row, position = decoder.raw_decode(text, position)
        yield line, row


def _parsed(text: str, path: str | Path, *, first_line: int) -> object:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = first_line + error.lineno - 1
        raise InputError(f"{path}: line {line}: is no JSON ({error.msg})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: line {first_line}: is no JSON that can be read") from error


def _conversation(row: Row, place: str, *, number: int, truths: dict[str, Gold]) -> Conversation:
    key = _given(row, ("conversation", "turns"))
    if key is None:
        raise InputError(f"{place}: holds no conversation (`conversation` or `turns`)")
    names = [row[key] for key in ("name", "persona") if row.get(key) is not None]
    numbers = [row[key] for key in ("LLM", "official_pid") if row.get(key) is not None]
    truth = next((truths[_key(n)] for n in numbers + names if _key(n) in truths), None)
    if truth is not None and truth.name is not None:
        names.append(truth.name)
    if not names and row.get("LLM") is None:
        raise InputError(f"{place}: nobody is named (`name`, `persona` or `LLM`)")
    names.extend(numbers)
    messages = list(_messages(row[key], f"{place}: {key}", frozenset(map(_key, names))))
    turns, closing = _turns(messages)
    own_total = _total(row, ("gold_bdi", "bdi_total"), place)
    own_symptoms = _gold_symptoms(row, ("gold_key_symptoms",), place)
    predicted, unknown = _predicted_symptoms(row, place)
    return Conversation(
        row=number,
        person=_text(names[0]),
        turns=turns,
        closing=closing,
        k=sum(by_interviewer for by_interviewer, _ in messages),
        gold_total=truth.total if own_total is None and truth else own_total,
        gold_symptoms=truth.symptoms if own_symptoms is None and truth else own_symptoms,
        predicted_total=_total(row, ("pred_bdi", "pred_total"), place),
        predicted_symptoms=predicted,
        unknown_symptoms=unknown,
    )


def _messages(messages: object, place: str, persona: frozenset[str]) -> Iterator[tuple[bool, str]]:
    """Yield (is it the interviewer's, text) of each recorded message."""
    if not isinstance(messages, list) or not messages:
        raise InputError(f"{place}: is no list of messages, or an empty one")
    sides = set()
    for index, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("message"), str):
            raise InputError(f"{place}[{index}]: a message needs a `role` and a `message` text")
        role = str(message.get("role"))
        if role not in {"user", "assistant"} and _key(role) not in persona:
            raise InputError(
                f"{place}[{index}]: unknown role {role!r} (user, assistant or the persona's name)"
            )
        sides.add(role == "user")
        yield role == "user", _text(message["message"])
    if len(sides) == 1:
        silent = "the persona" if sides == {True} else "the interviewer (role `user`)"
        raise InputError(f"{place}: has no message of {silent}")


def _turns(messages: Sequence[tuple[bool, str]]) -> tuple[tuple[Turn, ...], str | None]:
    """Pair the messages; neighbours of one side become one message of several lines."""
    pairs: list[tuple[list[str], list[str]]] = []
    for by_interviewer, text in messages:
        if not pairs or (by_interviewer and pairs[-1][1]):
            pairs.append(([], []))
        pairs[-1][0 if by_interviewer else 1].append(text)
    closing = "\n".join(pairs.pop()[0]) if not pairs[-1][1] else None
    turns = (
        Turn(
            number=number,
            question=Question(text="\n".join(asked), source="recorded"),
            answer=Answer(text="\n".join(answered)),
        )
        for number, (asked, answered) in enumerate(pairs, 1)
    )
    return tuple(turns), closing


def _given(row: Row, keys: Sequence[str]) -> str | None:
    """Return the first of some keys that holds anything."""
    return next((key for key in keys if row.get(key) is not None), None)


def _total(row: Row, keys: Sequence[str], place: str) -> int | None:
    key = _given(row, keys)
    value = row[key] if key else None
    if key and (type(value) is not int or not 0 <= value <= HIGHEST):
        raise InputError(f"{place}: `{key}` is a whole number from 0 to 63, not {value!r}")
    return value


def _names(row: Row, keys: Sequence[str], place: str) -> list[object] | None:
    key = _given(row, keys)
    if key and not isinstance(row[key], list):
        raise InputError(f"{place}: `{key}` is a list of names, not {_kind(row[key])}")
    return list(row[key]) if key else None


def _gold_symptoms(row: Row, keys: Sequence[str], place: str) -> tuple[int, ...] | None:
    """Return the true key symptoms; an unknown name is an error, since no figure would hold."""
    names = _names(row, keys, place)
    if names is None:
        return None
    try:
        return tuple(dict.fromkeys(item_number(str(name)) for name in names))
    except InputError as error:
        raise InputError(f"{place}: {error}") from error


def _predicted_symptoms(row: Row, place: str) -> tuple[tuple[int, ...] | None, tuple[str, ...]]:
    """Return the predicted items and the names that are none."""
    names = _names(row, ("pred_key_symptoms",), place)
    if names is None:
        return None, ()
    items: dict[int, None] = {}
    unknown = []
    for name in names:
        try:
            items[item_number(str(name))] = None
        except InputError:
            unknown.append(_text(name))
    return tuple(items), tuple(unknown)


def _text(value: object) -> str:
    """Return a text that can be stored: half an emoji, where a log was cut, becomes a mark."""
    return str(value).encode(errors="replace").decode()


def _key(value: object) -> str:
    return str(value).strip().lower()


def _kind(value: object) -> str:
    return {"list": "a list", "str": "a text", "NoneType": "null", "bool": "true or false"}.get(
        type(value).__name__, "a number"
    )
