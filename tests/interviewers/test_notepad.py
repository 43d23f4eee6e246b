"""The notepad: ids that stay, batches in order, and a text from which the next turn goes on."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src.interviewers.notepad import CATEGORIES, Notepad


def add(category: str, text: str = "sleeps four hours since March, she says") -> dict[str, object]:
    return {"action": "add", "id": None, "category": category, "text": text}


def edit(key: object, text: object = "now six hours", category: object = None) -> dict[str, object]:
    return {"action": "edit", "id": key, "category": category, "text": text}


def delete(key: object) -> dict[str, object]:
    return {"action": "delete", "id": key, "category": None, "text": None}


def after(*actions: object, notepad: Notepad | None = None, plan_max: int = 3) -> Notepad:
    return (notepad or Notepad()).updated(actions, plan_max=plan_max).notepad


def lines(*actions: object, notepad: Notepad | None = None, plan_max: int = 3) -> tuple[str, ...]:
    return (notepad or Notepad()).updated(actions, plan_max=plan_max).lines


FOUR = after(add("evidence"), add("hypotheses", "grief"), add("plan", "since when?"), add("plan"))


def test_one_counter_runs_through_all_categories() -> None:
    assert [note.id for note in FOUR.notes] == ["N001", "N002", "N003", "N004"]


def test_a_batch_of_three_edits_and_one_addition_is_told_in_order_with_the_whole_notepad() -> None:
    batch = (edit("N001"), edit("N002", "grief or not"), edit("N003", "how?"), add("unresolved"))
    update = FOUR.updated(batch, plan_max=3)
    assert update.lines == (
        "1. edited N001 (evidence)",
        "2. edited N002 (hypotheses)",
        "3. edited N003 (plan)",
        "4. added N005 (unresolved)",
    )
    assert update.done == 4
    assert str(update).endswith(f"\n\n{update.notepad}")
    assert "N002 grief or not" in str(update)


def test_an_id_made_in_a_batch_can_be_edited_later_in_it() -> None:
    found = after(
        add("coverage", "work"), edit("N001", "work and home"), delete("N001"), add("plan")
    )
    assert [(note.id, note.category) for note in found.notes] == [("N002", "plan")]


def test_an_id_is_never_used_again() -> None:
    emptied = after(*(delete(note.id) for note in FOUR.notes), notepad=FOUR)
    assert not emptied.notes
    assert lines(add("plan"), notepad=Notepad.read(str(emptied))) == ("1. added N005 (plan)",)


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (edit("N009"), "no entry has the id 'N009'; there are: N001, N002, N003, N004"),
        (delete(None), "no entry has the id None; there are: N001, N002, N003, N004"),
        (delete(["N001"]), "no entry has the id ['N001']"),
        (add("feelings"), "'feelings' is no category: evidence, coverage, unresolved"),
        (add("plan", "  \n"), "the text is empty"),
        (edit("N001", None), "the text is empty"),
        (edit("N001", "x", "plan"), "N001 stays in evidence; delete it and add one to plan"),
        ({"action": "clear"}, "'clear' is no action: add, edit or delete"),
        ("add", "None is no action"),
    ],
)
def test_a_wrong_action_is_a_line_and_the_others_still_happen(action: object, line: str) -> None:
    update = FOUR.updated([action, add("coverage", "sleep")], plan_max=3)
    assert line in update.lines[0]
    assert update.lines[0].startswith("1. error: ")
    assert update.lines[1] == "2. added N005 (coverage)"
    assert update.done == 1
    assert update.notepad == after(add("coverage", "sleep"), notepad=FOUR)


def test_a_long_plan_is_warned_of_and_kept() -> None:
    assert len(lines(add("plan"), notepad=FOUR)) == 1
    warned = lines(add("plan"), add("plan"), notepad=FOUR)
    assert warned[-1].startswith("warning: the plan has 4 entries; keep the 3 questions")
    assert len(after(add("plan"), add("plan"), notepad=FOUR).notes) == 6


def test_an_empty_notepad_shows_its_categories_and_the_next_id() -> None:
    assert str(Notepad.read(None)) == (
        "evidence:\n\ncoverage:\n\nunresolved:\n\nhypotheses:\n\nplan:\n\nnext id: N001"
    )


def test_a_text_that_is_no_notepad_is_refused() -> None:
    with pytest.raises(ValueError, match="no line of a notepad"):
        Notepad.read("evidence:\nhello")


WORDS = st.text(max_size=30) | st.sampled_from(["plan:", "N001 again", "next id: N900", "a\nb"])
IDS = st.integers(0, 12).map(lambda n: f"N{n:03}") | st.none()
ACTIONS = st.fixed_dictionaries(
    {
        "action": st.sampled_from(["add", "add", "edit", "delete", "clear"]),
        "id": IDS,
        "category": st.sampled_from([*CATEGORIES, "other", None]),
        "text": WORDS | st.none(),
    }
)
BATCHES = st.lists(st.lists(ACTIONS, max_size=6), max_size=5)


@given(BATCHES)
def test_what_is_written_out_is_read_again_as_it_was(batches: list[list[object]]) -> None:
    notepad = Notepad()
    for batch in batches:
        notepad = notepad.updated(batch, plan_max=3).notepad
        assert Notepad.read(str(notepad)) == notepad


@given(BATCHES)
def test_ids_only_grow_and_no_note_changes_its_category(batches: list[list[object]]) -> None:
    notepad, categories = Notepad(), dict[str, str]()
    for batch in batches:
        update = notepad.updated(batch, plan_max=3)
        fresh = [line.split()[2] for line in update.lines if ". added " in line]
        assert not categories.keys() & set(fresh)
        assert fresh == sorted(fresh)
        notepad = update.notepad
        for note in notepad.notes:
            assert categories.setdefault(note.id, note.category) == note.category


@given(st.lists(ACTIONS, max_size=8), st.integers(0, 8))
def test_one_batch_is_the_same_as_its_actions_one_by_one(actions: list[object], cut: int) -> None:
    first, then = actions[:cut], actions[cut:]
    assert after(*then, notepad=after(*first)) == after(*actions)


@given(st.lists(ACTIONS, max_size=8))
def test_every_action_is_answered_in_one_line(actions: list[object]) -> None:
    update = Notepad().updated(actions, plan_max=100)
    assert [line.split(".")[0] for line in update.lines] == [
        str(n) for n in range(1, len(actions) + 1)
    ]
    assert update.done == sum(not re.match(r"\d+\. error", line) for line in update.lines)
