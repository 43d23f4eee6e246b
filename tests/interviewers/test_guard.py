"""The guard: what it finds, what it lets pass, and how a message is repaired."""

import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import RootModel
from speaker import Speaker, settings_of

from src.errors import InputError, InterviewerFailed, ModelFailed
from src.interviewers.drafts import Draft, Write, write_guarded
from src.interviewers.guard import Breach, Guard
from src.interviewers.scripted import Lines
from src.interviewers.tree import DialogueTree
from src.llm.caller import Request
from src.prompts import load_yaml, located
from src.records import Answer, Guidance, Question, Record, StopReason, Turn
from src.settings import GuardSettings, GuidedSettings
from src.settings.form import File

RULES = "prompts/guard_rules.yaml"
RAW = yaml.safe_load(located(RULES).read_text(encoding="utf-8"))
SETTINGS = settings_of("guard/screening.yaml", GuardSettings)
GUARD = Guard(SETTINGS)
CALL = settings_of("interviewer/gemma.yaml", GuidedSettings).call
GOOD, UNFIT = "How did your week go?", "How are you? And how do you sleep?"


class Labelled(Record):
    """One invented message and what the guard must see in it."""

    expected: tuple[Breach, ...]
    text: str
    reply: str = "Hm."
    asked: tuple[str, ...] = ("Hello, who are you?",)
    closing: bool = False
    kept: bool = False


class LabelledFile(RootModel[tuple[Labelled, ...]]):
    """All labelled messages."""


LABELLED = load_yaml(Path(__file__).parent / "messages.yaml", LabelledFile).root


def turns_of(asked: Sequence[str], reply: str = "Hm.") -> list[Turn]:
    return [
        Turn(number=n, question=Question(text=text, source="model"), answer=Answer(text=reply))
        for n, text in enumerate(asked, 1)
    ]


def found(message: Labelled) -> tuple[Breach, ...]:
    turns = turns_of(message.asked, message.reply)
    return GUARD.check(GUARD.clean(message.text), turns=turns, closing=message.closing)


def measured(messages: Sequence[Labelled]) -> tuple[float, float, list[str]]:
    """Return recall over breaches by name, precision over messages, and what went wrong."""
    pairs = [(message, found(message)) for message in messages]
    due = [(name, name in names) for message, names in pairs for name in message.expected]
    stopped = [bool(message.expected) for message, names in pairs if names]
    wrong = [
        f"{message.text!r}: {names}"
        for message, names in pairs
        if not set(message.expected) <= set(names) or (names and not message.expected)
    ]
    return sum(hit for _, hit in due) / len(due), sum(stopped) / len(stopped), wrong


def writing(speaker: Speaker) -> Write:
    """Return what has a double write, its request being the objection alone."""

    async def write(objection: str) -> Draft:
        message = {"role": "user", "content": objection}
        reply = await speaker.ask(Request(messages=[message], settings=CALL, turn=1))
        return Draft(text=reply.text, calls=reply.calls)

    return write


async def written(
    *replies: str | ModelFailed,
    guard: Guard | None = GUARD,
    turns: Sequence[Turn] = (),
    **more: Any,
) -> Question:
    guidance = Guidance(text="", focus=(1,), **more)
    return await write_guarded(writing(Speaker(*replies)), guard, turns=turns, guidance=guidance)


# What it sees --------------------------------------------------------------------------------


def test_at_least_80_messages_are_labelled_and_half_of_them_are_innocent() -> None:
    breaches = sum(bool(message.expected) for message in LABELLED)
    assert len(LABELLED) >= 80
    assert 0.45 <= breaches / len(LABELLED) <= 0.55
    assert sum(message.kept for message in LABELLED) >= 30


SETS = {
    "all": (LABELLED, 0.95, 0.9),
    "tuned on": ([message for message in LABELLED if not message.kept], 0.95, 0.9),
    "kept aside": ([message for message in LABELLED if message.kept], 0.9, 0.9),
}
"""Messages, least recall and least precision; of those kept aside one miss weighs much more."""


