"""What offline persons understand of a message."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from src.patients.lines import load_lines
from src.patients.listening import Heard, PhraseBook

LINES = load_lines("conf/personas/offline_lines.yaml")


def hear(text: str) -> Heard:
    return LINES.hear(text)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ("Have you been feeling down lately?", (1,)),
        ("How have your spirits been this month?", (1,)),
        ("When you look ahead to the coming months, what do you see?", (2,)),
        ("Do you feel hopeful about how things will go?", (2,)),
        ("What do you still enjoy in your free time?", (4,)),
        ("Are there hobbies that bring you joy?", (4,)),
        ("Is there something on your conscience?", (5,)),
        ("Do you worry that you let people down?", (5,)),
        ("How do you see yourself these days?", (7,)),
        ("How is your confidence holding up?", (7,)),
        ("Are you hard on yourself when something goes wrong?", (8,)),
        ("Have you found yourself close to tears?", (10,)),
        ("Do you find it hard to sit still of an evening?", (11,)),
        ("Have you felt on edge or restless?", (11,)),
        ("Do you still keep up with friends?", (12,)),
        ("Are small decisions harder than before?", (13,)),
        ("Do you feel useful to the people near you?", (14,)),
        ("How is your energy through the day?", (15, 20)),
        ("How are your nights?", (16,)),
        ("Have you been sleeping all right?", (16,)),
        ("Do little things get on your nerves?", (17,)),
        ("Are you quicker to snap at someone?", (17,)),
        ("How is your appetite?", (18,)),
        ("Are you eating as usual?", (18,)),
        ("Can you follow a film to the end?", (19,)),
        ("How is your concentration when you read?", (19,)),
        ("Do you feel worn out before the day is over?", (20,)),
        ("Are you low on energy?", (1, 15, 20)),
        ("Are your batteries empty by noon?", (15,)),
        ("How do you sleep, and how do you eat?", (16, 18)),
        ("Tell me about your nights.", (16,)),
    ],
)
def test_the_words_of_a_question_raise_its_topic(text: str, items: tuple[int, ...]) -> None:
    assert hear(text).items == items


def test_what_a_statement_reflects_is_mentioned_but_not_asked() -> None:
    heard = hear("It sounds like the nights are long. How is your appetite?")
    assert heard.items == (18,)
    assert heard.mentioned == (16,)


def test_what_is_asked_is_not_also_mentioned() -> None:
    heard = hear("Your nights sound long. How are your nights?")
    assert heard.items == (16,)
    assert heard.mentioned == ()


def test_a_message_that_asks_nothing_is_heard_as_a_whole() -> None:
    assert hear("Your nights, then.").items == (16,)


@pytest.mark.parametrize(
    "text",
    [
        "Are you depressed?",
        "Have you ever been suicidal?",
        "Do you have a diagnosis?",
        "How is your mental health?",
        "Are you in therapy at the moment?",
        "On a scale from one to ten, how are you?",
        "I'd like to fill in a questionnaire with you.",
        "Have you thought about self-harm?",
    ],
)
def test_clinical_and_scoring_talk_is_heard_as_direct(text: str) -> None:
    assert hear(text).direct


@pytest.mark.parametrize(
    "text",
    [
        "What depressing weather! How are things?",
        "Does the music score of that film stay with you?",
        "How have you been sleeping?",
        "What helped you to get through the winter?",
    ],
)
def test_innocent_look_alikes_are_not_direct(text: str) -> None:
    assert not hear(text).direct


@pytest.mark.parametrize(
    ("text", "aspect"),
    [
        ("How often is that?", "frequency"),
        ("Is it most days or only now and then?", "frequency"),
        ("How long has it been like this?", "duration"),
        ("When did that begin?", "duration"),
        ("How does that affect the rest of your day?", "impact"),
        ("Does it get in the way of things?", "impact"),
        ("What is your favourite season?", None),
    ],
)
def test_a_follow_up_tells_what_it_is_after(text: str, aspect: str | None) -> None:
    assert hear(text).aspect == aspect


def test_open_and_closed_questions_differ() -> None:
    assert hear("How are your nights?").open
    assert not hear("Are your nights all right?").open


def test_warmth_may_stand_before_the_question() -> None:
    assert hear("Thank you for telling me that. Are your nights all right?").warm
    assert not hear("Are your nights all right?").warm


def test_a_general_opener_is_about_no_item() -> None:
    heard = hear("Hello! How have things been for you lately?")
    assert heard.general
    assert not heard.items


def test_the_longest_phrase_counts_where_phrases_overlap() -> None:
    book = PhraseBook([("mood", ["low"]), ("energy", ["low energy"]), ("fatigue", ["tire*"])])
    assert book.find("low energy and low days") == ["energy", "mood"]
    assert book.find("tired") == ["fatigue"]


def test_typographic_apostrophes_are_apostrophes() -> None:
    assert hear("How\u2019s it going?").general


@settings(deadline=None)
@given(st.text(max_size=200))
def test_any_text_can_be_heard(text: str) -> None:
    heard = hear(text)
    assert all(1 <= item <= 21 for item in (*heard.items, *heard.mentioned))
    assert not set(heard.items) & set(heard.mentioned)
