"""Patients that a model plays from a profile or a record: what they are told, sent and fail at."""

import json
import re
import unicodedata
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest
import yaml
from terminal import ROOT

from src.errors import InputError, ModelFailed, PatientFailed
from src.llm.caller import Reply, Request
from src.patients.cases import Case, CaseFile, Reference, load_cases
from src.patients.lora import Signs
from src.patients.profile import (
    PROFILE_PLACES,
    RAW_CASE_PLACES,
    CasePatient,
    raw_role_play,
    role_play,
)
from src.patients.profiles import PatientProfile
from src.prompts import load_prompt, load_yaml
from src.records import Answer, Call, Question, ToolUse, Turn
from src.settings import ProfileSettings, RawCaseSettings

PROFILE_PROMPT = load_prompt("prompts/profile_patient.md", PROFILE_PLACES)
RAW_PROMPT = load_prompt("prompts/raw_case_patient.md", RAW_CASE_PLACES)
SIGNS = load_yaml("prompts/patient_signs.yaml", Signs)
CALL = Call(role="patient", asked="gemma")
QUESTION = Question(text="How was your week?", source="model")
CALM = {"concern": False}
HIDDEN = "hidden-"
"""Begins every text that must reach no model."""


def option(name: str) -> str:
    text = (ROOT / "conf/patient" / f"{name}.yaml").read_text(encoding="utf-8")
    return json.dumps(yaml.safe_load(text) | {"models": ["gemma"]})


PLAYED = ProfileSettings.model_validate_json(option("profile"))
RAW = RawCaseSettings.model_validate_json(option("raw_case"))


def fact(number: int, disclosure: str, **more: Any) -> dict[str, Any]:
    known = disclosure != "clinician_only"
    return {
        "id": f"F{number:02}",
        "kind": "symptom",
        "timing": f"timing-{number}",
        "text": f"fact-{number}",
        "disclosure": disclosure,
        "topics": [f"topic-{number}"] if known else [],
        "says": f"{HIDDEN}words-{number}" if known else "",
    } | more


def profile(**changes: Any) -> PatientProfile:
    """Return a profile whose every text is marked as one to be told or to be kept."""
    concern = {
        "concern": True,
        "timing": "recent",
        "quote": f"{HIDDEN}quote",
        "guidance": "guidance-now",
    }
    content = {
        "case": f"case-{HIDDEN}id",
        "demographics": {
            "name": "Nele Example",
            "sex": "female",
            "age": 33,
            "work": "work-text",
            "home": "home-text",
            "background": "background-text",
        },
        "narrative": ["paragraph-1", "paragraph-2", "paragraph-3"],
        "facts": [
            fact(1, "spontaneous"),
            fact(2, "when_relevant", state="uncertain"),
            fact(3, "when_asked_directly", state="denied"),
            fact(4, "initially_withheld", kind="risk", safety="self_harm"),
            fact(5, "clinician_only", kind="observation", text=f"{HIDDEN}sign", timing=HIDDEN),
            fact(6, "when_relevant", kind="history", safety="vulnerability"),
            fact(7, "when_relevant", origin="elaboration"),
        ],
        "safety": {
            "self_harm": concern,
            "harm_to_others": CALM,
            "vulnerability": CALM | {"past": f"{HIDDEN}past", "guidance": "guidance-past"},
        },
        "manner": {"talk": "talk-text", "traits": "traits-text"},
        "opening": f"{HIDDEN}opening",
        "denials": {
            "harm_to_others": f"{HIDDEN}no",
            "vulnerability": f"{HIDDEN}no",
            "other": f"{HIDDEN}no",
        },
        "provenance": f"{HIDDEN}provenance",
        "reviewed_by": f"{HIDDEN}reviewer",
    }
    return PatientProfile.model_validate(content | changes)


def rendered(language: str = "English", **changes: Any) -> str:
    return role_play(PROFILE_PROMPT, profile(**changes), language=language)


