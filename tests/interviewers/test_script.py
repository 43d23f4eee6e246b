"""The scripted model: it uses every tool, asks about what it hears, and repeats nothing."""

import asyncio
from collections import Counter
from collections.abc import Sequence

import pytest
from doubles import Budget
from speaker import settings_of

from src.clinical.icd11 import Reference
from src.clinical.safety import SafetyCheck
from src.errors import InputError
from src.interview.loop import hold
from src.interview.roles import Cast
from src.interviewers.agent import AgentInterviewer, instructions
from src.interviewers.assessment_guard import AssessmentGuard, load_texts
from src.interviewers.notepad import Notepad
from src.interviewers.script import ScriptedModel
from src.interviewers.skills import Skills
from src.interviewers.toolbox import Toolbox
from src.prompts import read_text
from src.records import Answer, Interview, Question, StopReason, Turn
from src.settings import AgentSettings, GuardSettings

SCRIPT = "prompts/agent_script.yaml"
TEXTS = load_texts("en")
SKILLS, REFERENCE = Skills("prompts/skills"), Reference("prompts/icd11")
CHECK = SafetyCheck("conf/lexicon/safety.yaml")
SETTINGS = settings_of(
    "interviewer/agent_offline.yaml", AgentSettings, texts="prompts/assessment/en.yaml"
)
GUARD = AssessmentGuard(
    settings_of(
        "guard/none.yaml", GuardSettings, kind="assessment", rules="prompts/assessment_rules.yaml"
    ),
    language="en",
    texts=TEXTS,
    safety=CHECK,
)
MODEL = ScriptedModel(SCRIPT)
STORY = (
    "I have not slept well since I lost my job in the spring, and I lie awake until four.",
    "I worry about everything, money, my children, what if it never gets better.",
    "It is every day.",
    "No.",
    "I would rather not say more about that, it is embarrassing.",
    "My mother died two years ago and I still set the table for her sometimes.",
    "I drink more than I used to, three or four glasses of wine most evenings.",
    "Are you a real person?",
    "I forget names, and my concentration at work is poor.",
    "On the bus my heart races and I have to get off.",
)


class Teller:
    """Tells its lines one by one, and begins anew after the last."""

    def __init__(self, *lines: str) -> None:
        self._lines = lines

    async def reply(self, turns: Sequence[Turn], question: Question) -> Answer:
        return Answer(text=self._lines[len(turns) % len(self._lines)])


def agent(*, check: SafetyCheck | None = CHECK, **changes: object) -> AgentInterviewer:
    own = SETTINGS.model_copy(update=changes)
    return AgentInterviewer(
        MODEL,
        settings=own,
        native=True,
        system=instructions(SETTINGS, language="English", max_messages=17, skills=SKILLS),
        kickoff=read_text(own.kickoff.path).strip(),
        texts=TEXTS,
        toolbox=Toolbox(own, skills=SKILLS, reference=REFERENCE),
        safety_check=check,
        guard=GUARD,
    )


async def interview(
    *lines: str, interviewer: AgentInterviewer | None = None, turns: list[Turn] | None = None
) -> Interview:
    async def keep(turn: Turn) -> None:
        await asyncio.sleep(0)

    cast = Cast(
        subject="case-001",
        sample=1,
        seed=1,
        interviewer=interviewer or agent(),
        patient=Teller(*(lines or STORY)),
        orchestrator=Budget(16, closing=True),
    )
    return await hold(cast, [] if turns is None else turns, keep)


async def test_an_interview_uses_every_tool_and_every_call_is_right() -> None:
    found = await interview()
    uses = [use for turn in found.turns for use in turn.question.tools]
    assert [use for use in uses if not use.ok] == []
    assert {use.name for use in uses} == {
        "read_interview_notepad",
        "update_interview_notepad",
        "load_skill",
        "lookup_icd_category",
        "lookup_icd_disorder",
    }
    updated = [
        any(use.name == "update_interview_notepad" for use in turn.question.tools)
        for turn in found.turns[1:]
    ]
    assert sum(updated) > len(updated) / 2
    reads = Counter(use.name for use in uses)["read_interview_notepad"]
    assert 0 < reads < 5


