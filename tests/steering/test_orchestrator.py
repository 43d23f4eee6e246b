"""The coverage orchestrator: a truth table of its stop rules, its focus, and its words."""

from collections.abc import Sequence
from itertools import product

import pytest

from src.clinical import bdi
from src.records import ITEMS, Answer, Assessment, Question, StopReason, SymptomScore, Turn
from src.settings import CoverageSettings, RunSettings
from src.steering.orchestrator import UNKNOWN, CoverageOrchestrator

ALL = range(1, ITEMS + 1)


def assessment(known: dict[int, tuple[int, float]]) -> Assessment:
    """Return an assessment from {item: (score, confidence)}; the rest is unknown."""
    pairs = [known.get(item, (0, 0.0)) for item in ALL]
    return Assessment(symptoms=tuple(SymptomScore(score=s, confidence=c) for s, c in pairs))


def turns(assessments: Sequence[Assessment | None], reply: str = "I see.") -> list[Turn]:
    return [
        Turn(
            number=number,
            question=Question(text="And then?", source="fixed"),
            answer=Answer(text=reply),
            assessment=one,
        )
        for number, one in enumerate(assessments, 1)
    ]


def moving(count: int, covered: int, *, confidence: float = 0.3) -> list[Turn]:
    """Return turns whose total moves by three, with so many items assessed at the end."""
    items = [*bdi.ASSESSABLE, *sorted(bdi.SENSITIVE)][:covered]
    parts = [
        assessment(
            {item: (3 if i == 0 and n % 2 else 0, confidence) for i, item in enumerate(items)}
        )
        for n in range(count)
    ]
    return turns(parts)


def steady(count: int, covered: int, *, confidence: float = 0.3) -> list[Turn]:
    items = [*bdi.ASSESSABLE, *sorted(bdi.SENSITIVE)][:covered]
    return turns([assessment(dict.fromkeys(items, (1, confidence)))] * count)


@pytest.fixture
def rules(settings: RunSettings) -> CoverageSettings:
    assert isinstance(settings.orchestrator, CoverageSettings)
    return settings.orchestrator


def changed(rules: CoverageSettings, **changes: object) -> CoverageOrchestrator:
    return CoverageOrchestrator(rules.model_copy(update=changes))


@pytest.mark.parametrize(
    ("left", "covered", "confident", "stable"),
    [row for row in product([0, 1], repeat=4) if row[1] or not row[2]],  # confident is covered
)
def test_the_default_stops_without_messages_or_when_covered_and_confident_or_stable(
    rules: CoverageSettings, left: int, covered: int, confident: int, stable: int
) -> None:
    count = 17 if left else 18
    items = 17 if covered else 14
    make = steady if stable else moving
    held = make(count, items, confidence=0.61 if confident else 0.6)
    expected = (
        StopReason.MAX_MESSAGES
        if not left
        else StopReason.CONFIDENT
        if covered and confident
        else StopReason.STABLE
        if covered and stable
        else None
    )
    assert changed(rules).stop(held) == expected


@pytest.mark.parametrize(
    ("covered", "confident", "stable"),
    [row for row in product([0, 1], repeat=3) if row[0] or not row[1]],
)
def test_coverage_as_printed_is_a_stop_of_its_own(
    rules: CoverageSettings, covered: int, confident: int, stable: int
) -> None:
    make = steady if stable else moving
    held = make(11, 17 if covered else 14, confidence=0.61 if confident else 0.6)
    expected = (
        StopReason.CONFIDENT
        if confident
        else StopReason.STABLE
        if stable
        else StopReason.COVERED
        if covered
        else None
    )
    assert changed(rules, coverage="stop").stop(held) == expected


@pytest.mark.parametrize(
    ("finished", "closing", "stop"),
    [(17, False, None), (18, False, "m"), (16, True, None), (17, True, "m")],
)
def test_18_messages_are_18_turns_or_17_and_a_closing(
    rules: CoverageSettings, finished: int, closing: bool, stop: str | None
) -> None:
    guidance = changed(rules, closing=closing).guide(moving(finished, 3))
    assert guidance.stop == (StopReason.MAX_MESSAGES if stop else None)
    assert guidance.closing == (closing and stop is not None)


@pytest.mark.parametrize(
    ("finished", "confidence", "stops"),
    [(8, 0.7, False), (9, 0.7, True), (9, 0.6, False), (9, 0.6001, True)],
)
def test_confidence_ends_it_above_point_six_past_turn_eight(
    rules: CoverageSettings, finished: int, confidence: float, stops: bool
) -> None:
    stop = changed(rules).stop(moving(finished, 17, confidence=confidence))
    assert (stop is StopReason.CONFIDENT) == stops


@pytest.mark.parametrize(
    ("finished", "step", "stops"), [(10, 1, False), (11, 1, True), (11, 2, False), (12, 0, True)]
)
def test_a_total_that_moves_less_than_two_in_three_turns_ends_it_past_turn_ten(
    rules: CoverageSettings, finished: int, step: int, stops: bool
) -> None:
    base = dict.fromkeys(bdi.ASSESSABLE, (0, 0.4))
    low, high = assessment(base), assessment(base | {1: (step, 0.4)})
    held = turns([low] * (finished - 1) + [high])
    assert (changed(rules).stop(held) is StopReason.STABLE) == stops


@pytest.mark.parametrize(
    ("base", "rounding", "needed"),
    [
        ("all", "ceil", 15),
        ("all", "int", 14),
        ("assessable", "ceil", 12),
        ("assessable", "int", 11),
    ],
)
def test_seventy_percent_is_counted_as_the_settings_say(
    rules: CoverageSettings, base: str, rounding: str, needed: int
) -> None:
    orchestrator = changed(rules, coverage_base=base, coverage_rounding=rounding, coverage="stop")
    assert orchestrator.stop(moving(3, needed - 1)) is None
    assert orchestrator.stop(moving(3, needed)) is StopReason.COVERED


def test_confidence_over_all_21_as_printed_waits_for_items_nobody_asks_about(
    rules: CoverageSettings,
) -> None:
    printed = changed(rules, confident_base="all")
    assert printed.stop(moving(9, 17, confidence=0.9)) is None
    assert printed.stop(moving(9, 21, confidence=0.9)) is StopReason.CONFIDENT


def test_a_share_of_twenty_items_is_not_a_victim_of_binary_fractions(
    rules: CoverageSettings,
) -> None:
    orchestrator = changed(rules, coverage_share=0.47619047619, coverage="stop")  # 10 of 21
    assert orchestrator.stop(moving(3, 10)) is StopReason.COVERED


def test_the_first_turn_is_after_sadness_and_loss_of_pleasure(rules: CoverageSettings) -> None:
    guidance = changed(rules).guide([])
    assert guidance.focus == (1, 4)
    assert "Sadness and Loss of Pleasure" in guidance.text


def test_nothing_known_starts_with_the_first_cluster_and_keeps_to_four(
    rules: CoverageSettings,
) -> None:
    assert changed(rules).focus(UNKNOWN) == (1, 4, 15, 16)


def test_the_cluster_with_the_larger_unassessed_share_comes_first(rules: CoverageSettings) -> None:
    known = assessment({item: (0, 0.5) for item in bdi.ASSESSABLE if item not in {7, 14, 13}})
    assert changed(rules).focus(known)[:3] == (7, 14, 13)


def test_within_a_cluster_the_unassessed_come_first_then_the_severe(
    rules: CoverageSettings,
) -> None:
    known = dict.fromkeys(bdi.ASSESSABLE, (0, 0.9))
    known |= {16: (1, 0.5), 18: (3, 0.5), 20: (1, 0.5)}
    del known[15]
    assert changed(rules).focus(assessment(known)) == (15, 18, 16, 20)


def test_sensitive_items_are_never_in_the_focus_nor_named(rules: CoverageSettings) -> None:
    held = turns([assessment(dict.fromkeys(sorted(bdi.SENSITIVE), (3, 0.2)))])
    guidance = CoverageOrchestrator(rules, lambda _: (1, 9)).guide(held)
    assert not set(guidance.focus) & bdi.SENSITIVE
    assert not [bdi.name(item) for item in bdi.SENSITIVE if bdi.name(item) in guidance.text]
    assert "touched on: Sadness." in guidance.text


