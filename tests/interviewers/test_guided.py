"""The guided interviewer: whose line it is, what the model sees, and that prompts only grow."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from speaker import CUT, Speaker, settings_of

from src.errors import InterviewerFailed, ModelFailed
from src.interviewers.guard import Guard
from src.interviewers.guided import GuidedInterviewer
from src.interviewers.tree import DialogueTree
from src.llm.caller import Request
from src.prompts import read_text
from src.records import Answer, Guidance, Question, StopReason, Turn
from src.settings import GuardSettings, GuidedSettings

GUARD = Guard(settings_of("guard/screening.yaml", GuardSettings))
TREE = DialogueTree("trees/screening.yaml", turns_max=3)
SYSTEM = read_text("prompts/interviewer.md").strip()
KICKOFF = read_text("prompts/kickoff.md").strip()
GOOD = "How did your week go?"


def guided(
    speaker: Speaker, *, tree: DialogueTree | None = None, **changes: object
) -> GuidedInterviewer:
    settings = settings_of("interviewer/gemma.yaml", GuidedSettings, **changes)
    return GuidedInterviewer(
        speaker, settings=settings, system=SYSTEM, kickoff=KICKOFF, tree=tree, guard=GUARD
    )


def turn(number: int, text: str, reply: str = "Fine, I guess.", *, source: str = "model") -> Turn:
    return Turn(
        number=number, question=Question(text=text, source=source), answer=Answer(text=reply)
    )


def roles(request: Request) -> str:
    return " ".join(message["role"] for message in request.messages)


def rendered(messages: Sequence[Mapping[str, str]]) -> bytes:
    return "".join(f"<{m['role']}>{m['content']}" for m in messages).encode()


# Whose line it is ----------------------------------------------------------------------------


async def test_with_the_tree_the_first_question_is_its_greeting_and_opener() -> None:
    speaker = Speaker(GOOD)
    first = await guided(speaker, tree=TREE).ask([], Guidance(text="note", focus=(1, 4)))
    assert first == TREE.next_line([], Guidance(text="note", focus=(1, 4)))
    assert first.source == "tree:sadness"
    assert not speaker.requests


async def test_without_a_tree_the_model_speaks_first_from_the_guidance() -> None:
    speaker = Speaker(GOOD)
    first = await guided(speaker).ask([], Guidance(text="## Focus now\nmood", focus=(1, 4)))
    assert (first.source, first.focus) == ("model", (1, 4))
    assert speaker.requests[0].messages == [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"{KICKOFF}\n\n## Focus now\nmood"},
    ]


async def test_the_model_asks_where_the_tree_has_no_line() -> None:
    nodes = ["tree:sadness", "tree:energy", "tree:sleep"]
    turns = [turn(n, f"And {n}?", source=node) for n, node in enumerate(nodes, 1)]
    question = await guided(Speaker(GOOD), tree=TREE).ask(turns, Guidance(text="", focus=(18,)))
    assert (question.text, question.source, question.focus) == (GOOD, "model", (18,))


async def test_the_goodbye_is_the_models_even_with_a_tree() -> None:
    speaker = Speaker("Thank you for your time. Take care!")
    guidance = Guidance(text="## Time to end", focus=(1,), stop=StopReason.STABLE, closing=True)
    closing = await guided(speaker, tree=TREE).ask([turn(1, "And?")], guidance)
    assert (closing.source, closing.stop, closing.focus) == ("model", None, ())
    assert speaker.last_lines[0].endswith("## Time to end")


async def test_a_goodbye_that_stays_unfit_becomes_the_fixed_one() -> None:
    guidance = Guidance(text="", stop=StopReason.STABLE, closing=True)
    closing = await guided(Speaker("Bye, or is there more?")).ask([turn(1, "And?")], guidance)
    assert closing.source == "guard"
    assert GUARD.check(closing.text, turns=[], closing=True) == ()


async def test_a_message_cut_off_by_the_token_limit_is_asked_for_again() -> None:
    question = await guided(Speaker(f"How did you{CUT}", GOOD)).ask([], Guidance(text=""))
    assert (question.text, question.flags) == (GOOD, ("too_long",))


async def test_a_failed_model_is_a_failed_interviewer_of_the_same_words() -> None:
    failed = ModelFailed("gemma: 9000 tokens", kind="context_exceeded")
    with pytest.raises(InterviewerFailed) as caught:
        await guided(Speaker(failed)).ask([], Guidance(text=""))
    assert str(caught.value) == "context_exceeded: gemma: 9000 tokens"
    assert (caught.value.kind, caught.value.transport) == ("interviewer_failed", False)


# What the model sees -------------------------------------------------------------------------


@pytest.mark.parametrize("guidance", ["last", "first"])
async def test_the_objection_ends_the_last_message_of_that_call_alone(guidance: str) -> None:
    speaker = Speaker("How are you? And the cat?", GOOD, "What do you cook?")
    interviewer = guided(speaker, guidance=guidance)
    turns = [turn(1, "And you?", "Well.")]
    question = await interviewer.ask(turns, Guidance(text="## Focus now"))
    await interviewer.ask([*turns, turn(2, question.text)], Guidance(text="## Focus now"))
    first, again, later = speaker.requests
    assert again.messages[:-1] == first.messages[:-1]
    assert again.messages[-1]["content"].startswith(f"{first.messages[-1]['content']}\n\n## Your")
    assert "not sent" not in rendered(later.messages).decode()


async def test_guidance_first_stands_before_the_history() -> None:
    speaker = Speaker(GOOD)
    await guided(speaker, guidance="first").ask([turn(1, "And?", "Well.")], Guidance(text="## Now"))
    messages = speaker.requests[0].messages
    assert messages[0]["content"] == f"{SYSTEM}\n\n## Now"
    assert messages[-1]["content"] == "Well."


async def test_the_calls_settings_and_turn_come_from_conf_and_the_history() -> None:
    speaker = Speaker(GOOD)
    await guided(speaker).ask([turn(1, "And?")], Guidance(text=""))
    request = speaker.requests[0]
    assert (request.turn, request.schema, request.stop) == (2, None, ())
    assert request.settings == settings_of("interviewer/gemma.yaml", GuidedSettings).call


HISTORIES = st.lists(
    st.tuples(
        st.sampled_from(["tree:sadness", "tree:crying/negative", "model", "guard", "fixed"]),
        st.text(min_size=1, max_size=20),
        st.text(max_size=20),
        st.sampled_from([(), ("unscored",)]),
    ),
    max_size=18,
)


@given(
    HISTORIES,
    st.sampled_from(["", "## Focus now"]),
    st.sampled_from([None, StopReason.MAX_MESSAGES]),
    st.sampled_from(["last", "first"]),
)
async def test_roles_always_alternate_from_a_user_to_a_user(
    history: list[tuple[str, str, str, tuple[str, ...]]],
    text: str,
    stop: StopReason | None,
    guidance: str,
) -> None:
    turns = [
        turn(n, asked, reply, source=source).model_copy(update={"flags": flags})
        for n, (source, asked, reply, flags) in enumerate(history, 1)
    ]
    speaker = Speaker("How? Why?")  # unfit in every case, so that the second call is looked at too
    interviewer = guided(speaker, guidance=guidance)
    await interviewer.ask(turns, Guidance(text=text, stop=stop, closing=stop is not None))
    assert len(speaker.requests) == 2
    for request in speaker.requests:
        assert re.fullmatch(r"(system )?(user assistant )*user", roles(request))
        assert roles(request).count("assistant") == len(turns)


@given(st.lists(st.text(max_size=30), min_size=2, max_size=18))
async def test_consecutive_prompts_share_the_whole_earlier_history(replies: list[str]) -> None:
    speaker = Speaker(GOOD, "Which part of it stayed with you?", "Where were you last summer?")
    interviewer, turns = guided(speaker, tree=TREE), list[Turn]()
    for n, reply in enumerate(replies, 1):
        guidance = Guidance(text=f"## Focus now\nsomething else each time: {n}", focus=(n,))
        question = await interviewer.ask(turns, guidance)
        turns.append(Turn(number=n, question=question, answer=Answer(text=reply)))
    for earlier, later in pairwise(speaker.requests):
        history = rendered(earlier.messages[:-1])
        assert rendered(later.messages).startswith(history)
        before, after = (one.messages[len(earlier.messages) - 1] for one in (earlier, later))
        if len(later.messages) == len(earlier.messages):  # the same turn, with an objection
            before, after = after, before
        assert before["content"].startswith(after["content"].strip())