def section(prompt: str, heading: str) -> str:
    """Return what stands below the heading that begins so."""
    return next(
        part for part in re.split(r"^#+ ", prompt, flags=re.MULTILINE) if part.startswith(heading)
    )


@cache
def cases() -> tuple[CaseFile, ...]:
    return load_cases(ROOT / "conf/cases/invented")


def folded(text: str) -> str:
    plain = unicodedata.normalize("NFKC", text).casefold()
    return re.sub(r"[\s\-\u2010-\u2015_.]+", "", plain)


@dataclass
class Model:
    """Answers with one text, and remembers what it was asked."""

    text: str = "Quiet, mostly."
    truncated: bool = False
    asked: list[Request] = field(default_factory=list)

    async def ask(self, request: Request) -> Reply:
        self.asked.append(request)
        return Reply(text=self.text, truncated=self.truncated, calls=(CALL,))


@dataclass
class Broken:
    """Fails as told."""

    error: ModelFailed

    async def ask(self, request: Request) -> Reply:
        raise self.error


def patient(model: Model | Broken, kind: str = "profile") -> CasePatient:
    if kind == "raw_case":
        return CasePatient(model, settings=RAW, system="the record", signs=SIGNS)
    return CasePatient(model, settings=PLAYED, system="the profile", signs=SIGNS)


def test_the_profile_is_told_with_each_fact_under_its_level_of_disclosure() -> None:
    prompt = rendered()
    for heading, texts in {
        "Comes out by itself": ["- fact-1 (timing-1)"],
        "Comes out once": ["- fact-2 (timing-2) [unsure]", "- fact-6 (timing-6)", "- fact-7"],
        "Told only to a question": ["- fact-3 (timing-3)"],
        "Held back": ["- fact-4 (timing-4)"],
    }.items():
        part = section(prompt, heading)
        assert all(text in part for text in texts), heading
        assert part.count("fact-") == len(texts)
    for text in ("Nele Example", "33", "female", "work-text", "home-text", "background-text"):
        assert text in section(prompt, "The person")
    assert "paragraph-1\n\nparagraph-2\n\nparagraph-3" in prompt
    assert "talk-text\ntraits-text" in prompt


def test_safety_is_guidance_where_the_case_tells_of_a_danger_and_none_elsewhere() -> None:
    part = section(rendered(), "Safety")
    assert "Harm to yourself: [recent] guidance-now" in part
    assert "Harm to others: none" in part
    assert "in your care: [over] guidance-past" in part


def test_no_id_label_quote_provenance_or_clinicians_fact_reaches_the_prompt() -> None:
    prompt = rendered()
    assert HIDDEN not in prompt
    assert not re.search(r"\bF\d{2}\b|clinician_only|elaboration|topic-|null|None", prompt)


def test_an_empty_level_is_said_to_be_empty() -> None:
    facts = [fact(n, "when_relevant", kind="risk", safety="self_harm") for n in range(1, 5)]
    facts[3] = fact(4, "when_relevant", kind="history", safety="vulnerability")
    assert "- nothing" in section(rendered(facts=facts), "Comes out by itself")


def test_the_language_is_named_in_both_prompts() -> None:
    case = Case(id="case-x", source="invented", text="A record.")
    assert "Speak Persian" in rendered("Persian")
    assert "Speak Persian" in raw_role_play(RAW_PROMPT, case, language="Persian")


def test_a_raw_case_is_its_text_alone() -> None:
    case = Case(
        id=f"case-{HIDDEN}id",
        source=f"{HIDDEN}source",
        text="A woman who costs $5 and says ${nothing}.",
        references=(Reference(code="6B00", name=f"{HIDDEN}name"),),
        category=f"{HIDDEN}category",
    )
    prompt = raw_role_play(RAW_PROMPT, case, language="English")
    assert prompt.endswith("A woman who costs $5 and says ${nothing}.")
    assert HIDDEN not in prompt
    assert "6B00" not in prompt