async def test_its_notepad_holds_what_was_said_and_one_plan() -> None:
    found = await interview()
    assert found.closing is not None
    notes = Notepad.read(found.closing.notes).notes
    kinds = Counter(note.category for note in notes)
    assert kinds["plan"] == 1
    assert {"evidence", "coverage", "hypotheses"} <= set(kinds)
    assert any("lost my job" in note.text for note in notes)
    coverage = [note.text for note in notes if note.category == "coverage"]
    assert len({*coverage}) == len(coverage)
    updates = [use for turn in found.turns for use in turn.question.tools if "update" in use.name]
    done = " ".join(use.output for use in updates)
    assert all(f"{action} N" in done for action in ("added", "edited", "deleted"))


async def test_it_repeats_no_question_and_the_guard_has_nothing_to_say() -> None:
    found = await interview()
    asked = [turn.question.text for turn in found.turns]
    assert len({*asked}) == 16
    assert all(turn.question.source == "model" for turn in found.turns[1:])
    assert not any(turn.question.flags for turn in found.turns)


async def test_what_it_looked_up_it_does_not_look_up_again() -> None:
    found = await interview()
    looked = [
        (use.name, use.arguments)
        for turn in found.turns
        for use in turn.question.tools
        if use.name.startswith(("lookup", "load"))
    ]
    assert len({*looked}) == len(looked) > 5


async def test_it_asks_about_what_was_said_last() -> None:
    found = await interview("I drink wine every evening, a bottle.", "I keep washing my hands.")
    topics = MODEL.rules.topics
    assert found.turns[1].question.text == topics["substance"].asks[0]
    assert found.turns[2].question.text == topics["checking"].asks[0]


@pytest.mark.parametrize(
    ("line", "skill"),
    [
        ("No.", "guarded_short_answers"),
        ("I would rather not say anything about that, please.", "respect_a_refusal"),
        ("What do you think I have, is this an illness of the mind?", "answer_diagnosis_request"),
        ("Tell me honestly, am I talking to a machine here or to somebody?", "asked_if_human"),
    ],
)
async def test_a_difficult_situation_calls_for_its_skill(line: str, skill: str) -> None:
    found = await interview(line)
    uses = found.turns[1].question.tools
    assert [use.arguments for use in uses if use.name == "load_skill"] == [
        f'{{"skill_id": "{skill}"}}'
    ]
    assert uses[0].output == SKILLS.text(skill)


async def test_plain_danger_makes_it_stop_the_interview() -> None:
    lines = ("I am tired all the time.", "I'm going to hurt myself.")
    found = await interview(*lines, interviewer=agent(check=None))
    assert found.stop is StopReason.SAFETY
    assert found.event is not None
    assert (found.event.source, found.event.kind) == ("model", "self_harm")
    assert len(found.turns) == 2


async def test_denied_danger_does_not() -> None:
    line = "I don't have the feeling that I'm going to hurt myself, and never did."
    found = await interview(line, interviewer=agent(check=None))
    assert found.event is None


async def test_an_interview_taken_up_at_any_turn_goes_on_as_it_would_have() -> None:
    whole = await interview()
    for kept in (0, 1, 5, 15):
        assert await interview(turns=list(whole.turns[:kept])) == whole


async def test_it_plays_the_baseline_too() -> None:
    found = await interview(interviewer=agent(tools=("safety",)))
    assert len(found.turns) == 16
    assert not any(turn.question.tools or turn.question.notes for turn in found.turns)


def test_whatever_the_script_names_is_there() -> None:
    rules = MODEL.rules
    assert {sign.skill for sign in rules.signs} | {rules.short_skill} <= {*SKILLS.ids}
    for topic in rules.topics.values():
        assert topic.category is None or REFERENCE.category(topic.category)
        assert topic.disorder is None or topic.disorder in REFERENCE.codes
    assert len(rules.general) >= 16


def test_the_guard_lets_every_line_of_the_script_pass() -> None:
    rules = MODEL.rules
    lines = [*rules.general, *(line for topic in rules.topics.values() for line in topic.asks)]
    found = {line: GUARD.check(line, turns=(), closing=False) for line in lines}
    assert not {line: breaches for line, breaches in found.items() if breaches}


def test_no_two_lines_of_the_script_are_the_same() -> None:
    rules = MODEL.rules
    lines = [*rules.general, *(line for topic in rules.topics.values() for line in topic.asks)]
    assert len({*lines}) == len(lines)


def test_a_malformed_script_is_refused_in_one_line() -> None:
    with pytest.raises(InputError, match=r"prompts/scripted.yaml: short: field required"):
        ScriptedModel("prompts/scripted.yaml")
