"""The tool-using interviewer: what is fixed, what is recorded, and that prompts only grow."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from calling import GEMMA, LUNA, Book, caller, model_settings
from doubles import Budget
from fake_plan import Fault, Plan, ToolPlay, served
from fake_server import FakeServer
from speaker import CUT, settings_of

from src.clinical.icd11 import Reference
from src.clinical.safety import SafetyCheck
from src.errors import InterviewerFailed, ModelFailed
from src.interview.loop import hold
from src.interview.roles import Cast
from src.interviewers.agent import CAPPED, CUT_OFF, AgentInterviewer, instructions
from src.interviewers.assessment_guard import AssessmentGuard, load_texts
from src.interviewers.notepad import Notepad
from src.interviewers.skills import Skills
from src.interviewers.toolbox import Toolbox, load_tools
from src.llm.caller import Asking, Reply, Request
from src.llm.client import Model
from src.llm.responses import ToolCall
from src.prompts import read_text
from src.records import (
    Answer,
    Call,
    Guidance,
    Interview,
    Question,
    SafetyEvent,
    StopReason,
    Turn,
    visible,
)
from src.settings import AgentSettings, GuardSettings

TEXTS = load_texts("en")
SKILLS, REFERENCE = Skills("prompts/skills"), Reference("prompts/icd11")
CHECK = SafetyCheck("conf/lexicon/safety.yaml")
GUARD = AssessmentGuard(
    settings_of(
        "guard/none.yaml",
        GuardSettings,
        kind="assessment",
        rules="prompts/assessment_rules.yaml",
    ),
    language="en",
    texts=TEXTS,
    safety=CHECK,
)
URGENT = "I have a plan and I am going to kill myself tonight."
WISH = "Sometimes I wish I would not wake up any more."
WISH_TO_STOP = "I'm tired of this. I'd like to stop here, if that is all right."
END = Guidance(text="Time to end.", stop=StopReason.MAX_MESSAGES, closing=True)
ON = Guidance(text="")
NOTE = {"action": "add", "id": None, "category": "evidence", "text": "tired since May"}
UPDATE = ("update_interview_notepad", json.dumps({"actions": [NOTE]}))
LOOKUP = ("lookup_icd_disorder", '{"code": "6A70"}')
STOP = ("safety_stop", '{"kind": "self_harm", "reason": "says goodbye"}')
GOOD = "Thank you. Since when have you been so tired?"
BAD = "You have depression, I am sure. Since when?"
WAYS = pytest.mark.parametrize("native", [True, False], ids=["native", "schema"])
PLAYS: tuple[ToolPlay, ...] = (
    *("usual", "none", "unknown", "bad_ids", "malformed", "endless", "many"),
)


def settings(name: str = "agent", **changes: object) -> AgentSettings:
    usual = {"models": ["gpt6luna"], "texts": "prompts/assessment/en.yaml"}
    return settings_of(f"interviewer/{name}.yaml", AgentSettings, **usual, **changes)


def agent(
    asking: Asking,
    *,
    name: str = "agent",
    native: bool = True,
    guard: AssessmentGuard | None = GUARD,
    **changes: object,
) -> AgentInterviewer:
    own = settings(name, **changes)
    return AgentInterviewer(
        asking,
        settings=own,
        native=native,
        system=instructions(own, language="English", max_messages=17, skills=SKILLS),
        kickoff=read_text(own.kickoff.path).strip(),
        texts=TEXTS,
        toolbox=Toolbox(own, skills=SKILLS, reference=REFERENCE),
        safety_check=CHECK,
        guard=guard,
    )


class Voice:
    """Gives replies one by one, the last for ever: texts, tool calls, failures."""

    def __init__(self, *replies: str | list[tuple[str, str]] | ModelFailed) -> None:
        self._replies, self.requests = replies, list[Request]()

    async def ask(self, request: Request) -> Reply:
        self.requests.append(request)
        reply = self._replies[min(len(self.requests), len(self._replies)) - 1]
        if isinstance(reply, ModelFailed):
            raise reply
        call = Call(role="interviewer", asked="double", attempt=len(self.requests))
        if isinstance(reply, str):
            return Reply(text=reply, truncated=reply.endswith(CUT), calls=(call,))
        calls = tuple(ToolCall(id="c", name=name, arguments=given) for name, given in reply)
        return Reply(text="", truncated=False, calls=(call,), tool_calls=calls)


@dataclass
class Person:
    """Tells a little more each time; at one turn says something else."""

    turn: int = 0
    says: str = ""
    asked: list[str] = field(default_factory=list)

    async def reply(self, turns: Sequence[Turn], question: Question) -> Answer:
        self.asked.append(question.text)
        if len(turns) + 1 == self.turn:
            return Answer(text=self.says)
        return Answer(text=f"I am tired, for the {len(turns) + 1}th time. My job wears me out.")


async def interview(
    interviewer: AgentInterviewer,
    person: Person | None = None,
    *,
    turns: list[Turn] | None = None,
    budget: int = 16,
) -> Interview:
    async def keep(turn: Turn) -> None:
        await asyncio.sleep(0)

    cast = Cast(
        subject="case-001",
        sample=1,
        seed=1,
        interviewer=interviewer,
        patient=person or Person(),
        orchestrator=Budget(budget, closing=True),
    )
    return await hold(cast, [] if turns is None else turns, keep)


def turn(number: int, reply: str = "I am tired.") -> Turn:
    text = TEXTS.greeting if number == 1 else f"And what is number {number} like?"
    question = Question(text=text, source="fixed" if number == 1 else "model")
    return Turn(number=number, question=question, answer=Answer(text=reply))


@asynccontextmanager
async def server_of(
    play: ToolPlay, *faults: Fault, native: bool
) -> AsyncIterator[tuple[FakeServer, Asking]]:
    """Yield a server whose model has room for all that was looked up, and the way to it."""
    models = (served(LUNA), served(GEMMA, context=400_000))
    plan = Plan(tools=play, faults=faults, models=models)
    async with asyncio.timeout(60), FakeServer(plan) as server:
        own = model_settings(server.url, LUNA if native else GEMMA, context=400_000)
        model = Model(own, "k")
        try:
            yield server, caller(model, Book())
        finally:
            await model.close()


# What no model writes ---------------------------------------------------------------------------


async def test_the_greeting_is_fixed_and_asks_no_model() -> None:
    voice = Voice(GOOD)
    first = await agent(voice).ask([], ON)
    assert (first.text, first.source, first.stop) == (TEXTS.greeting, "fixed", None)
    assert not voice.requests


async def test_after_the_budget_the_goodbye_is_fixed() -> None:
    voice = Voice(GOOD)
    last = await agent(voice).ask([turn(1), turn(2)], END)
    assert (last.text, last.source) == (TEXTS.closing, "fixed")
    assert not voice.requests


async def test_urgent_danger_stops_before_any_request_and_stays_open_for_review() -> None:
    voice, person = Voice(GOOD), Person(turn=3, says=URGENT)
    found = await interview(agent(voice, guard=None), person)
    assert found.stop is StopReason.SAFETY
    assert found.closing is not None
    assert (found.closing.text, found.closing.source) == (TEXTS.safety, "fixed")
    assert found.event == SafetyEvent(source="check", kind="self_harm", reason=URGENT)
    assert found.event.review == "open"
    assert len(found.turns) == len(person.asked) == 3
    assert len(voice.requests) == 2


async def test_the_models_own_stop_is_the_last_request_of_the_interview() -> None:
    voice, person = Voice(GOOD, [UPDATE], [STOP], GOOD), Person()
    found = await interview(agent(voice), person)
    assert found.stop is StopReason.SAFETY
    assert found.event == SafetyEvent(source="model", kind="self_harm", reason="says goodbye")
    assert found.closing is not None
    assert found.closing.text == TEXTS.safety
    assert [use.name for use in found.closing.tools] == [UPDATE[0], STOP[0]]
    assert len(found.closing.calls) == 2
    assert "N001 tired since May" in (found.closing.notes or "")
    assert len(voice.requests) == len(found.turns) + 1 == 3
    assert len(person.asked) == 2


async def test_whoever_asks_to_stop_is_let_go() -> None:
    voice = Voice(GOOD)
    found = await interview(agent(voice, guard=None), Person(turn=4, says=WISH_TO_STOP))
    assert found.stop is StopReason.PARTICIPANT
    assert found.closing is not None
    assert (found.closing.text, found.event) == (TEXTS.participant_stop, None)
    assert len(voice.requests) == 3


@pytest.mark.parametrize(
    ("reply", "ends"),
    [
        (WISH_TO_STOP, True),
        ("Can we please stop here?", True),
        ("I don't want to answer any more questions.", True),
        ("Honestly, I want to end this conversation.", True),
        ("I don't want to stop here, there is more.", False),
        ("I want to stop drinking.", False),
        ("I'd like to stop worrying so much.", False),
        ("I can't go on like this.", False),
        ("We had to stop there on the way.", False),
    ],
)
async def test_a_person_who_asks_to_stop_is_told_apart(reply: str, ends: bool) -> None:
    question = await agent(Voice(GOOD), guard=None).ask([turn(1), turn(2, reply)], ON)
    assert (question.stop is StopReason.PARTICIPANT) is ends


@pytest.mark.parametrize("reply", ["I want to end it all.", "I want to end my life here, tonight."])
async def test_who_wants_to_end_it_all_is_in_danger_and_not_let_go(reply: str) -> None:
    question = await agent(Voice(GOOD), guard=None).ask([turn(1), turn(2, reply)], ON)
    assert question.stop is not StopReason.PARTICIPANT
    assert CHECK.danger(reply, previous=[TEXTS.greeting]) is not None


async def test_danger_comes_before_every_other_end() -> None:
    urgent = turn(2, f"{WISH_TO_STOP} {URGENT}")
    last = await agent(Voice(GOOD)).ask([turn(1), urgent], END)
    assert (last.text, last.stop) == (TEXTS.safety, StopReason.SAFETY)


async def test_without_the_check_only_the_model_stops() -> None:
    voice = Voice(GOOD)
    own = settings()
    bare = AgentInterviewer(
        voice,
        settings=own,
        native=True,
        system="s",
        kickoff="k",
        texts=TEXTS,
        toolbox=Toolbox(own, skills=SKILLS, reference=REFERENCE),
        safety_check=None,
        guard=None,
    )
    assert (await bare.ask([turn(1, URGENT)], ON)).text == GOOD


async def test_a_whole_interview_is_a_greeting_fifteen_replies_and_a_goodbye() -> None:
    voice = Voice(*[f"{GOOD} And the {n}th?" for n in range(1, 16)])
    found = await interview(agent(voice, guard=None))
    sources = [one.question.source for one in found.turns]
    assert sources == ["fixed", *["model"] * 15]
    assert found.closing is not None
    assert (found.closing.source, found.messages) == ("fixed", 17)
    assert found.stop is StopReason.MAX_MESSAGES


# What is recorded and sent again ------------------------------------------------------------------


async def test_tools_notes_and_calls_stand_in_the_question_and_nowhere_visible() -> None:
    voice = Voice([UPDATE, LOOKUP], GOOD)
    question = await agent(voice).ask([turn(1)], ON)
    assert (question.text, question.source) == (GOOD, "model")
    assert [(use.name, use.arguments, use.ok) for use in question.tools] == [
        (*UPDATE, True),
        (*LOOKUP, True),
    ]
    assert "Single episode depressive disorder" in question.tools[1].output
    assert question.tools[0].output.startswith("1. added N001 (evidence)\n\nevidence:\nN001 tired")
    assert Notepad.read(question.notes).notes[0].text == "tired since May"
    assert len(question.calls) == 2
    seen = visible([Turn(number=1, question=question, answer=Answer(text="May."))])
    assert [message.text for message in seen] == [GOOD, "May."]


async def test_the_next_turn_goes_on_from_the_notes_whatever_was_said_between() -> None:
    first = await agent(Voice([UPDATE], GOOD)).ask([turn(1)], ON)
    later = [turn(1), Turn(number=2, question=first, answer=Answer(text="May."))]
    again = await agent(Voice([UPDATE], GOOD)).ask(later, ON)
    assert [note.id for note in Notepad.read(again.notes).notes] == ["N001", "N002"]
    silent = await agent(Voice("And how do you sleep?")).ask(later, ON)
    assert silent.notes == first.notes
    assert (await agent(Voice(GOOD)).ask(later, END)).notes == first.notes


@WAYS
@pytest.mark.parametrize("play", PLAYS)
async def test_whatever_the_model_calls_the_record_is_valid_and_every_prompt_grows(
    play: ToolPlay, native: bool
) -> None:
    async with server_of(play, native=native) as (server, asking):
        found = await interview(agent(asking, native=native, guard=None, rounds=5))
        bodies = server.bodies_of("interviewer")
    assert Interview.model_validate_json(found.model_dump_json()) == found
    assert (found.stop, len(found.turns)) == (StopReason.MAX_MESSAGES, 16)
    assert all(one.question.text.strip() for one in found.turns)
    prompts = [body["messages"] for body in bodies]
    assert sum(len(one.question.calls) for one in found.turns) == len(prompts)
    growing = [p for p in prompts if not str(p[-1]["content"]).startswith("the answer is no")]
    for one, after in pairwise(growing):
        assert json.dumps(after[: len(one)]) == json.dumps(one)
    capped = [CAPPED in one.question.flags for one in found.turns[1:]]
    assert all(capped) if play == "endless" else not any(capped)
    uses = [use for one in found.turns for use in one.question.tools]
    assert any(use.ok for use in uses) == (play in {"usual", "endless", "many"})
    assert bool(uses) == (play != "none" and (native or play != "malformed"))


@WAYS
async def test_an_interview_taken_up_at_any_turn_sends_the_same(native: bool) -> None:
    async with server_of("usual", native=native) as (server, asking):
        whole = await interview(agent(asking, native=native, guard=None), budget=6)
        sent = server.bodies_of("interviewer")
        for kept in range(7):
            before = len(server.chats)
            turns = list(whole.turns[:kept])
            found = await interview(agent(asking, native=native, guard=None), turns=turns, budget=6)
            assert found.model_copy(update={"turns": ()}) == whole.model_copy(update={"turns": ()})
            assert [texts(one) for one in found.turns] == [texts(one) for one in whole.turns]
            resent = server.bodies_of("interviewer")[before:]
            assert resent == sent[len(sent) - len(resent) :]


def texts(one: Turn) -> tuple[object, ...]:
    """Return a turn without how long its calls took."""
    return one.number, one.question.model_copy(update={"calls": ()}), one.answer


async def test_by_schema_the_roles_alternate_strictly() -> None:
    async with server_of("usual", native=False) as (server, asking):
        await interview(agent(asking, native=False, guard=None), budget=4)
        for body in server.bodies_of("interviewer"):
            roles = " ".join(message["role"] for message in body["messages"])
            assert re.fullmatch(r"system (user assistant )*user", roles)


async def test_the_notes_of_an_answer_that_is_resumed_are_not_lost_in_json() -> None:
    question = await agent(Voice([UPDATE], GOOD)).ask([turn(1)], ON)
    again = Question.model_validate_json(question.model_dump_json())
    assert Notepad.read(again.notes) == Notepad.read(question.notes)


# Wrong ids ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "arguments", "line"),
    [
        ("load_skill", {"skill_id": "guarded_short"}, "nearest: guarded_short_answers"),
        ("lookup_icd_disorder", {"code": "6A75"}, "'6A75' is no code of this reference; nearest: "),
        ("lookup_icd_category", {"category": "Weather"}, "'Weather' is no family or code here"),
        ("update_interview_notepad", {"actions": []}, "the batch is empty"),
        (
            "update_interview_notepad",
            {"actions": [{"action": "edit", "id": "N007", "category": None, "text": "x"}]},
            "no entry has the id 'N007'",
        ),
    ],
)
async def test_a_wrong_id_is_answered_with_what_was_meant(
    name: str, arguments: dict[str, Any], line: str
) -> None:
    voice = Voice([(name, json.dumps(arguments))], GOOD)
    question = await agent(voice).ask([turn(1)], ON)
    assert question.text == GOOD
    assert not question.tools[0].ok
    assert line in question.tools[0].output


async def test_every_tool_of_the_sheet_can_be_used() -> None:
    given: dict[str, dict[str, Any]] = {
        "read_interview_notepad": {},
        "update_interview_notepad": {"actions": [NOTE]},
        "load_skill": {"skill_id": "guarded_short_answers"},
        "lookup_icd_category": {"category": "Mood"},
        "lookup_icd_disorder": {"code": "6B00"},
        "safety_stop": {"kind": "abuse", "reason": "r"},
    }
    assert list(load_tools()) == list(given)
    voice = Voice([(name, json.dumps(arguments)) for name, arguments in given.items()])
    question = await agent(voice).ask([turn(1)], ON)
    assert all(use.ok and use.output for use in question.tools)
    assert len(question.tools) == len(given)


# The guard ----------------------------------------------------------------------------------------


@WAYS
async def test_a_refused_draft_is_written_anew_once_without_tools(native: bool) -> None:
    voice = (
        Voice([UPDATE], BAD, GOOD)
        if native
        else Voice(
            json.dumps({"tool": UPDATE[0]} | json.loads(UPDATE[1])),
            json.dumps({"tool": "none", "message": BAD}),
            json.dumps({"tool": "none", "message": GOOD}),
        )
    )
    question = await agent(voice, native=native).ask([turn(1)], ON)
    assert (question.text, question.source) == (GOOD, "model")
    assert "diagnosis" in question.flags
    assert len(question.calls) == 3
    assert [use.name for use in question.tools] == [UPDATE[0]]
    draft, again = voice.requests[1:]
    assert again.messages[: len(draft.messages)] == draft.messages
    assert [message["role"] for message in again.messages[-2:]] == ["assistant", "user"]
    assert BAD in again.messages[-2]["content"]
    assert again.tool_choice == "none" or again.schema is not None


async def test_what_is_refused_twice_becomes_a_safe_line_and_the_work_is_kept() -> None:
    question = await agent(Voice([UPDATE], BAD)).ask([turn(1)], ON)
    assert (question.text, question.source) == (TEXTS.safe_lines[0], "guard")
    assert "diagnosis" in question.flags
    assert "N001" in (question.notes or "")
    assert len(question.calls) == 3


async def test_a_model_with_nothing_better_is_replaced_by_a_safe_line() -> None:
    question = await agent(Voice(BAD, ModelFailed("no", kind="refused"))).ask([turn(1)], ON)
    assert question.source == "guard"


def by(native: bool, *replies: str | tuple[str, str]) -> Voice:
    """Return a voice that speaks and calls in one of the two ways."""
    if native:
        return Voice(*[reply if isinstance(reply, str) else [reply] for reply in replies])
    told = (
        {"tool": "none", "message": reply}
        if isinstance(reply, str)
        else {"tool": reply[0]} | json.loads(reply[1])
        for reply in replies
    )
    return Voice(*map(json.dumps, told))


@WAYS
async def test_a_draft_that_passes_a_danger_by_may_be_answered_with_the_stop(native: bool) -> None:
    voice = by(native, UPDATE, GOOD, STOP, GOOD)
    last = await agent(voice, native=native).ask([turn(1, WISH)], ON)
    assert (last.text, last.source, last.stop) == (TEXTS.safety, "fixed", StopReason.SAFETY)
    assert last.event == SafetyEvent(source="model", kind="self_harm", reason="says goodbye")
    assert [use.name for use in last.tools] == [UPDATE[0], STOP[0]]
    assert (len(last.calls), last.flags) == (3, ("unanswered_crisis",))
    assert "N001" in (last.notes or "")
    assert len(voice.requests) == 3


@WAYS
async def test_behind_a_refused_draft_no_tool_but_the_stop_is_run(native: bool) -> None:
    answered = "I'm glad you told me that. Are you safe at the moment?"
    voice = by(native, UPDATE, GOOD, UPDATE, answered)
    question = await agent(voice, native=native).ask([turn(1, WISH)], ON)
    assert (question.text, question.source) == (answered, "model")
    assert [(use.name, use.ok) for use in question.tools] == [(UPDATE[0], True), (UPDATE[0], False)]
    assert len(Notepad.read(question.notes).notes) == 1
    keys = [call["id"] for m in voice.requests[-1].messages for call in m.get("tool_calls", ())]
    assert len(keys) == len(set(keys)) == (2 if native else 0)
    assert len(voice.requests) == 4


async def test_a_draft_refused_for_anything_else_calls_nothing() -> None:
    voice = Voice(BAD, [STOP])
    question = await agent(voice).ask([turn(1)], ON)
    assert (question.source, question.tools, question.event) == ("guard", (), None)
    assert voice.requests[1].tool_choice == "none"


async def test_a_refused_draft_leaves_no_trace_in_the_next_prompt() -> None:
    voice = Voice(BAD, GOOD, "How do you sleep?")
    first = await agent(voice).ask([turn(1)], ON)
    turns = [turn(1), Turn(number=2, question=first, answer=Answer(text="May."))]
    await agent(voice).ask(turns, ON)
    draft, _, after = voice.requests
    assert after.messages[: len(draft.messages)] == draft.messages
    assert BAD not in str(after.messages)


async def test_a_message_that_was_cut_off_is_written_anew_or_told() -> None:
    voice = Voice(f"How long{CUT}", GOOD)
    assert (await agent(voice).ask([turn(1)], ON)).text == GOOD
    told = await agent(Voice(f"How long{CUT}"), guard=None).ask([turn(1)], ON)
    assert told.flags == (CUT_OFF,)


# Failures -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", [True, False])
async def test_a_model_that_fails_fails_the_turn_by_kind(transport: bool) -> None:
    failure = ModelFailed("gone", kind="rate_limited", transport=transport)
    with pytest.raises(InterviewerFailed, match="rate_limited: gone") as caught:
        await agent(Voice([UPDATE], failure)).ask([turn(1)], ON)
    assert caught.value.transport is transport


async def test_a_lost_connection_while_writing_anew_is_no_safe_line() -> None:
    lost = ModelFailed("gone", kind="transport_failed", transport=True)
    with pytest.raises(InterviewerFailed):
        await agent(Voice(BAD, lost)).ask([turn(1)], ON)


async def test_a_server_that_only_writes_prose_is_a_typed_failure() -> None:
    async with server_of("usual", Fault(kind="prose"), native=False) as (_, asking):
        with pytest.raises(InterviewerFailed, match="unparseable"):
            await interview(agent(asking, native=False))


# Who has which tools ------------------------------------------------------------------------------


async def test_the_direct_baseline_has_the_stop_alone_and_no_notepad() -> None:
    voice = Voice(GOOD)
    question = await agent(voice, name="direct").ask([turn(1)], ON)
    names = [tool["function"]["name"] for tool in voice.requests[0].tools]
    assert (names, question.notes) == (["safety_stop"], None)
    system = voice.requests[0].messages[0]["content"]
    assert not re.search("notepad|skill|ICD", system)
    found = await interview(agent(Voice([STOP]), name="direct"))
    assert found.stop is StopReason.SAFETY


async def test_tools_come_as_the_settings_name_them() -> None:
    voice = Voice(GOOD)
    await agent(voice, tools=["icd", "safety"], prompt="prompts/direct_interviewer.md").ask(
        [turn(1)], ON
    )
    names = [tool["function"]["name"] for tool in voice.requests[0].tools]
    assert names == ["lookup_icd_category", "lookup_icd_disorder", "safety_stop"]


async def test_without_any_tool_a_model_is_simply_asked() -> None:
    voice = Voice(GOOD)
    asked = agent(voice, native=False, tools=[], prompt="prompts/direct_interviewer.md")
    assert (await asked.ask([turn(1)], ON)).text == GOOD
    assert (voice.requests[0].tools, voice.requests[0].schema) == ((), None)


@pytest.mark.parametrize(("name", "indexed"), [("agent", True), ("direct", False)])
def test_the_instructions_name_language_length_and_skills(name: str, *, indexed: bool) -> None:
    text = instructions(settings(name), language="Persian", max_messages=17, skills=SKILLS)
    assert "Write in Persian" in text
    assert "15 messages" in " ".join(text.split())
    assert ("guarded_short_answers:" in text) is indexed


@WAYS
async def test_any_script_stands_in_the_history_as_it_was_written(native: bool) -> None:
    voice = Voice(GOOD if native else json.dumps({"tool": "none", "message": GOOD}))
    persian = load_texts("fa").greeting
    question = Question(text=persian, source="fixed")
    turns = [Turn(number=1, question=question, answer=Answer(text="خسته‌ام"))]
    await agent(voice, native=native).ask(turns, ON)
    greeting, reply = voice.requests[0].messages[-2:]
    assert persian in greeting["content"]
    assert reply["content"] == "خسته‌ام"


async def test_guidance_is_not_the_agents() -> None:
    voice = Voice(GOOD)
    note = replace_text(ON, "## Focus now")
    await agent(voice).ask([turn(1)], note)
    assert "Focus now" not in str(voice.requests[0])


def replace_text(guidance: Guidance, text: str) -> Guidance:
    return guidance.model_copy(update={"text": text})