def test_with_nothing_left_the_four_least_confident_are_the_focus(rules: CoverageSettings) -> None:
    known = dict.fromkeys(bdi.ASSESSABLE, (1, 0.9)) | {20: (1, 0.7), 2: (1, 0.8)}
    assert changed(rules).focus(assessment(known)) == (20, 2, 1, 4)


@pytest.mark.parametrize(("revisit", "left_alone"), [("above", False), ("at_least", True)])
def test_point_six_is_done_only_as_printed(
    rules: CoverageSettings, revisit: str, left_alone: bool
) -> None:
    known = dict.fromkeys(ALL, (0, 0.0)) | {20: (1, 0.6)}
    guidance = changed(rules, revisit=revisit).guide(turns([assessment(known)]))
    assert ("leave alone: Tiredness or Fatigue" in guidance.text) == left_alone


def test_at_most_six_well_assessed_items_are_listed_the_most_certain_first(
    rules: CoverageSettings,
) -> None:
    known = {item: (1, 0.61 + item / 100) for item in bdi.ASSESSABLE if item > 2}
    text = changed(rules).guide(turns([assessment(known)])).text
    line = next(line for line in text.splitlines() if "leave alone" in line)
    names = line.partition(": ")[2].rstrip(".").split(", ")
    assert names == [bdi.name(item) for item in (20, 19, 18, 17, 16, 15)]


def test_guidance_says_what_is_unknown_and_what_is_uncertain(rules: CoverageSettings) -> None:
    known = dict.fromkeys(bdi.ASSESSABLE, (0, 0.9)) | {1: (2, 0.4)}
    del known[4]
    text = changed(rules).guide(turns([assessment(known)])).text
    assert "Loss of Pleasure: nothing known yet" in text
    assert "Sadness: confidence 0.4, level 2 so far" in text


def test_guidance_holds_coverage_against_need_until_it_is_met(rules: CoverageSettings) -> None:
    assert "14 of 21 topics, 15 are needed" in changed(rules).guide(moving(3, 14)).text
    assert "are needed" not in changed(rules).guide(moving(3, 15)).text


@pytest.mark.parametrize(("finished", "told"), [(13, False), (14, True), (17, True)])
def test_a_low_budget_is_told_from_four_messages_on(
    rules: CoverageSettings, finished: int, told: bool
) -> None:
    text = changed(rules).guide(moving(finished, 3)).text
    assert ("Few messages are left" in text) == told
    assert not told or f"({18 - finished})" in text


def test_a_steady_picture_is_hinted_at(rules: CoverageSettings) -> None:
    assert "has not changed" in changed(rules).guide(steady(11, 3)).text
    assert "has not changed" not in changed(rules).guide(steady(10, 3)).text


@pytest.mark.parametrize("reason", ["max_messages", "stable", "confident"])
def test_the_wrap_up_names_its_reason_and_forbids_questions(
    rules: CoverageSettings, reason: str
) -> None:
    held = {
        "max_messages": moving(18, 3),
        "stable": steady(11, 17),
        "confident": moving(9, 17, confidence=0.9),
    }[reason]
    guidance = changed(rules).guide(held)
    words = {"max_messages": "No messages", "stable": "steady", "confident": "known well enough"}
    assert guidance.stop == reason
    assert words[reason] in guidance.text
    assert "Ask nothing more" in guidance.text


def test_an_unscored_turn_is_guided_by_the_last_assessment(rules: CoverageSettings) -> None:
    known = assessment({item: (1, 0.9) for item in bdi.ASSESSABLE if item != 2})
    orchestrator = changed(rules)
    assert (
        orchestrator.guide(turns([known, None])).focus == orchestrator.guide(turns([known])).focus
    )


def test_guidance_is_pure(rules: CoverageSettings) -> None:
    held = moving(5, 9)
    orchestrator = changed(rules)
    assert orchestrator.guide(held) == orchestrator.guide(held)


def test_signals_can_be_switched_off(rules: CoverageSettings) -> None:
    assert "touched on" not in CoverageOrchestrator(rules, None).guide(moving(2, 3)).text
