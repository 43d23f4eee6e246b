"""From a model's drafts to a question: checked, written anew once, then a safe line.

The guard repairs messages and never ends an interview (decision 21).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from src.errors import InterviewerFailed, ModelFailed
from src.interview.roles import Turns
from src.interview.views import Messages
from src.interviewers.guard import Breach, Guard
from src.records import Call, Guidance, Question, StopReason


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A message that a model wrote, not sent yet."""

    text: str
    calls: tuple[Call, ...]
    stop: StopReason | None = None
    """Set where the model itself ends the interview with it."""
    breaches: tuple[Breach, ...] = ()
    """What its writer knows to be wrong with it."""


Write = Callable[[str], Awaitable[Draft]]
"""Has a model write; the argument says why its last draft was refused, or is empty."""


async def write_guarded(
    write: Write, guard: Guard | None, *, turns: Turns, guidance: Guidance
) -> Question:
    """Return what a model writes; where the guard objects, what it writes then, or a safe line.

    The question's flags name every breach. Raises `InterviewerFailed` where the model fails.
    """
    calls: tuple[Call, ...] = ()
    flags: tuple[Breach, ...] = ()
    objection = ""
    for again in (False, True):
        try:
            draft = await write(objection)
        except ModelFailed as error:
            if again and not error.transport:
                break  # it has nothing better to say
            # nothing is known of a draft that never came: resuming asks this turn anew
            text = f"{error.kind}: {error}"
            raise InterviewerFailed(text, transport=error.transport) from error
        calls += draft.calls
        text = guard.clean(draft.text) if guard else draft.text.strip()
        closing = guidance.stop is not None or draft.stop is not None
        found: tuple[Breach, ...] = ()
        if guard:
            found = draft.breaches + guard.check(text, turns=turns, closing=closing)
            flags = tuple(dict.fromkeys(flags + found))
        if not guard or not found:
            focus = () if closing else guidance.focus
            return Question(
                text=text, source="model", focus=focus, stop=draft.stop, calls=calls, flags=flags
            )
        objection = guard.objection(draft.text, tuple(dict.fromkeys(found)))
    assert guard, "without a guard the first draft is sent"
    text = guard.safe_line(turns, closing=closing)
    return Question(text=text, source="guard", stop=draft.stop, calls=calls, flags=flags)


def with_objection(messages: Messages, objection: str) -> Messages:
    """Return a prompt whose last message ends with why the last draft was refused."""
    last = f"{messages[-1]['content']}\n\n{objection}".strip()
    return [*messages[:-1], {"role": "user", "content": last}] if objection else messages