def test_no_invented_persons_prompt_names_code_title_or_record() -> None:
    for one in cases():
        assert one.profile is not None
        prompt = role_play(PROFILE_PROMPT, one.profile, language="English")
        plain = folded(prompt)
        for reference in one.case.references:
            assert folded(reference.code) not in plain, one.case.id
            assert folded(reference.name) not in plain, one.case.id
        assert folded("ICD-11") not in plain
        assert one.case.id not in prompt
        for hidden in (fact for fact in one.profile.facts if not fact.known):
            assert hidden.text not in prompt, one.case.id
        sentences = re.findall(r"[^.]{40,}\.", " ".join(one.case.text.split()))
        assert not [s for s in sentences if s.strip() in " ".join(prompt.split())], one.case.id


def test_both_prompts_forbid_diagnoses_and_means() -> None:
    for text in (PROFILE_PROMPT.template, RAW_PROMPT.template):
        assert "diagnosis" in text
        assert "Never say" in text
    assert "no means" in PROFILE_PROMPT.template


def test_a_prompt_without_a_place_for_the_facts_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "prompt.md"
    path.write_text(PROFILE_PROMPT.template.replace("${when_relevant}", ""), encoding="utf-8")
    with pytest.raises(InputError, match=r"prompt\.md: the placeholder \$\{when_relevant\}"):
        load_prompt(path, PROFILE_PLACES)


@pytest.mark.parametrize("kind", ["profile", "raw_case"])
async def test_one_request_holds_the_prompt_and_what_was_said_and_nothing_else(kind: str) -> None:
    asked = Question(
        text="Hello, how are things?",
        source="model",
        notes=f"{HIDDEN}notes",
        tools=(ToolUse(name="icd", arguments=HIDDEN, ok=True, output=HIDDEN),),
    )
    turn = Turn(number=1, question=asked, answer=Answer(text="Quiet.", raw=f"{HIDDEN}raw"))
    model = Model()
    answer = await patient(model, kind).reply([turn], QUESTION)
    (request,) = model.asked
    assert answer == Answer(text="Quiet, mostly.", calls=(CALL,))
    assert [(m["role"], m["content"]) for m in request.messages] == [
        ("system", "the record" if kind == "raw_case" else "the profile"),
        ("user", "Hello, how are things?"),
        ("assistant", "Quiet."),
        ("user", "How was your week?"),
    ]
    assert (request.turn, request.schema, request.tools) == (2, None, ())


def test_both_are_asked_in_the_same_way() -> None:
    assert PLAYED.call == RAW.call
    assert PLAYED.models == RAW.models
    assert PLAYED.call.max_tokens == 400


@pytest.mark.parametrize("kind", ["profile", "raw_case"])
async def test_speech_for_the_interviewer_is_cut_and_the_raw_text_kept(kind: str) -> None:
    raw = "Fine. (looks away)\nInterviewer: Do you sleep?"
    answer = await patient(Model(raw, truncated=True), kind).reply([], QUESTION)
    assert answer.text == "Fine. (looks away)"
    assert answer.raw == raw
    assert answer.flags == ("both_sides", "truncated")


async def test_a_model_that_falls_out_of_its_part_is_flagged() -> None:
    answer = await patient(Model("As an AI, I cannot feel tired.")).reply([], QUESTION)
    assert answer.flags == ("ai_disclaimer",)


@pytest.mark.parametrize("kind", ["profile", "raw_case"])
async def test_a_failure_keeps_its_kind_and_an_empty_reply_has_its_own(kind: str) -> None:
    error = ModelFailed("no way through", kind="transport_failed", transport=True)
    with pytest.raises(PatientFailed, match="no way through") as failed:
        await patient(Broken(error), kind).reply([], QUESTION)
    assert (failed.value.kind, failed.value.transport) == ("transport_failed", True)
    with pytest.raises(PatientFailed, match="nothing is left") as failed:
        await patient(Model("<|eot_id|>"), kind).reply([], QUESTION)
    assert failed.value.kind == "empty"
