"""What the guard did is counted by concern, and what was repaired apart from what was replaced."""

from src.evaluation.guarded import ANY, guard_sheet, guarded
from src.evaluation.tool_sheets import Held
from src.records import Answer, Interview, Question, SafetyEvent, StopReason, Turn

CONCERNS = frozenset({"diagnosis", "tone", "unanswered_crisis"})


def interview(*questions: Question) -> Interview:
    """Return an interview of these questions, the last of them its closing."""
    turns = tuple(
        Turn(number=n, question=question, answer=Answer(text="Well."))
        for n, question in enumerate(questions[:-1], 1)
    )
    stop = StopReason.MAX_MESSAGES
    return Interview(
        subject="case-001", sample=1, seed=1, turns=turns, closing=questions[-1], stop=stop
    )


def asked(*flags: str, source: str = "model", event: SafetyEvent | None = None) -> Question:
    return Question.model_validate(
        {"text": "And then?", "source": source, "flags": flags, "event": event}
    )


HELD = interview(
    asked(source="fixed"),
    asked("diagnosis"),
    asked("diagnosis", "tone", "rounds_used_up"),
    asked("diagnosis", source="guard"),
    asked("rounds_used_up"),
    asked(
        "unanswered_crisis",
        source="fixed",
        event=SafetyEvent(source="model", kind="self_harm", reason="said so"),
    ),
)


def test_refused_repaired_stopped_and_replaced_messages_are_counted_by_concern() -> None:
    rows = [tuple(row.model_dump().values()) for row in guarded([HELD, HELD], CONCERNS)]
    assert rows == [
        (ANY, 8, 4, 2, 2),
        ("diagnosis", 6, 4, 0, 2),
        ("tone", 2, 2, 0, 0),
        ("unanswered_crisis", 2, 0, 2, 0),
    ]


def test_a_run_in_which_nothing_was_refused_has_no_row() -> None:
    quiet = interview(asked(source="fixed"), asked("rounds_used_up"), asked(source="fixed"))
    runs = {
        name: Held(interviews=[held], reports={}, calls=[], cards=lambda _: None)
        for name, held in (("quiet", quiet), ("loud", HELD))
    }
    rows = guard_sheet(runs, CONCERNS).rows
    assert [row["run"] for row in rows] == ["loud"] * 4
    assert rows[0] == {
        "run": "loud",
        "concern": ANY,
        "refused": 4,
        "repaired": 2,
        "stopped": 1,
        "safe_lines": 1,
    }
