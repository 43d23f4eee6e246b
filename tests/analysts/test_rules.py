"""The diagnoser without a model: whole reports, from what was said and nothing else."""

import json
from pathlib import Path

import pytest
from reporting import said
from speaker import settings_of

from src.analysts.candidates import Match, matches_of
from src.analysts.cues import load_cues
from src.analysts.reported import read_report
from src.analysts.rules import RuleAnalyst
from src.analysts.signs import Seen, SignReader
from src.clinical.icd11 import Reference
from src.errors import InputError
from src.prompts import ROOT
from src.records import Message
from src.reports import DiagnosticReport, Findings
from src.settings import RuleDiagnosisSettings

REFERENCE = Reference("prompts/icd11")
SETTINGS = settings_of("analyst/diagnosis_offline.yaml", RuleDiagnosisSettings)
CUES = load_cues(SETTINGS.cues.path)
ANALYST = RuleAnalyst(SETTINGS, REFERENCE)
READER = SignReader(CUES)

LOW = said(
    ("What brings you here?", "I feel empty and sad most days, for about three months now."),
    ("What do you still enjoy?", "Nothing gives me any joy. I used to paint, I gave up painting."),
    (
        "How do you sleep?",
        "I wake up at four and lie awake. I'm exhausted, everything is such effort.",
    ),
    ("How is work?", "My work suffers, I can't concentrate and I missed work twice last month."),
    ("Do you take any medication?", "No, nothing."),
    ("Do you drink alcohol, or use drugs?", "No, hardly ever."),
    ("Was there ever a time with much more energy than usual?", "No, never."),
    ("Any thoughts of death?", "No, I don't have such thoughts. I blame myself for a lot, though."),
)
CHECKS = said(
    (
        "What brings you here?",
        "I check the stove again and again before I can leave, for two years.",
    ),
    (
        "What goes through your mind?",
        (
            "I'm terrified that I left the stove on. The thought keeps coming, I know it is silly, "
            "still I go back and look, and then once more, and then I am late for the office. My "
            "boss has noticed. It takes over my life, an hour each morning and one in the evening."
        ),
    ),
)
ORDINARY = said(
    (
        "What brings you here?",
        "My wife wanted me to come. I'm well, I think, a bit bored in winter.",
    ),
    ("How is your mood?", "Fine. I laugh a lot with the grandchildren, we build kites together."),
    ("How do you sleep?", "Fine, seven hours and more, with the window open as my father did."),
    ("Do you worry a lot?", "No, not really. I read the paper and then I do the garden."),
    ("And with alcohol?", "No, a beer at a wedding. I walk and swim and look after the hens."),
)


async def findings(transcript: tuple[Message, ...]) -> tuple[DiagnosticReport, Findings]:
    found = await ANALYST.diagnose(transcript)
    assert isinstance(found.report, DiagnosticReport)
    return found.report, found


def seen(answer: str, question: str = "Go on?") -> dict[str, str]:
    """Return the state of each sign of one answer."""
    return {name: one.state for name, one in READER.read(said((question, answer))).items()}


# whole reports ------------------------------------------------------------------------------


@pytest.mark.parametrize("transcript", [LOW, CHECKS, ORDINARY], ids=["low", "checks", "ordinary"])
async def test_its_report_is_one_that_a_model_could_have_sent(
    transcript: tuple[Message, ...],
) -> None:
    report, _ = await findings(transcript)
    assert read_report(report.model_dump_json(), DiagnosticReport) == report


@pytest.mark.parametrize(("transcript", "code"), [(LOW, "6A70"), (CHECKS, "6B20")])
async def test_a_plain_picture_is_named(transcript: tuple[Message, ...], code: str) -> None:
    report, found = await findings(transcript)
    assert found.hypotheses[0].base == code
    assert found.hypotheses[0].title == REFERENCE.title(code)
    assert report.ranked_differential[0].code == code


async def test_nothing_is_named_where_nothing_is_wrong() -> None:
    report, found = await findings(ORDINARY)
    assert found.hypotheses == ()
    assert report.data_sufficiency.level != "insufficient"


