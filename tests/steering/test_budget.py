"""The budget orchestrator: silent until the messages are used up."""

import pytest
from speaker import settings_of

from src.records import Answer, Guidance, Question, StopReason, Turn
from src.settings import BudgetSettings
from src.steering.budget import BudgetOrchestrator


def turns_of(count: int) -> list[Turn]:
    return [
        Turn(number=n, question=Question(text="And?", source="model"), answer=Answer(text="Hm."))
        for n in range(1, count + 1)
    ]


def budget(**changes: object) -> BudgetOrchestrator:
    return BudgetOrchestrator(settings_of("orchestrator/budget.yaml", BudgetSettings, **changes))


@pytest.mark.parametrize("finished", [0, 1, 16, 17])
def test_it_says_nothing_while_a_message_is_left(finished: int) -> None:
    assert budget().guide(turns_of(finished)) == Guidance(text="")


@pytest.mark.parametrize(
    ("closing", "last"), [(False, 17), (True, 16)], ids=["18 turns", "17 turns and a closing"]
)
def test_18_messages_are_18_turns_or_17_and_a_closing(closing: bool, last: int) -> None:
    orchestrator = budget(closing=closing)
    assert orchestrator.guide(turns_of(last)).stop is None
    end = orchestrator.guide(turns_of(last + 1))
    assert (end.stop, end.closing) == (StopReason.MAX_MESSAGES, closing)


def test_the_wrap_up_gives_its_reason_and_forbids_questions() -> None:
    text = budget(max_messages=4, closing=True).guide(turns_of(3)).text
    assert "No messages are left" in text
    assert "Ask nothing more" in text


def test_an_interview_past_its_budget_ends_too() -> None:
    assert budget(max_messages=4).guide(turns_of(9)).stop == StopReason.MAX_MESSAGES
