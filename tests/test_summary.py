"""What a person reads of an answer, where there is little to be said."""

from rich.console import Console

from src.llm.ledger import Ledger
from src.records import ITEMS, Assessment, Consensus, Spread, SymptomScore
from src.settings import RunSettings
from src.summary import SubjectResult, answer_lines, result_of, table


def without_interviews(settings: RunSettings) -> SubjectResult:
    unknown = Assessment(symptoms=(SymptomScore(score=0, confidence=0.0),) * ITEMS)
    spread = Spread(minimum=0, lower_quartile=0, median=0, upper_quartile=0, maximum=0)
    return result_of(
        [],
        Consensus(profile=unknown, total=0, key_symptoms=(), spread=spread, selected=()),
        settings=settings,
        subject="persona-07",
        truth=None,
        ledger=Ledger(),
        manifest=None,
    )


def test_where_no_interview_is_valid_nothing_is_said_of_their_messages(
    settings: RunSettings,
) -> None:
    lines = answer_lines(without_interviews(settings))
    assert lines[-1] == "Interviews 0/20 valid"
    assert "Key symptoms: none" in lines


def test_where_no_interview_is_valid_the_table_still_has_its_line(settings: RunSettings) -> None:
    console = Console(width=110)
    with console.capture() as captured:
        console.print(table([without_interviews(settings)]))
    assert captured.get().splitlines()[1].split() == [
        "persona-07", "0", "0–0", "minimal", "0/20"
    ]  # fmt: skip