async def test_nothing_is_named_where_little_was_said() -> None:
    short = said(("What brings you here?", "I feel sad and exhausted, nothing gives me joy."))
    report, found = await findings(short)
    assert (report.data_sufficiency.level, found.hypotheses) == ("insufficient", ())
    assert report.ranked_differential[0].code == "6A70"


async def test_nothing_is_named_where_life_goes_on_undisturbed() -> None:
    asked = "Does it affect your work or your family?"
    named = (await findings(CHECKS))[1]
    assert named.hypotheses
    told = ("What brings you here?", CHECKS[1].text + " The thought keeps coming. " + "Well. " * 60)
    _, found = await findings(said(told, (asked, "No, not at all.")))
    assert found.hypotheses == ()


async def test_what_nobody_asked_is_unassessed_and_what_was_denied_is_denied() -> None:
    report, _ = await findings(LOW)
    states = {entry.finding: entry.state for entry in report.evidence}
    assert states[CUES.signs["high_mood"].finding] == "denied"
    assert states[CUES.signs["low_mood"].finding] == "present"
    short, _ = await findings(
        said(("What brings you?", "I keep checking the door again and again."))
    )
    states = {entry.finding: entry.state for entry in short.evidence}
    assert states[CUES.signs["obsession"].finding] == "unassessed"
    assert CUES.signs["high_mood"].finding not in states


async def test_evidence_quotes_the_person_and_says_since_when() -> None:
    report, _ = await findings(LOW)
    entry = next(e for e in report.evidence if e.finding == CUES.signs["low_mood"].finding)
    assert (
        "exchange 1: “I feel empty and sad most days, for about three months now.”" in entry.source
    )
    assert entry.timeframe != CUES.lines.no_timeframe
    assert entry.salience == "decisive"


async def test_every_candidate_was_looked_up() -> None:
    report, found = await findings(LOW)
    codes = [json.loads(use.arguments)["code"] for use in found.tools]
    assert codes == [candidate.code for candidate in report.ranked_differential]
    assert [use.output for use in found.tools] == [REFERENCE.disorder(code) for code in codes]
    assert found.calls == ()


async def test_support_and_confidence_come_from_different_things() -> None:
    """The same signs, once with and once without time, damage and other causes (D5)."""
    told = (
        "I feel sad, nothing gives me joy, I'm exhausted, I lie awake and I have no appetite. I "
        "hate myself and I can't concentrate. I tell you this as it is, I would not know what else "
        "to add, since there is nothing behind it that I could name to you or anybody. That is how "
        "it has become, and the days go by like that, one like the other, and so on and on."
    )
    bare, _ = await findings(said(("What brings you?", told)))
    full, _ = await findings(
        said(
            ("What brings you?", told),
            ("Since when?", "I feel so sad for six months now."),
            ("And work?", "I lost my job."),
            ("Any medication?", "No."),
        )
    )
    same = [report.ranked_differential[0] for report in (bare, full)]
    assert [(one.code, one.support) for one in same] == [("6A70", "high")] * 2
    assert bare.final_hypotheses[0].confidence != full.final_hypotheses[0].confidence


async def test_other_explanations_are_told_denied_or_not_gone_into() -> None:
    report, _ = await findings(LOW)
    told = {one.explanation: one.assessment for one in report.alternative_explanations}
    assert len(told) == 4
    assert told["Medicines"].startswith(CUES.lines.denied)
    assert told["Neurological or other bodily illness"] == CUES.lines.unassessed


@pytest.mark.parametrize(
    ("question", "answer", "current"),
    [
        ("Do you think of hurting yourself?", "No, never.", "not_indicated"),
        ("What is your job?", "I am a baker.", "not_assessed"),
        ("How bad is it?", "I don't want to live anymore.", "indicated"),
        ("Do you think of hurting yourself?", "Yes.", "indicated"),
        ("How bad is it?", "I am going to kill him tonight.", "indicated"),
    ],
)
async def test_danger_is_judged_apart_from_disorders(
    question: str, answer: str, current: str
) -> None:
    report, _ = await findings(said((question, answer)))
    assert report.safety_assessment.current == current


