"""The only place where a conversation advances."""

import asyncio
from collections.abc import Awaitable, Callable

from src.errors import ScorerFailed
from src.interview.roles import Cast
from src.records import Answer, Assessment, Guidance, Interview, Question, StopReason, Turn

UNSCORED = "unscored"
SENSITIVE = "sensitive"
"""Self-harm came up by itself: shown on turn, result and summary."""
UNSCORED_IN_A_ROW = 3
"""So many turns without an assessment in a row end an interview: the scorer is not working."""


async def hold(cast: Cast, turns: list[Turn], keep: Callable[[Turn], Awaitable[None]]) -> Interview:
    """Hold one interview from wherever `turns` stands to its end, keeping every finished turn.

    `turns` grows in place, so that whoever catches an `InterviewError` has what was finished.
    """
    while True:
        await asyncio.sleep(0)  # a player that never waits must not keep a signal waiting
        guidance = cast.orchestrator.guide(turns)
        ended = guidance.stop and not guidance.closing
        question = None if ended else await cast.interviewer.ask(turns, guidance)
        if stop := _stop(guidance, question):
            break
        assert question is not None
        answer = await cast.patient.reply(turns, question)
        turn, silence = await _scored(cast, turns, question, answer)
        turns.append(turn)
        await keep(turn)
        if silence and _silent(turns):
            text = f"no assessment on {UNSCORED_IN_A_ROW} turns in a row, at last: {silence}"
            raise ScorerFailed(text, transport=silence.transport)
    return Interview(
        subject=cast.subject,
        sample=cast.sample,
        seed=cast.seed,
        turns=tuple(turns),
        closing=question,
        stop=stop,
        final=await _final(cast, turns),
    )


def _stop(guidance: Guidance, question: Question | None) -> StopReason | None:
    """Return why the interview ends, if it does: someone's safety before everything else."""
    own = question.stop if question else None
    return own if own == StopReason.SAFETY else guidance.stop or own


async def _scored(
    cast: Cast, turns: list[Turn], question: Question, answer: Answer
) -> tuple[Turn, ScorerFailed | None]:
    """Return the finished turn; where scoring fails it stays unscored, which is not zero."""
    flags = tuple(flag for flag in answer.flags if flag == SENSITIVE)
    turn = Turn(number=len(turns) + 1, question=question, answer=answer, flags=flags)
    if cast.scorer is None or cast.scorer_when == "end":
        return turn, None
    try:
        assessment = await cast.scorer.score([*turns, turn])
    except ScorerFailed as error:
        return turn.model_copy(update={"flags": (*flags, UNSCORED)}), error
    return turn.model_copy(update={"assessment": assessment}), None


def _silent(turns: list[Turn]) -> bool:
    last = [UNSCORED in turn.flags for turn in turns[-UNSCORED_IN_A_ROW:]]
    return last == [True] * UNSCORED_IN_A_ROW


async def _final(cast: Cast, turns: list[Turn]) -> Assessment | None:
    """Return the last turn's assessment, or ask once more where there is none (decision 16)."""
    if cast.scorer is None or not turns:
        return None
    return turns[-1].assessment or await cast.scorer.score(turns)