@pytest.mark.parametrize("name", SETS)
def test_nearly_every_breach_is_seen_and_nearly_nothing_innocent_is_stopped(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    messages, least_recall, least_precision = SETS[name]
    recall, precision, wrong = measured(messages)
    with capsys.disabled():
        sys.stdout.write(
            f"\nguard, {name}: {len(messages)} messages, "
            f"recall {recall:.3f}, precision {precision:.3f}\n"
        )
    assert recall >= least_recall, wrong
    assert precision >= least_precision, wrong


def fixed_lines() -> list[str]:
    """Return every question that nobody's model wrote."""
    tree = DialogueTree("trees/screening.yaml")
    first = tree.next_line([], Guidance(text=""))
    assert first is not None
    lines = load_yaml("prompts/scripted.yaml", Lines)
    return [
        first.text,
        *(opener.text for opener in tree.openers[1:]),
        *(branch.text for opener in tree.openers for branch in opener.follow_ups),
        *(line.text for line in lines.lines),
        *lines.continuers,
        RAW["opening"],
        *RAW["questions"],
    ]


def test_every_fixed_line_passes_after_every_other_one() -> None:
    lines = fixed_lines()
    assert len(lines) > 70
    for line in lines:
        others = turns_of([other for other in lines if other != line])
        assert GUARD.check(line, turns=others, closing=False) == (), line


def test_every_fixed_closing_passes() -> None:
    for text in (RAW["closing"], load_yaml("prompts/scripted.yaml", Lines).closing):
        assert GUARD.check(text, turns=turns_of(fixed_lines()), closing=True) == ()


OWN = ["depression", "diagnosis", "therapist", "panic attacks", "medication", "insomnia"]


@pytest.mark.parametrize("word", OWN)
def test_a_persons_own_word_may_be_given_back_but_not_asked_about(word: str) -> None:
    own, other = turns_of(["Hi?"], f"It's the {word}, I think."), turns_of(["Hi?"], "I'm tired.")
    back, asked = f"So the {word} is on your mind. {GOOD}", f"How is it with the {word}?"
    assert GUARD.check(back, turns=own, closing=False) == ()
    assert "clinical_term" in GUARD.check(back, turns=other, closing=False)
    assert "clinical_term" in GUARD.check(asked, turns=own, closing=False)


def test_only_the_last_reply_lends_its_words() -> None:
    turns = [*turns_of(["Hi?"], "It's my depression."), *turns_of(["And now?"], "I like tea.")]
    found = GUARD.check("Your depression must be tiring.", turns=turns, closing=False)
    assert found == ("clinical_term", "direct_question")


@given(st.text(max_size=200), st.text(max_size=60), st.booleans())
def test_any_text_is_read_without_a_failure_and_cleaned_once_for_all(
    text: str, reply: str, closing: bool
) -> None:
    names = GUARD.check(text, turns=turns_of([text, "Hello?"], reply), closing=closing)
    assert set(names) <= set(get_args(Breach))
    assert not (closing and {"several_questions", "repeated_question"} & set(names))


@given(st.sampled_from(fixed_lines()))
def test_whatever_was_asked_word_for_word_is_a_repetition(line: str) -> None:
    assert "repeated_question" in GUARD.check(line, turns=turns_of([line]), closing=False)


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ('  "How are you?" ', "How are you?"),
        ("“How are you?”", "How are you?"),
        ("Interviewer: How are you?", "How are you?"),
        ("**Interviewer:** How are you?", "** How are you?"),
        ('"Well" is what you said. "Well"', '"Well" is what you said. "Well"'),
        ("Topic: How are you?", "Topic: How are you?"),
    ],
)
def test_only_what_the_rules_name_is_taken_off(text: str, clean: str) -> None:
    assert GUARD.clean(text) == clean


# What it does --------------------------------------------------------------------------------


async def test_a_good_message_passes_unchanged_and_unmarked() -> None:
    question = await written(f" {GOOD}\n")
    assert (question.text, question.source, question.flags) == (GOOD, "model", ())
    assert question.focus == (1,)


@pytest.mark.parametrize("empty", ['""', "Interviewer:", " \n", "…", "🙂"])
async def test_a_message_without_a_word_is_no_message(empty: str) -> None:
    question = await written(empty, GOOD)
    assert (question.text, question.flags) == (GOOD, ("format",))


async def test_an_unfit_message_is_asked_for_again_with_the_reason_and_counted() -> None:
    speaker = Speaker(UNFIT, GOOD)
    guidance = Guidance(text="", focus=(1,))
    question = await write_guarded(writing(speaker), GUARD, turns=(), guidance=guidance)
    assert (question.text, question.source) == (GOOD, "model")
    assert question.flags == ("several_questions",)
    assert [call.attempt for call in question.calls] == [1, 2]
    assert speaker.last_lines[0] == ""
    assert UNFIT in speaker.last_lines[1]
    assert RAW["reasons"]["several_questions"] in speaker.last_lines[1]


