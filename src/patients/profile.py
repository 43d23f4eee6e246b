"""Patients that a model plays: from a profile, or from the source record alone (P16, B3).

The system prompt is rendered once; every reply comes from it and from what was said. Codes, labels,
ids, provenance and what only a clinician knows are never in it.
"""

import string
from typing import get_args

from src.interview.roles import Turns
from src.interview.views import patient_view
from src.llm.caller import Asking, Request
from src.patients.cases import Case
from src.patients.lora import Signs, played
from src.patients.profiles import Demographics, Disclosure, Fact, PatientProfile, SafetyState
from src.prompts import fill
from src.records import Answer, Question
from src.settings import ProfileSettings, RawCaseSettings

LEVELS = tuple(level for level in get_args(Disclosure) if level != "clinician_only")
PROFILE_PLACES = frozenset(
    {
        *Demographics.model_fields,
        *("language", "narrative", "talk", "traits"),
        *LEVELS,
        *("self_harm", "harm_to_others", "vulnerability"),
    }
)
"""Placeholders of `prompts/profile_patient.md`."""
RAW_CASE_PLACES = frozenset({"language", "record"})
"""Placeholders of `prompts/raw_case_patient.md`."""


class CasePatient:
    """Plays a case from one system prompt: a profile, or the bare record as its baseline."""

    def __init__(
        self,
        asking: Asking,
        *,
        settings: ProfileSettings | RawCaseSettings,
        system: str,
        signs: Signs,
    ) -> None:
        """Take what `role_play` or `raw_role_play` rendered."""
        self._asking, self._settings = asking, settings
        self._system, self._signs = system, signs

    async def reply(self, turns: Turns, question: Question) -> Answer:
        """Answer a question; raise `PatientFailed` where there is nothing to work with."""
        request = Request(
            messages=patient_view(turns, question.text, system=self._system),
            settings=self._settings.call,
            turn=len(turns) + 1,
        )
        return await played(self._asking, request, self._signs)


def role_play(template: string.Template, profile: PatientProfile, *, language: str) -> str:
    """Return the system prompt of a profile, once for all interviews; `language` by its name."""
    values: dict[str, object] = {
        **profile.demographics.model_dump(),
        "language": language,
        "narrative": "\n\n".join(profile.narrative),
        "talk": profile.manner.talk,
        "traits": profile.manner.traits,
    }
    for level in LEVELS:
        lines = [_line(fact) for fact in profile.facts if fact.disclosure == level]
        values[level] = "\n".join(lines) or "- nothing"
    for domain, state in profile.safety.states:
        values[domain] = _guidance(state)
    return fill(template, values)


def raw_role_play(template: string.Template, case: Case, *, language: str) -> str:
    """Return the system prompt of a record: its text, and none of its references."""
    return fill(template, {"language": language, "record": case.text.strip()})


def _line(fact: Fact) -> str:
    doubt = " [unsure]" if fact.state == "uncertain" else ""
    return f"- {fact.text} ({fact.timing}){doubt}"


def _guidance(state: SafetyState) -> str:
    if state.concern:
        return f"[{state.timing}] {state.guidance}"
    return f"[over] {state.guidance}" if state.past else "none"