async def test_a_language_without_cues_leads_to_no_name() -> None:
    told = "غمگینم و شب نمی‌خوابم. " * 20
    report, found = await findings(said(("چه شد؟", told)))
    assert (found.hypotheses, report.ranked_differential) == ((), ())


async def test_what_is_said_decides_and_not_who_runs_it() -> None:
    first, again = [(await findings(LOW))[1] for _ in range(2)]
    assert first == again
    assert (await RuleAnalyst(SETTINGS, REFERENCE).diagnose(LOW)) == first


# signs --------------------------------------------------------------------------------------


def test_a_sign_is_present_denied_or_open() -> None:
    assert seen("I feel sad.")["low_mood"] == "present"
    assert seen("I don't feel sad.")["low_mood"] == "denied"
    assert seen("Maybe I feel sad.")["low_mood"] == "unclear"
    assert "low_mood" not in seen("My sister feels sad.")
    assert seen("My father beat me for years.")["trauma"] == "present"
    assert seen("Years ago I was depressed.")["low_mood"] == "unclear"


def test_a_short_answer_takes_its_topic_from_the_question() -> None:
    asked = "Do you hear voices?"
    assert seen("No, never.", asked)["voices"] == "denied"
    assert seen("Yes.", asked)["voices"] == "present"
    assert seen("Well, that is a strange question.", asked)["voices"] == "unclear"
    told = "That comes in the evening, when the house is quiet and I am by myself."
    assert seen(told, asked)["voices"] == "present"
    assert seen("All is well in that respect, as far as I am able to judge.", asked) == {
        "voices": "denied"
    }
    assert "voices" not in seen("No, never.", "I do not mean that you hear voices.")


def test_a_yes_to_several_things_at_once_leaves_each_open() -> None:
    asked = "Do you hear voices, or have panic attacks?"
    assert {seen("Yes.", asked)[name] for name in ("voices", "panic")} == {"unclear"}
    assert {seen("No.", asked)[name] for name in ("voices", "panic")} == {"denied"}


def test_what_is_affirmed_and_denied_as_often_is_left_open() -> None:
    told = said(("How?", "I feel sad."), ("Sure?", "I don't feel sad."))
    assert READER.read(told)["low_mood"].state == "unclear"


def test_what_the_interviewer_supposes_is_no_finding() -> None:
    assert seen("The weather is mild.", "You feel sad and hear voices. Go on.") == {}


def test_a_sign_that_speaks_against_costs_a_candidate_its_lead() -> None:
    def lead(answer: str) -> Match:
        return matches_of(READER.read(said(("What?", answer))), CUES)[0]

    eats = "I binge and can't stop eating."
    assert lead(eats).code == "6B82"
    assert lead(f"{eats} Then I make myself sick.").code == "6B81"


@pytest.mark.parametrize("code", CUES.disorders)
def test_no_disorder_of_the_file_is_out_of_reach(code: str) -> None:
    disorder = CUES.disorders[code]
    one = Seen(state="present", exchange=1, quote="Yes.")
    signs = dict.fromkeys((*disorder.core, *disorder.also, *disorder.requires), one)
    only = CUES.model_copy(update={"disorders": {code: disorder}})
    assert [(match.code, match.met) for match in matches_of(signs, only)] == [(code, True)]


# the file -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ("6B01: {core: [panic]", "6B01: {core: [pancake]", "6B01: no sign is called pancake"),
        ("  6B06: {core: [mute]", "  6B06: {core: [speech]", "signs: nothing uses mute"),
        ("  6C00: {core", "  6C0Z: {core", "disorders.6C0Z: has no entry"),
        (
            "said: >-\n      <feel> (so",
            "said: >-\n      <fool> (so",
            "<fool> is used and not there",
        ),
    ],
)
def test_a_malformed_cue_file_is_refused_in_one_line(
    old: str, new: str, line: str, tmp_path: Path
) -> None:
    text = (ROOT / SETTINGS.cues.path).read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "cues.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    settings = settings_of("analyst/diagnosis_offline.yaml", RuleDiagnosisSettings, cues=str(path))
    with pytest.raises(InputError) as refused:
        RuleAnalyst(settings, REFERENCE)
    assert line in str(refused.value)
    assert "\n" not in str(refused.value)
