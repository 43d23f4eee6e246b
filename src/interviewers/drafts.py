"""From a model's drafts to a question: checked, written anew once, then a safe line.

The guard repairs messages and never ends an interview (decision 21).
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from src.errors import InterviewerFailed, ModelFailed
from src.interview.roles import Turns
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
    try:
        draft = await write("")
    except ModelFailed as error:
        raise _failed(error) from error
    if guard is None:
        return _question(replace(draft, text=draft.text.strip()), guidance)
    breaches = _checked(guard, draft, turns=turns, guidance=guidance)
    if not breaches:
        return _question(replace(draft, text=guard.clean(draft.text)), guidance)
    left, flags = breaches, breaches
    try:
        second = await write(guard.objection(draft.text, breaches))
    except ModelFailed as error:
        if error.transport:  # nothing is known of a second draft: resuming asks this turn anew
            raise _failed(error) from error
    else:
        left = _checked(guard, second, turns=turns, guidance=guidance)
        flags = tuple(dict.fromkeys(breaches + left))
        draft = replace(second, text=guard.clean(second.text), calls=draft.calls + second.calls)
    if left:
        closing = _closes(draft, guidance)
        draft = replace(draft, text=guard.safe_line(turns, closing=closing))
        return _question(draft, Guidance(text=""), source="guard", flags=flags)
    return _question(draft, guidance, flags=flags)


def _checked(guard: Guard, draft: Draft, *, turns: Turns, guidance: Guidance) -> tuple[Breach, ...]:
    closing = _closes(draft, guidance)
    found = guard.check(guard.clean(draft.text), turns=turns, closing=closing)
    return tuple(dict.fromkeys(draft.breaches + found))


def _question(
    draft: Draft, guidance: Guidance, *, source: str = "model", flags: tuple[str, ...] = ()
) -> Question:
    return Question(
        text=draft.text,
        source=source,
        focus=() if _closes(draft, guidance) else guidance.focus,
        stop=draft.stop,
        calls=draft.calls,
        flags=flags,
    )


def _closes(draft: Draft, guidance: Guidance) -> bool:
    return guidance.stop is not None or draft.stop is not None


def _failed(error: ModelFailed) -> InterviewerFailed:
    return InterviewerFailed(f"{error.kind}: {error}", transport=error.transport)
