import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.clinical import text

PROSE = st.text(alphabet="abc I’'.!?…\n*-—,()[]😀 not", max_size=200)


@given(PROSE)
def test_every_sentence_is_an_exact_piece_of_the_text_in_order(prose: str) -> None:
    start = 0
    for sentence in text.sentences(prose):
        start = prose.index(sentence, start) + len(sentence)


@given(PROSE)
def test_normalising_twice_changes_nothing_more(prose: str) -> None:
    assert text.normalise(text.normalise(prose)) == text.normalise(prose)


@pytest.mark.parametrize(
    ("prose", "expected"),
    [
        ("I woke at 3 a.m. and lay there. Then work.", 2),
        ("I feel… tired. You know?", 2),
        ("Well... maybe so.", 1),
        ("Well... Maybe so.", 2),
        ("- first\n- second", 2),
        ("*sighs*", 0),
        ("😀", 0),
        ("", 0),
    ],
)
def test_sentences_end_where_a_reader_would_end_them(prose: str, expected: int) -> None:
    assert len(text.sentences(prose)) == expected


@pytest.mark.parametrize(
    ("prose", "plain"),
    [
        ("I don’t know", "i don't know"),
        ("I do not know, I cannot", "i don't know, i can't"),
        ("*looks down* fine", "fine"),
        ("(sighs) fine", "fine"),
        ("It felt *mine*, **really**", "it felt mine, really"),
        ("tired 😴 again", "tired again"),
        ("My energy’s low", "my energy is low"),
    ],
)
def test_spelling_markdown_and_stage_directions_are_levelled(prose: str, plain: str) -> None:
    assert text.normalise(prose) == plain


def test_content_words_leave_out_what_carries_no_meaning() -> None:
    assert text.content_words("I just can’t enjoy the garden, you know?") == ["enjoy", "garden"]


def test_a_clause_ends_at_but_and_at_a_dash() -> None:
    assert text.clauses("I sleep but I wake — often") == ["i sleep", "but i wake", "often"]


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("i'm ", 1),
        ("i'm not ", -1),
        ("i'm not really very ", -1),
        ("i never ", -1),
        ("it's not only ", 1),
        ("i can't stop ", 1),
        ("i don't know why i'm so ", 1),
        ("i don't want to be ", 0),
        ("not hungry and ", 1),
    ],
)
def test_negation_reaches_as_far_as_it_is_heard(before: str, expected: int) -> None:
    assert text.polarity(before) == expected


@pytest.mark.parametrize(
    ("said", "level"),
    [
        ("sometimes", 1),
        ("every now and then", 1),
        ("a lot", 2),
        ("most of the time", 2),
        ("everyday", 2),
        ("all the time", 3),
        ("constantly", 3),
        ("not all the time", 1),
        ("i don't always", 1),
        ("it never stops", 3),
        ("on tuesday", None),
    ],
)
def test_frequency_words_map_as_appendix_d_says(said: str, level: int | None) -> None:
    assert text.frequency(said) == level


@pytest.mark.parametrize(
    ("said", "strength"), [("a bit", -1), ("fine", 0), ("really", 1), ("completely", 2)]
)
def test_intensity_has_four_steps(said: str, strength: int) -> None:
    assert text.intensity(said) == strength


@pytest.mark.parametrize(
    ("before", "other"),
    [
        ("my sister is always ", True),
        ("he feels ", True),
        ("i think ", False),
        ("my sister says i'm ", False),
        ("my appetite is ", False),
        ("when my mother died i was ", False),
    ],
)
def test_the_last_subject_decides_whom_it_is_about(before: str, *, other: bool) -> None:
    assert text.about_other(before) is other


@pytest.mark.parametrize(
    ("said", "expected"), [("for months", True), ("in years", True), ("for a minute", False)]
)
def test_a_long_duration_is_weeks_or_more(said: str, *, expected: bool) -> None:
    assert text.lasting(said) is expected


def test_being_unsure_is_heard() -> None:
    assert text.tentative("maybe i guess")
    assert not text.tentative("i sleep badly")
