"""The monolith: interviewing rules, rubric and budget in one prompt, and the end its own choice."""

from pydantic import Field, StrictBool, ValidationError

from src.errors import ModelFailed
from src.interview.roles import Turns
from src.interview.views import interviewer_view
from src.interviewers.drafts import Draft, write_guarded
from src.interviewers.guard import Breach, Guard
from src.interviewers.guided import with_objection
from src.llm.caller import Asking, Reply, Request
from src.prompts import fill, load_prompt
from src.records import Guidance, Question, Record, StopReason
from src.settings import MonolithSettings

SCHEMA = {
    "type": "object",
    "properties": {"message": {"type": "string"}, "done": {"type": "boolean"}},
    "required": ["message", "done"],
    "additionalProperties": False,
}
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
        guard: Guard | None,
        rubric: str,
        max_messages: int,
    ) -> None:
        """Fill the prompt with the scorer's rubric and the budget in messages."""
        self._asking, self._settings, self._guard = asking, settings, guard
        prompt = load_prompt(settings.prompt.path, frozenset({"rubric", "max_messages"}))
        self._system = fill(prompt, {"rubric": rubric, "max_messages": max_messages})
        self._kickoff = fill(load_prompt(settings.kickoff.path), {})

    async def ask(self, turns: Turns, guidance: Guidance) -> Question:
        """Return the next question, or the goodbye where guidance or the model says stop."""

        async def write(objection: str) -> Draft:
            messages = interviewer_view(self._system, self._kickoff, turns, guidance.text)
            request = Request(
                messages=with_objection(messages, objection),
                settings=self._settings.call,
                turn=len(turns) + 1,
                schema=SCHEMA,
            )
            said, reply = await self._said(request)
            wants_end = said.done and guidance.stop is None
            ends = wants_end and len(turns) >= self._settings.done_from
            early: tuple[Breach, ...] = ()
            if wants_end and not ends and "?" not in said.message:
                early = ("early_end",)
            stop = StopReason.DONE if ends else None
            return Draft(text=said.message, calls=reply.calls, stop=stop, breaches=early)

        return await write_guarded(write, self._guard, turns=turns, guidance=guidance)

    async def _said(self, request: Request) -> tuple[Said, Reply]:
        """Return an answer in the form asked for, asking once more where it is in another."""
        replies: list[Reply] = []
        for _ in range(TRIES):
            reply = await self._asking.ask(request)
            replies.append(reply)
            try:
                said = Said.model_validate_json(reply.text)
            except ValidationError as error:
                failure = _unreadable(error)
                continue
            calls = tuple(call for one in replies for call in one.calls)
            return said, Reply(text=reply.text, truncated=reply.truncated, calls=calls)
        raise failure


def _unreadable(error: ValidationError) -> ModelFailed:
    broken = error.errors(include_url=False)[0]["type"] == "json_invalid"
    return ModelFailed(
        "the interviewer's answer is not {message, done}",
        kind="unparseable" if broken else "schema_violated",
    )
