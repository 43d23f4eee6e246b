"""hold(): one interview, from wherever its turns stand to its end."""

from dataclasses import replace

import pytest
from doubles import Answerer, Asker, Rater, cast

from src.errors import PatientFailed, ScorerFailed
from src.interview.loop import hold
from src.interview.roles import Cast
from src.records import Interview, StopReason, Turn, visible


async def held(play: Cast, turns: list[Turn] | None = None) -> tuple[Interview, list[Turn]]:
    kept: list[Turn] = []

    async def keep(turn: Turn) -> None:
        kept.append(turn)

    return await hold(play, turns if turns is not None else [], keep), kept


async def test_a_turn_is_a_question_an_answer_and_what_was_made_of_them() -> None:
    interview, kept = await held(cast(turns=3))
    assert [turn.number for turn in interview.turns] == [1, 2, 3]
    assert kept == list(interview.turns)
    assert interview.turns[1].question.text == "Question 2?"
    assert interview.turns[1].answer.text == "Answer to Question 2?"
    assert interview.turns[1].assessment is not None
    assert interview.stop is StopReason.MAX_MESSAGES
    assert interview.final == interview.turns[-1].assessment
    assert interview.valid


async def test_a_closing_is_never_a_turn_but_counts_as_a_message() -> None:
    interview, kept = await held(cast(turns=3, closing=True))
    assert interview.closing is not None
    assert interview.closing.text == "Thank you."
    assert (len(kept), interview.messages) == (3, 4)
    assert (await held(cast(turns=3)))[0].messages == 3


async def test_without_a_closing_the_interviewer_is_not_asked_for_one() -> None:
    asker = Asker()
    await held(replace(cast(turns=3), interviewer=asker))
    assert asker.asked == 3


async def test_an_interview_goes_on_where_its_turns_end() -> None:
    whole, _ = await held(cast(turns=4))
    resumed, kept = await held(cast(turns=4), list(whole.turns[:2]))
    assert resumed == whole
    assert [turn.number for turn in kept] == [3, 4]


async def test_a_turn_that_cannot_be_scored_stays_unscored_and_the_interview_goes_on() -> None:
    interview, _ = await held(cast(turns=4, scorer=Rater(fails=frozenset({2, 3}))))
    assert [turn.assessment is None for turn in interview.turns] == [False, True, True, False]
    assert [turn.flags for turn in interview.turns] == [(), ("unscored",), ("unscored",), ()]
    assert interview.valid


async def test_three_unscored_turns_in_a_row_end_it_with_every_turn_kept() -> None:
    turns: list[Turn] = []
    with pytest.raises(ScorerFailed, match="3 turns in a row"):
        await held(cast(turns=9, scorer=Rater(fails=frozenset({2, 3, 4}))), turns)
    assert len(turns) == 4


async def test_a_missing_last_assessment_is_asked_for_once_more() -> None:
    scorer = Rater(fails=frozenset({3}))
    interview, _ = await held(cast(turns=3, scorer=scorer))
    assert interview.turns[-1].assessment is None
    assert interview.final is not None
    assert scorer.calls == 4


async def test_only_a_missing_final_assessment_fails_the_sample() -> None:
    with pytest.raises(ScorerFailed):
        await held(cast(turns=3, scorer=Rater(fails=frozenset({3, 4}))))


async def test_scoring_at_the_end_scores_once_and_flags_nothing() -> None:
    scorer = Rater()
    play = replace(cast(turns=5, scorer=scorer), scorer_when="end")
    interview, _ = await held(play)
    assert scorer.calls == 1
    assert all(turn.assessment is None and not turn.flags for turn in interview.turns)
    assert interview.final is not None


async def test_a_patient_that_fails_ends_the_interview_with_what_was_finished() -> None:
    turns: list[Turn] = []
    with pytest.raises(PatientFailed):
        await held(cast(turns=5, patient=Answerer(fails={3: 1})), turns)
    assert len(turns) == 2


async def test_notes_and_tools_are_not_visible() -> None:
    interview, _ = await held(cast(turns=2))
    noted = [turn.model_copy(update={"notes": "CANARY"}) for turn in interview.turns]
    assert "CANARY" not in str(visible(noted))
    assert [message.speaker for message in visible(noted)] == ["interviewer", "patient"] * 2
