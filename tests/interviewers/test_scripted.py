"""The scripted interviewer: the tree first, then fixed lines that do not come again too early."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from src.clinical.bdi import ASSESSABLE
from src.errors import InputError
from src.interviewers.scripted import ScriptedInterviewer
from src.interviewers.tree import DialogueTree
from src.prompts import located
from src.records import Answer, Guidance, Question, StopReason, Turn

LINES = "prompts/scripted.yaml"
TREE = "trees/screening.yaml"
RAW = yaml.safe_load(located(LINES).read_text(encoding="utf-8"))
INTERVIEWER = ScriptedInterviewer(tree=DialogueTree(TREE), lines=LINES)
WITHOUT_TREE = ScriptedInterviewer(tree=DialogueTree(TREE, turns_max=0), lines=LINES)


async def hold(interviewer: ScriptedInterviewer, focuses: list[tuple[int, ...]]) -> list[Turn]:
    turns: list[Turn] = []
    for n, focus in enumerate(focuses, 1):
        question = await interviewer.ask(turns, Guidance(text="", focus=focus))
        turns.append(Turn(number=n, question=question, answer=Answer(text="Hm.")))
    return turns


def questions(turns: list[Turn]) -> list[Question]:
    return [turn.question for turn in turns]


async def test_the_tree_speaks_first() -> None:
    first = await INTERVIEWER.ask([], Guidance(text="", focus=(1, 4)))
    assert first.source == "tree:sadness"


async def test_a_fixed_line_fills_in_where_the_tree_has_none() -> None:
    turns = await hold(INTERVIEWER, [(1, 4), (1,)])
    assert turns[1].question.source == "fixed"
    assert 1 in turns[1].question.focus


@pytest.mark.parametrize("item", ASSESSABLE)
async def test_a_fixed_line_fits_the_first_item_in_the_focus(item: int) -> None:
    other = 1 if item != 1 else 2
    line = await WITHOUT_TREE.ask([], Guidance(text="", focus=(item, other)))
    assert line.source == "fixed"
    assert item in line.focus


async def test_without_a_focus_the_fixed_lines_go_through_what_was_asked_least() -> None:
    turns = await hold(WITHOUT_TREE, [()] * 16)
    assert {item for question in questions(turns) for item in question.focus} == set(ASSESSABLE)


async def test_without_a_focus_a_topic_that_someone_asked_about_comes_later() -> None:
    first = RAW["lines"][0]["items"]
    asked = Question(text="How was your week?", source="model", focus=tuple(first))
    turns = [Turn(number=1, question=asked, answer=Answer(text="Hm."))]
    line = await WITHOUT_TREE.ask(turns, Guidance(text=""))
    assert not set(line.focus) & set(first)


async def test_eighteen_turns_never_repeat_a_line_whatever_the_focus() -> None:
    for focus in [(), (1,), (18, 19), ASSESSABLE]:
        for interviewer in (INTERVIEWER, WITHOUT_TREE):
            texts = [q.text for q in questions(await hold(interviewer, [focus] * 18))]
            assert len(set(texts)) == 18


async def test_after_the_last_line_neutral_continuers_take_turns() -> None:
    turns = await hold(WITHOUT_TREE, [()] * 60)
    rest = [question.text for question in questions(turns)[len(RAW["lines"]) :]]
    assert rest[: len(RAW["continuers"])] == RAW["continuers"]
    assert all(earlier != later for earlier, later in pairwise(rest))
    assert all(question.focus == () for question in questions(turns)[len(RAW["lines"]) :])


async def test_the_closing_asks_nothing_and_comes_at_every_stop() -> None:
    for stop in StopReason:
        for interviewer in (INTERVIEWER, WITHOUT_TREE):
            closing = await interviewer.ask([], Guidance(text="", focus=(1,), stop=stop))
            assert closing == Question(text=RAW["closing"], source="fixed")
            assert "?" not in closing.text


async def test_the_same_turns_give_the_same_question() -> None:
    turns = await hold(INTERVIEWER, [ASSESSABLE] * 9)
    guidance = Guidance(text="", focus=(5, 16))
    again = ScriptedInterviewer(tree=DialogueTree(TREE), lines=LINES)
    stored = [Turn.model_validate_json(turn.model_dump_json()) for turn in turns]
    assert await again.ask(stored, guidance) == await INTERVIEWER.ask(turns, guidance)


def test_there_are_lines_for_every_item_that_may_be_asked_about() -> None:
    assert len(RAW["lines"]) >= 20
    assert {item for line in RAW["lines"] for item in line["items"]} == set(ASSESSABLE)


def test_no_line_speaks_of_what_must_not_be_asked() -> None:
    lines = [line["text"] for line in RAW["lines"]] + RAW["continuers"] + [RAW["closing"]]
    for line in lines:
        assert len(line.split()) <= 40
        assert not re.search(
            r"depress|suicid|\bsex|symptom|disorder|diagnos|clinic|therap|fatigue|worthless"
            r"|self-harm|\bdie\b|death|\bkill|\[|\*|\n",
            line.lower(),
        )


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from(ASSESSABLE), max_size=4, unique=True).map(tuple),
        min_size=30,
        max_size=30,
    )
)
async def test_no_line_comes_again_while_unused_ones_remain(
    focuses: list[tuple[int, ...]],
) -> None:
    for interviewer in (INTERVIEWER, WITHOUT_TREE):
        texts = [question.text for question in questions(await hold(interviewer, focuses))]
        assert len(set(texts)) == len(texts)


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda lines: lines["lines"][2].update(items=[9]), "lines[2].items[0]: must be one of"),
        (lambda lines: lines["lines"][2].update(items=[]), "lines[2].items: "),
        (lambda lines: lines["lines"][2].update(text="Go on."), "lines[2].text: must ask exactly"),
        (
            lambda lines: lines["lines"][3].update(text=lines["lines"][1]["text"]),
            "lines[3].text: is asked elsewhere already",
        ),
        (
            lambda lines: lines["continuers"].append(lines["lines"][1]["text"]),
            f"continuers[{len(RAW['continuers'])}]: is asked elsewhere already",
        ),
        (lambda lines: lines.update(closing="How was it?"), "closing: must say something"),
        (lambda lines: lines.update(closing=" "), "closing: must say something"),
        (lambda lines: lines.update(lines=[]), "lines: "),
        (lambda lines: lines.update(opening="Hi."), "opening: "),
    ],
)
def test_malformed_lines_are_refused_with_their_place(
    tmp_path: Path, change: Any, place: str
) -> None:
    content = yaml.safe_load(yaml.safe_dump(RAW))
    change(content)
    path = tmp_path / "bent.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        ScriptedInterviewer(tree=DialogueTree(TREE), lines=path)
    assert str(caught.value).startswith(f"{path}: {place}")
    assert "\n" not in str(caught.value)
