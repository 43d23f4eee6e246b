"""The second safety check: what stops an interview, what is noticed, and what passes."""

import sys
from collections import Counter
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import RootModel

from src.clinical.safety import Danger, Kind, SafetyCheck
from src.errors import InputError
from src.prompts import load_yaml, located
from src.records import Record

WORDS = "conf/lexicon/safety.yaml"
CHECK = SafetyCheck(WORDS)
STOPS = ("explicit", "implicit", "plan", "harm_to_others", "acute_medical", "abuse")
PASSES = ("past_resolved", "negated", "third_person", "figurative", "passive_wish", "ordinary")
KINDS = {"explicit": "self_harm", "implicit": "self_harm", "plan": "self_harm"}


class Labelled(Record):
    """One invented message."""

    label: Literal[
        "explicit",
        "implicit",
        "plan",
        "harm_to_others",
        "acute_medical",
        "abuse",
        "past_resolved",
        "negated",
        "third_person",
        "figurative",
        "passive_wish",
        "ordinary",
    ]
    text: str
    asked: str = ""
    kept_aside: bool = False

    @property
    def danger(self) -> Danger | None:
        return CHECK.danger(self.text, previous=[self.asked] if self.asked else ())


class LabelledFile(RootModel[tuple[Labelled, ...]]):
    """All labelled messages."""


LABELLED = load_yaml(Path(__file__).parent / "safety_messages.yaml", LabelledFile).root
HALVES = {
    "tuned": [one for one in LABELLED if not one.kept_aside],
    "kept aside": [one for one in LABELLED if one.kept_aside],
}


def stops(messages: Sequence[Labelled]) -> Counter[str]:
    """Return how many messages of each label stop an interview."""
    return Counter(one.label for one in messages if (found := one.danger) and found.urgent)


def rate(messages: Sequence[Labelled], labels: Sequence[str]) -> float:
    """Return the share of messages with these labels that stop."""
    due = [one for one in messages if one.label in labels]
    return stops(due).total() / len(due)


def show(name: str, messages: Sequence[Labelled]) -> None:
    every: Counter[str] = Counter(one.label for one in messages)
    urgent = stops(messages)
    lines = [f"{label:14} {urgent[label]:3} of {every[label]:3} stop" for label in STOPS + PASSES]
    recall, false = rate(messages, STOPS), rate(messages, PASSES)
    head = f"{name}: {len(messages)} messages, recall {recall:.3f}, false stops {false:.3f}"
    sys.stdout.write("\n  ".join(["", head, *lines]) + "\n")


def five_grams(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return set(zip(*(words[n:] for n in range(5)), strict=False))


def urgent(text: str, *previous: str) -> bool | None:
    """Return None where there is no danger, else whether it is urgent."""
    found = CHECK.danger(text, previous=previous)
    return found.urgent if found else None


def test_of_every_label_many_are_kept_aside_and_no_two_messages_are_alike() -> None:
    kept = Counter(one.label for one in HALVES["kept aside"])
    assert len(LABELLED) >= 160
    assert set(kept) == {*STOPS, *PASSES}
    assert all(count >= 10 for count in kept.values())
    grams = [five_grams(one.text) for one in LABELLED]
    assert all(len(a & b) <= 0.15 * len(a | b) for a, b in combinations(grams, 2))


@pytest.mark.parametrize(
    ("half", "recall", "false"), [("tuned", 0.93, 0.01), ("kept aside", 0.68, 0.05)]
)
def test_danger_stops_and_what_is_none_rarely_does(half: str, recall: float, false: float) -> None:
    show(half, HALVES[half])
    assert rate(HALVES[half], STOPS) >= recall
    assert rate(HALVES[half], PASSES) <= false


def test_what_stops_is_taken_for_what_it_is() -> None:
    named = [
        (one.label, found.kind)
        for one in LABELLED
        if one.label in STOPS and (found := one.danger) and found.urgent
    ]
    assert all(kind == KINDS.get(label, label) for label, kind in named)


def test_a_passive_wish_is_noticed_and_rarely_stops() -> None:
    wishes = [one.danger for one in LABELLED if one.label == "passive_wish"]
    noticed = [found.urgent for found in wishes if found]
    assert len(noticed) >= 0.85 * len(wishes)
    assert sum(noticed) <= 0.05 * len(wishes)


def test_an_urgent_sentence_counts_wherever_it_stands() -> None:
    lines = [one for one in HALVES["tuned"] if one.label in STOPS and not one.asked]
    for one in lines:
        found = CHECK.danger(f"The garden looks nice. {one.text}\nWe had soup.")
        assert found == one.danger


def test_an_urgent_danger_goes_before_an_earlier_concern() -> None:
    found = CHECK.danger("I wish I was dead. And he's hitting me again, I can't get out.")
    assert found
    assert (found.kind, found.urgent) == ("abuse", True)


def test_a_bare_yes_takes_its_meaning_from_the_last_question() -> None:
    asked = "Thank you. Are you thinking about ending your life?"
    assert urgent("Yes.", asked) is True
    assert urgent("Yes.") is None
    assert urgent("No.", asked) is None
    assert urgent("Yes.", asked, "And how did you sleep?") is None
    assert urgent("Yes, years ago.", asked) is False


def test_a_no_is_a_danger_only_where_safety_was_asked_about() -> None:
    assert urgent("No, I don't think so.", "Do you feel safe at home?") is True
    assert urgent("Yes, quite.", "Do you feel safe at home?") is None


def test_a_thought_is_urgent_until_it_is_said_not_to_be_acted_on() -> None:
    assert urgent("I keep thinking about killing myself.") is True
    assert urgent("Now and then I think about killing myself.") is False
    assert urgent("I keep thinking about killing myself. I wouldn't do it.") is False
    assert urgent("Sometimes I think of it, and tonight I want to kill myself.") is True


def test_a_wish_to_be_dead_is_a_concern_until_a_time_is_named() -> None:
    assert urgent("I want to be dead.") is False
    assert urgent("I want to be dead by the end of the month.") is True
    assert urgent("Sometimes I want to die.") is False
    assert urgent("I want to die.") is True
    assert urgent("I am going to die tonight by my own decision.") is True


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I have a gun and I'm going to shoot him tomorrow.", "harm_to_others"),
        ("I'll stab my boss tomorrow.", "harm_to_others"),
        ("The voices tell me to stab my neighbour and I will do it.", "harm_to_others"),
        ("My chest hurts and my left arm has gone numb.", "acute_medical"),
        ("My chest hurts, and my arm went numb.", "acute_medical"),
    ],
)
def test_plain_words_stop(text: str, kind: Kind) -> None:
    found = CHECK.danger(text)
    assert found
    assert (found.kind, found.urgent) == (kind, True)


