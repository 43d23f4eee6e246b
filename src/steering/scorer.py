"""The scorer with a model: the 21 items from what the persona said, as JSON by schema."""

import re
import string
from dataclasses import dataclass
from html import unescape
from typing import Annotated

from pydantic import Field, model_validator

from src.errors import ModelFailed, ScorerFailed
from src.interview.roles import Turns
from src.interview.views import Messages, scorer_view
from src.llm.caller import Asking, Reply, Request
from src.prompts import fill, load_prompt, load_yaml
from src.records import Assessment, Call, Record
from src.settings import BDISettings
from src.steering.sheet import FIELDS, assessment_schema, parse_assessment

TELLING_WORDS = 4
"""Words in a row that are no coincidence in the interviewer's lines."""
_FRAGMENTS = re.compile(r"…|\.{3}|[\"“”„«»:\n]")
_WORD = re.compile(r"\w+")

Line = Annotated[str, Field(min_length=1)]


class Levels(Record):
    """One item of the rubric."""

    levels: tuple[Line, Line, Line, Line]
    note: Line | None = None


class Scale(Record):
    """What each level of each item means, and the rules for all of them (Appendix D)."""

    rules: dict[str, Line]
    items: dict[str, Levels]

    @model_validator(mode="after")
    def _all_items_in_order(self) -> "Scale":
        if tuple(self.items) != FIELDS:
            raise ValueError(f"items are not the 21 in order: {', '.join(FIELDS)}")
        return self


def rubric_text(path: str) -> str:
    """Return the rubric as it stands in prompts: the rules, then the items with their levels."""
    rubric = load_yaml(path, Scale)
    lines = [f"- {' '.join(rule.split())}" for rule in rubric.rules.values()]
    for number, (field, item) in enumerate(rubric.items.items(), 1):
        levels = "; ".join(f"{level} = {text}" for level, text in enumerate(item.levels))
        lines.append(f"{number}. {field}: {levels}.{f' {item.note}' if item.note else ''}")
    return "\n".join(lines)


@dataclass(frozen=True, kw_only=True)
class ScorerTexts:
    """What every interview's scorer reads; loaded once."""

    system: str
    repair: string.Template


def load_texts(settings: BDISettings) -> ScorerTexts:
    """Read prompt, rubric and repair; a malformed one is an `InputError`."""
    prompt = load_prompt(settings.prompt.path, frozenset({"rubric"}))
    return ScorerTexts(
        system=fill(prompt, {"rubric": rubric_text(settings.rubric.path)}),
        repair=load_prompt(settings.repair.path, frozenset({"reason"})),
    )


class BDIScorer:
    """Asks a model to rate the transcript so far, and once more, with the reason, where it errs."""

    def __init__(self, asking: Asking, *, settings: BDISettings, texts: ScorerTexts) -> None:
        self._asking, self._settings, self._texts = asking, settings, texts
        self._schema = assessment_schema(settings.order, settings.evidence_max)

    async def score(self, turns: Turns) -> Assessment:
        """Rate the 21 items; raise `ScorerFailed` where no answer can be used."""
        messages = scorer_view(self._texts.system, turns)
        calls: list[Call] = []
        for repairs in range(self._settings.repairs, -1, -1):
            reply = await self._ask(messages, turn=len(turns))
            calls += reply.calls
            try:
                found = parse_assessment(reply.text)
                refuse_borrowed(found, turns)
            except ModelFailed as error:
                if not repairs:
                    raise ScorerFailed(f"{error.kind}: {error}") from error
                reason = fill(self._texts.repair, {"reason": str(error)})
                messages.append({"role": "assistant", "content": reply.text})
                messages.append({"role": "user", "content": reason})
            else:
                return found.model_copy(update={"calls": tuple(calls)})
        raise AssertionError("the last answer is returned or refused")

    async def _ask(self, messages: Messages, *, turn: int) -> Reply:
        request = Request(
            messages=tuple(messages), settings=self._settings.call, turn=turn, schema=self._schema
        )
        try:
            return await self._asking.ask(request)
        except ModelFailed as error:
            text = f"{error.kind}: {error}"
            raise ScorerFailed(text, transport=error.transport) from error


def refuse_borrowed(assessment: Assessment, turns: Turns) -> None:
    """Raise `ModelFailed` where an assessed item rests on the interviewer's words alone.

    Appendix D: only what the persona said counts, and a paraphrase of it will do. So evidence is
    refused only if none of its fragments stands in the persona's messages and one of several words
    stands in the interviewer's.
    """
    persona = "".join(_words(turn.answer.text) for turn in turns)
    interviewer = "".join(_words(turn.question.text) for turn in turns)
    borrowed = []
    for item in assessment.assessed:
        parts = _FRAGMENTS.split(unescape(assessment[item].evidence))
        found = [words for part in parts if (words := _words(part)).strip()]
        telling = [words for words in found if len(words.split()) >= TELLING_WORDS]
        own = any(words in persona for words in found)
        if not own and any(words in interviewer for words in telling):
            borrowed.append(FIELDS[item - 1])
    if borrowed:
        raise ModelFailed(
            f"{', '.join(borrowed)}: the evidence is what the interviewer said; rate only what "
            "the persona said, or give score 0 with confidence 0",
            kind="schema_violated",
        )


def _words(text: str) -> str:
    """Return lower-case words between single blanks: only whole words of one message are found."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "
