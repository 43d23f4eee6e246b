"""What each model sees of a conversation: pure, growing only at its end, roles in strict turns.

Every view matches `system? (user assistant)* user`, as the strictest chat templates demand.
"""

from collections.abc import Sequence
from html import escape

from src.records import Message, Turn, visible

Messages = list[dict[str, str]]


def interviewer_view(system: str, kickoff: str, turns: Sequence[Turn], guidance: str) -> Messages:
    """Return the interviewer's view: its questions are `assistant`, the answers `user`.

    The guidance ends the last user message of this call alone, so that what stands before it is
    the same in every later call (decision 20).
    """
    messages = _alternating(kickoff, turns)
    last = messages[-1]["content"]
    messages[-1] = _message("user", f"{last}\n\n{guidance}".strip())
    return [_message("system", system), *messages]


def interviewer_view_guidance_first(
    system: str, kickoff: str, turns: Sequence[Turn], guidance: str
) -> Messages:
    """Return the view with the guidance before the history, as the paper prints it."""
    return [_message("system", f"{system}\n\n{guidance}".strip()), *_alternating(kickoff, turns)]


def patient_view(turns: Sequence[Turn], question: str, *, system: str | None = None) -> Messages:
    """Return the patient's view: roles flipped, the first question its first user message."""
    messages = [_message("system", system)] if system else []
    for turn in turns:
        messages.append(_message("user", turn.question.text))
        messages.append(_message("assistant", turn.answer.text))
    return [*messages, _message("user", question)]


def scorer_view(rubric: str, turns: Sequence[Turn]) -> Messages:
    """Return the scorer's view: the rubric, and one message with the transcript so far."""
    return [_message("system", rubric), _message("user", transcript(turns))]


def transcript(turns: Sequence[Turn]) -> str:
    """Return what was said in some turns, tagged."""
    return tagged(visible(list(turns)))


def tagged(said: Sequence[Message]) -> str:
    """Return messages, each tagged with its speaker and escaped.

    A message cannot create another: its own angle brackets are no tags any more.
    """
    return "\n".join(
        f"<{message.speaker}>{escape(message.text, quote=False)}</{message.speaker}>"
        for message in said
    )


def _alternating(kickoff: str, turns: Sequence[Turn]) -> Messages:
    messages = [_message("user", kickoff)]
    for turn in turns:
        messages.append(_message("assistant", turn.question.text))
        messages.append(_message("user", turn.answer.text))
    return messages


def _message(role: str, content: str) -> dict[str, str]:
    return {"role": role, "content": content}