async def test_a_message_unfit_twice_gives_way_to_a_safe_line() -> None:
    speaker = Speaker(UNFIT, "Focus: sleep. How do you sleep?", "Never asked for")
    question = await write_guarded(
        writing(speaker), GUARD, turns=turns_of(["Hi?"]), guidance=Guidance(text="", focus=(1,))
    )
    assert question.text in RAW["questions"]
    assert (question.source, question.focus) == ("guard", ())
    assert question.flags == ("several_questions", "format")
    assert len(question.calls) == len(speaker.requests) == 2


async def test_safe_lines_never_come_twice_in_an_interview_and_begin_with_a_greeting() -> None:
    turns: list[Turn] = []
    for n in range(1, 19):
        question = await written(UNFIT, turns=turns)
        turns.append(Turn(number=n, question=question, answer=Answer(text="Hm.")))
    texts = [turn.question.text for turn in turns]
    assert texts[0] == RAW["opening"]
    assert len(set(texts)) == 18


async def test_past_the_last_safe_line_the_one_said_longest_ago_comes_again() -> None:
    turns = turns_of([*RAW["questions"], RAW["questions"][0]])
    assert (await written(UNFIT, turns=turns)).text == RAW["questions"][1]


async def test_a_goodbye_that_keeps_asking_is_replaced_by_one_that_does_not() -> None:
    question = await written("Bye! How are you?", "And you?", stop=StopReason.STABLE)
    assert (question.text, question.source) == (RAW["closing"], "guard")
    assert question.flags == ("question_in_closing",)


async def test_without_a_guard_every_message_goes_out() -> None:
    question = await written(f" {UNFIT}", guard=None)
    assert (question.text, question.source, question.flags) == (UNFIT, "model", ())


async def test_a_second_draft_that_never_comes_gives_way_to_a_safe_line() -> None:
    refused = ModelFailed("gemma: refused", kind="refused")
    question = await written(UNFIT, refused, turns=turns_of(["Hi?"]))
    assert (question.source, question.flags) == ("guard", ("several_questions",))


@pytest.mark.parametrize("first", [(), (UNFIT,)])
async def test_a_broken_way_to_the_server_ends_the_interview_so_that_it_can_be_resumed(
    first: tuple[str, ...],
) -> None:
    broken = ModelFailed("gemma: no answer", kind="transport_failed", transport=True)
    with pytest.raises(InterviewerFailed, match="transport_failed: gemma: no answer") as caught:
        await written(*first, broken)
    assert caught.value.transport


async def test_a_model_that_declines_is_a_failure_that_says_so() -> None:
    with pytest.raises(InterviewerFailed, match="refused: gemma: no") as caught:
        await written(ModelFailed("gemma: no", kind="refused"))
    assert not caught.value.transport


# What it reads -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda rules: rules["reasons"].pop("list"), "reasons.list: the reason is missing"),
        (lambda rules: rules["reasons"].update(rude="No."), "reasons.rude"),
        (lambda rules: rules.update(closing="All good?"), "closing: must say something"),
        (lambda rules: rules["questions"].append(rules["questions"][0]), "questions["),
        (lambda rules: rules["questions"].append("Go on."), "questions["),
        (lambda rules: rules.update(clinical="disorder; (broken"), "clinical[1]: malformed"),
        (lambda rules: rules["limits"].update(same=1.5), "limits.same: "),
        (lambda rules: rules.update(polite=True), "polite: "),
    ],
)
def test_malformed_rules_are_refused_with_their_place(
    tmp_path: Path, change: Callable[[Any], Any], place: str
) -> None:
    content = yaml.safe_load(yaml.safe_dump(RAW))
    change(content)
    path = tmp_path / "bent.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        Guard(SETTINGS.model_copy(update={"rules": File(str(path))}))
    assert str(caught.value).startswith(f"{path}: {place}")
    assert "\n" not in str(caught.value)


def test_every_breach_but_an_early_end_is_in_the_labelled_set() -> None:
    counted = Counter(name for message in LABELLED for name in message.expected)
    assert set(counted) == set(get_args(Breach)) - {"early_end"}
