"""The monolith: interviewing rules, rubric and budget in one prompt, and the end its own choice."""

from functools import partial

from pydantic import Field, StrictBool, ValidationError

from src.errors import ModelFailed
from src.interview.roles import Turns
from src.interview.views import interviewer_view
from src.interviewers.drafts import Draft, with_objection, write_guarded
from src.interviewers.guard import Breach, Guard
from src.llm.caller import Asking, Request
from src.llm.structured import closed_object, strict_json, strict_object
from src.records import Call, Guidance, Question, Record, StopReason
from src.settings import MonolithSettings

SCHEMA = closed_object({"message": {"type": "string"}, "done": {"type": "boolean"}})
FIELDS = frozenset({"message", "done"})
TRIES = 2


class Said(Record):
    """What the model answers."""

    message: str = Field(min_length=1, strict=True)
    done: StrictBool


class MonolithInterviewer:
    """Section 3.1: one model that interviews by itself, scored once at the end."""

    def __init__(
        self,
        asking: Asking,
        *,
        settings: MonolithSettings,
        system: str,
        kickoff: str,
        guard: Guard | None,
    ) -> None:
        """Take the prompts; rubric and budget stand in the first."""
        self._asking, self._settings, self._guard = asking, settings, guard
        self._view = partial(interviewer_view, system, kickoff)

    async def ask(self, turns: Turns, guidance: Guidance) -> Question:
        """Return the next question, or the goodbye where guidance or the model says stop."""

        async def write(objection: str) -> Draft:
            request = Request(
                messages=with_objection(self._view(turns, guidance.text), objection),
                settings=self._settings.call,
                turn=len(turns) + 1,
                schema=SCHEMA,
            )
            said, calls = await self._said(request)
            wants_end = said.done and guidance.stop is None
            ends = wants_end and len(turns) >= self._settings.done_from
            leaves = wants_end and not ends and "?" not in said.message
            early: tuple[Breach, ...] = ("early_end",) if leaves else ()
            stop = StopReason.DONE if ends else None
            return Draft(text=said.message, calls=calls, stop=stop, breaches=early)

        return await write_guarded(write, self._guard, turns=turns, guidance=guidance)

    async def _said(self, request: Request) -> tuple[Said, tuple[Call, ...]]:
        """Return an answer in the form asked for, asking once more where it is in another."""
        calls: tuple[Call, ...] = ()
        kind = ""
        for _ in range(TRIES):
            reply = await self._asking.ask(request)
            calls += reply.calls
            try:
                said = strict_object(strict_json(reply.text), FIELDS, what="the answer")
                return Said.model_validate(said), calls
            except ModelFailed as error:
                kind = error.kind
            except ValidationError:
                kind = "schema_violated"
        raise ModelFailed("the interviewer's answer is not {message, done}", kind=kind)
