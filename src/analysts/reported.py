"""A report by schema: asked for, read strictly, and asked for again where it cannot be used.

The schema is made from the record, so that fields are generated in the order in which they stand
there; whether a server kept to it is seen in the order of the raw keys.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from pydantic import ValidationError

from src.clinical.icd11 import Reference, base
from src.errors import InputError, ModelFailed
from src.llm.caller import Asking, Request
from src.llm.client import Message
from src.llm.structured import Schema, closed_object, strict_json, strict_object
from src.prompts import fill, load_prompt_lines, refusals
from src.records import Call, Record
from src.reports import Candidate, DiagnosticReport, DirectReport, Hypothesis, Named
from src.settings import BoundsSettings

REQUESTS = "prompts/diagnosis_requests.yaml"
"""What is asked after the transcript."""
PLACES = {"report": frozenset({"language"}), "repair": frozenset({"reason"})}
KEPT = ("type", "enum", "minimum", "maximum", "maxItems")
"""Of a record's own schema; titles and the docstrings of classes are not for models."""
FORMS = {"name": "^[A-Za-z][A-Za-z ]{{0,{more}}}$", "code": "^[0-9][A-Z][0-9][0-9A-Z]$"}
"""Of what may not be empty, where a schema has bounds: plain letters, and a base code."""
REASONS_AT_MOST = 6
"""So many faults are named at once; the rest would be more of the same."""

Report = TypeVar("Report", DiagnosticReport, DirectReport)


def report_schema(report: type[Record], bounds: BoundsSettings | None = None) -> Schema:
    """Return a record's closed schema, its fields in the record's order."""
    whole = report.model_json_schema()
    schema = _closed(whole, whole.get("$defs", {}))
    return _bounded(schema, bounds) if bounds else schema


def _bounded(schema: Schema, bounds: BoundsSettings, name: str = "") -> Schema:
    """Return a schema that lets no text and no list go on, nor a rank beyond its list."""
    match schema["type"]:
        case "object":
            fields = schema["properties"].items()
            return closed_object({key: _bounded(field, bounds, key) for key, field in fields})
        case "array":
            most = min(bounds.entries, schema.get("maxItems", bounds.entries))
            entries = _bounded(schema["items"], bounds.model_copy(update={"entries": most}))
            return schema | {"items": entries, "maxItems": most}
        case "integer":
            return {"type": "integer", "enum": [*range(1, bounds.entries + 1)]}
        case "string" if name in FORMS:  # no length beside a pattern: one of them gets lost
            return schema | {"pattern": FORMS[name].format(more=bounds.text - 1)}
        case "string" if "enum" not in schema:
            return schema | {"maxLength": bounds.text}
        case _:
            return schema


def _closed(node: Mapping[str, Any], named: Mapping[str, Any]) -> Schema:
    if "$ref" in node:
        node = named[node["$ref"].rpartition("/")[2]]
    if node["type"] == "object":
        return closed_object({k: _closed(field, named) for k, field in node["properties"].items()})
    found = {key: node[key] for key in KEPT if key in node}
    return found | ({"items": _closed(node["items"], named)} if "items" in node else {})


def read_report(text: str, report: type[Report]) -> Report:
    """Return the report that a model's answer holds; nothing is salvaged.

    Raises `ModelFailed`, kind `unparseable` or `schema_violated`, with a reason that a model can
    act on.
    """
    _refuse_misshapen(strict_json(text), report_schema(report), "the answer")
    try:
        found: Report = report.model_validate_json(text, strict=True)
    except ValidationError as error:
        raise _violated(refusals(error)) from error
    if wrong := [*_misnamed(found)]:
        raise _violated(wrong)
    return found


def _refuse_misshapen(value: object, schema: Schema, place: str) -> None:
    """Raise `ModelFailed` for other keys than the schema's, another order, or too many entries."""
    if schema["type"] == "array":
        entries = value if isinstance(value, list) else []
        if len(entries) > schema.get("maxItems", len(entries)):
            raise _violated([f"{place}: at most {schema['maxItems']} entries, not {len(entries)}"])
        for number, one in enumerate(entries):
            _refuse_misshapen(one, schema["items"], f"{place}[{number}]")
    if schema["type"] != "object":
        return
    fields = schema["properties"]
    found = strict_object(value, frozenset(fields), what=place)
    if list(found) != list(fields):
        raise _violated([f"{place}: the fields have to come in this order: {', '.join(fields)}"])
    for name, field in fields.items():
        _refuse_misshapen(found[name], field, name)


def _misnamed(report: DiagnosticReport | DirectReport) -> Iterator[str]:
    """Yield what is wrong with ranks and codes."""
    lists: dict[str, Sequence[Candidate | Hypothesis]] = {
        "ranked_differential": getattr(report, "ranked_differential", ()),
        "final_hypotheses": report.final_hypotheses,
    }
    for name, entries in lists.items():
        if [entry.rank for entry in entries] != [*range(1, len(entries) + 1)]:
            yield f"{name}: the ranks have to be 1, 2, 3 and so on, in this order"
        if any(not base(entry.code) or not entry.name.strip() for entry in entries):
            yield f"{name}: an entry has no code or no name"
    codes = [base(hypothesis.code) for hypothesis in report.final_hypotheses]
    if doubled := sorted({code for code in codes if codes.count(code) > 1}):
        yield f"final_hypotheses: the code {doubled[0]} stands there more than once"


def _violated(lines: Sequence[str]) -> ModelFailed:
    return ModelFailed("; ".join(lines[:REASONS_AT_MOST]), kind="schema_violated")


def named(hypotheses: Sequence[Hypothesis], reference: Reference) -> tuple[Named, ...]:
    """Return hypotheses as they are counted; one with an unknown code is kept and flagged."""
    return tuple(_named(hypothesis, reference) for hypothesis in hypotheses)


def _named(hypothesis: Hypothesis, reference: Reference) -> Named:
    known, title = True, hypothesis.name
    try:
        title = reference.title(hypothesis.code)
    except InputError:
        known = False
    return Named(
        rank=hypothesis.rank,
        base=base(hypothesis.code),
        raw=hypothesis.code,
        title=title,
        family=reference.family_of(hypothesis.code),
        known=known,
        confidence=hypothesis.confidence,
    )


def report_request(language: str) -> str:
    """Return the message that asks for the report."""
    return fill(load_prompt_lines(REQUESTS, PLACES)["report"], {"language": language})


async def reported(
    asking: Asking,
    request: Request,
    report: type[Report],
    *,
    repairs: int,
    bounds: BoundsSettings | None,
) -> tuple[Report, tuple[Call, ...]]:
    """Return a model's report and the calls it took; ask again, with the reason, where it errs.

    Raises `ModelFailed` where no answer can be used.
    """
    repair = load_prompt_lines(REQUESTS, PLACES)["repair"]
    request = replace(request, schema=report_schema(report, bounds))
    calls: tuple[Call, ...] = ()
    for left in range(repairs, -1, -1):
        reply = await asking.ask(request)
        calls += reply.calls
        try:
            return read_report(reply.text, report), calls
        except ModelFailed as error:
            if not left:
                raise
            again: tuple[Message, ...] = (
                {"role": "assistant", "content": reply.text},
                {"role": "user", "content": fill(repair, {"reason": str(error)})},
            )
            request = replace(request, messages=(*request.messages, *again))
    raise AssertionError("the last answer is returned or refused")