@pytest.mark.parametrize(
    "text",
    [
        "I'll shoot him an email tomorrow.",
        "I'm going to shoot my film tomorrow.",
        "My chest hurts when I cough.",
        "My arm went numb, I had slept on it.",
    ],
)
def test_the_same_words_of_something_else_are_no_danger(text: str) -> None:
    assert urgent(text) is None


@pytest.mark.parametrize("what", ["It", "The stove", "Sunlight", "The wool", "Grief"])
@pytest.mark.parametrize(
    "does", ["burned me yesterday", "hurts me", "is hurting me", "hits me", "won't let me go out"]
)
def test_only_a_person_hurts_the_speaker(what: str, does: str) -> None:
    assert urgent(f"{what} {does}.") is None
    for who in ("He", "My husband", "Someone", "My mother-in-law"):
        assert urgent(f"{who} {does}.") is True


def test_who_hurt_the_speaker_may_be_named_after_it() -> None:
    assert urgent("I was hit by my husband again last night.") is True
    assert urgent("I was hit by a wave of grief last night.") is None
    assert urgent("I get hurt by what people say.") is None
    assert urgent("I took my keys and left.") is None


def test_hints_stop_only_together_and_not_in_an_everyday_matter() -> None:
    assert urgent("I watched the lake for the last time.") is None
    assert urgent("I watched the lake for the last time. My decision is made.") is True
    assert urgent("I saw our office for the last time. My decision is made.") is None
    assert urgent("My decision is made. I want to wait no longer. Tonight.") is None


def test_what_is_past_counts_again_once_it_is_back() -> None:
    assert urgent("Years ago I wanted to kill myself.") is None
    assert urgent("Years ago I was suicidal, and these days I am suicidal.") is True


@given(st.text(max_size=200), st.text(max_size=60))
def test_any_text_can_be_read(text: str, asked: str) -> None:
    found = CHECK.danger(text, previous=[asked])
    assert not found or found.sentence in text


@given(st.sampled_from(HALVES["tuned"]), st.lists(st.sampled_from(["Hello.", "I see."])))
def test_only_the_last_message_before_counts(one: Labelled, earlier: list[str]) -> None:
    asked = [*earlier, one.asked or "What is on your mind?"]
    assert CHECK.danger(one.text, previous=asked) == one.danger


def broken(**changed: Any) -> dict[str, Any]:
    return {**yaml.safe_load(located(WORDS).read_text(encoding="utf-8")), **changed}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (broken(names={}), r"names: <adv> is used and not there"),
        (broken(told={}), r"told: nothing is told of self_harm"),
        (broken(now="this (week"), r"now\[0\]: malformed phrase"),
        (broken(later="soon"), r"later: extra inputs"),
    ],
)
def test_a_malformed_file_is_refused_in_one_line(
    tmp_path: Path, content: object, complaint: str
) -> None:
    path = tmp_path / "words.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(InputError, match=complaint) as refused:
        SafetyCheck(str(path))
    assert "\n" not in str(refused.value)


def test_every_kind_of_danger_is_among_the_messages() -> None:
    assert {KINDS.get(label, label) for label in STOPS} == set(get_args(Kind))
