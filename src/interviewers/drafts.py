"""From a model's drafts to a question: checked, written anew once, then a safe line.

The guard repairs messages and never ends an interview (decision 21).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from src.errors import InterviewerFailed, ModelFailed
from src.interview.roles import Turns
from src.interview.views import Messages
from src.records import Call, Guidance, Question, StopReason


@dataclass(frozen=True, kw_only=True)
class Draft:
    """A message that a model wrote, not sent yet."""

    text: str
    calls: tuple[Call, ...]
    stop: StopReason | None = None
    """Set where the model itself ends the interview with it."""
    breaches: tuple[str, ...] = ()
    """What its writer knows to be wrong with it."""


Write = Callable[[str], Awaitable[Draft]]
"""Has a model write; the argument says why its last draft was refused, or is empty."""


class Checks(Protocol):
    """Reads drafts before they are sent."""

    def clean(self, text: str) -> str:
        """Return a draft without what is taken off in silence."""
        ...

    def check(self, text: str, *, turns: Turns, closing: bool) -> tuple[str, ...]:
        """Return the names of what is wrong with a message that would follow these turns."""
        ...

    def objection(self, text: str, breaches: tuple[str, ...]) -> str:
        """Return what is said to a model whose draft may not be sent."""
        ...

    def safe_line(self, turns: Turns, *, closing: bool) -> str:
        """Return what is said in place of a message that was unfit twice."""
        ...


async def write_guarded(
    write: Write, guard: Checks | None, *, turns: Turns, guidance: Guidance
) -> Question:
    """Return what a model writes; where the guard objects, what it writes then, or a safe line.

    The question's flags name every breach. Raises `InterviewerFailed` where the model fails.
    """
    calls: tuple[Call, ...] = ()
    flags: tuple[str, ...] = ()
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
        found: tuple[str, ...] = ()
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
