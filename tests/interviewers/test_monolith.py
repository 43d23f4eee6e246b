"""The monolith: one prompt, answers as JSON, and an end of its own choosing but not too early."""

import json

import pytest
from doubles import Answerer
from speaker import Speaker, settings_of

from src.errors import InterviewerFailed, ModelFailed
from src.interview.loop import hold
from src.interview.roles import Cast
from src.interviewers.guard import Guard
from src.interviewers.monolith import SCHEMA, MonolithInterviewer
from src.prompts import fill, load_prompt
from src.records import Answer, Guidance, Question, StopReason, Turn
from src.settings import BudgetSettings, GuardSettings, MonolithSettings
from src.steering.budget import BudgetOrchestrator

GUARD = Guard(settings_of("guard/screening.yaml", GuardSettings))
GOOD, BYE = "How did your week go?", "Thank you for talking with me. Take care!"


def said(message: str, *, done: bool = False) -> str:
    return json.dumps({"message": message, "done": done})


def monolith(speaker: Speaker, *, guard: Guard | None = GUARD) -> MonolithInterviewer:
    values = {"rubric": "1 Sadness: none to unbearable", "max_messages": 18}
    return MonolithInterviewer(
        speaker,
        settings=settings_of("interviewer/monolith.yaml", MonolithSettings),
        system=fill(load_prompt("prompts/monolith.md", frozenset(values)), values),
        kickoff="Begin.",
        guard=guard,
    )


def turns_of(count: int) -> list[Turn]:
    return [
        Turn(
            number=n, question=Question(text=f"And {n}?", source="model"), answer=Answer(text="Hm.")
        )
        for n in range(1, count + 1)
    ]


async def test_rules_rubric_and_budget_stand_in_one_prompt_and_answers_follow_a_schema() -> None:
    speaker = Speaker(said(GOOD))
    question = await monolith(speaker).ask([], Guidance(text=""))
    assert (question.text, question.source, question.stop) == (GOOD, "model", None)
    request = speaker.requests[0]
    assert request.schema == SCHEMA
    assert [message["role"] for message in request.messages] == ["system", "user"]
    assert "1 Sadness: none to unbearable" in request.messages[0]["content"]
    assert "18 messages" in request.messages[0]["content"]


@pytest.mark.parametrize(("finished", "stop"), [(5, None), (6, StopReason.DONE)])
async def test_done_is_ignored_before_turn_six(finished: int, stop: StopReason | None) -> None:
    question = await monolith(Speaker(said(GOOD, done=True), said(BYE, done=True))).ask(
        turns_of(finished), Guidance(text="")
    )
    assert question.stop == stop
    assert question.text == (BYE if stop else GOOD)


async def test_a_goodbye_too_early_is_asked_for_again_as_a_question() -> None:
    speaker = Speaker(said(BYE, done=True), said(GOOD))
    question = await monolith(speaker).ask(turns_of(2), Guidance(text=""))
    assert (question.text, question.stop, question.flags) == (GOOD, None, ("early_end",))
    assert "too early" in speaker.last_lines[1]


async def test_its_own_end_is_the_interviews_and_its_goodbye_the_closing() -> None:
    questions = ["Who lives with you?", "What do you cook?", "How do you sleep?", "Any plans?"]
    questions += ["What made you laugh?", "How is work going?", "Where do you feel at home?"]
    budget = BudgetOrchestrator(settings_of("orchestrator/budget.yaml", BudgetSettings))
    speaker = Speaker(*map(said, questions), said(BYE, done=True))
    cast = Cast(
        subject="persona-07",
        sample=1,
        seed=1,
        interviewer=monolith(speaker),
        patient=Answerer(),
        orchestrator=budget,
    )

    async def keep(turn: Turn) -> None:
        assert turn.question.stop is None

    interview = await hold(cast, [], keep)
    assert interview.stop == StopReason.DONE
    assert interview.closing
    assert (interview.closing.text, interview.messages) == (BYE, 8)


async def test_a_goodbye_that_was_asked_for_is_no_end_of_its_own() -> None:
    guidance = Guidance(text="## Time to end", stop=StopReason.MAX_MESSAGES, closing=True)
    closing = await monolith(Speaker(said(BYE, done=True))).ask(turns_of(17), guidance)
    assert (closing.text, closing.stop) == (BYE, None)


async def test_a_question_in_its_goodbye_gives_way_to_the_safe_closing_and_still_ends_it() -> None:
    closing = await monolith(Speaker(said("Bye! Or what?", done=True))).ask(
        turns_of(9), Guidance(text="")
    )
    assert (closing.source, closing.stop) == ("guard", StopReason.DONE)
    assert "?" not in closing.text


@pytest.mark.parametrize(
    ("broken", "kind"),
    [
        ("How are you?", "unparseable"),
        ('{"message": "How', "unparseable"),
        ('{"message": "How are you?"}', "schema_violated"),
        ('{"message": "How are you?", "done": "no"}', "schema_violated"),
        ('{"message": "", "done": false}', "schema_violated"),
        ('{"message": "a", "message": "b", "done": false}', "schema_violated"),
        ('{"message": "How are you?", "done": false, "why": "mood"}', "schema_violated"),
    ],
)
async def test_what_is_not_the_form_asked_for_is_asked_once_more_and_then_fails(
    broken: str, kind: str
) -> None:
    question = await monolith(Speaker(broken, said(GOOD))).ask([], Guidance(text=""))
    assert (question.text, len(question.calls), question.flags) == (GOOD, 2, ())
    speaker = Speaker(broken, broken, said(GOOD))
    with pytest.raises(InterviewerFailed, match=f"^{kind}: ") as caught:
        await monolith(speaker).ask([], Guidance(text=""))
    assert not caught.value.transport
    assert len(speaker.requests) == 2


async def test_a_failed_model_is_a_failed_interviewer() -> None:
    broken = ModelFailed("gpt: no answer", kind="transport_failed", transport=True)
    with pytest.raises(InterviewerFailed, match="transport_failed: gpt: no answer") as caught:
        await monolith(Speaker(broken)).ask([], Guidance(text=""))
    assert caught.value.transport


async def test_without_a_guard_an_early_goodbye_is_sent_as_it_is() -> None:
    question = await monolith(Speaker(said(BYE, done=True)), guard=None).ask([], Guidance(text=""))
    assert (question.text, question.stop, question.flags) == (BYE, None, ())
