"""The baseline diagnoser: one question, the same strictness, its own meaning of the levels."""

import json
from typing import Any

import pytest
from reporting import Voice, hypothesis, said, telltale
from speaker import settings_of

from src.analysts.diagnosis import instructions
from src.analysts.direct import DirectAnalyst
from src.analysts.reported import report_schema
from src.clinical.icd11 import Reference
from src.diagnosing import diagnosed, readings
from src.errors import ModelFailed
from src.interview.views import tagged
from src.llm.caller import Asking
from src.reports import DirectReport
from src.settings import DirectDiagnosisSettings

REFERENCE = Reference("prompts/icd11")
SAID = said(("What brings you here?", "I check the stove for an hour."))


def analyst(asking: Asking, **changes: object) -> DirectAnalyst:
    own = settings_of(
        "analyst/direct.yaml", DirectDiagnosisSettings, models=["gpt6luna"], **changes
    )
    system = instructions(own.prompt.path, language="English")
    return DirectAnalyst(asking, settings=own, system=system, reference=REFERENCE)


def answer(*hypotheses: Any) -> str:
    return json.dumps({"final_hypotheses": list(hypotheses)})


async def test_one_request_holds_instructions_transcript_and_schema_and_no_tool() -> None:
    voice = Voice(answer(hypothesis("6B20", level="high")))
    found = await analyst(voice).diagnose(SAID)
    (request,) = voice.requests
    assert request.messages[1:] == ({"role": "user", "content": tagged(SAID)},)
    assert (request.tools, request.turn) == ((), 1)
    assert request.schema == report_schema(DirectReport)
    assert "ICD-11" in request.messages[0]["content"]
    assert "6B20" not in request.messages[0]["content"]
    assert isinstance(found.report, DirectReport)
    assert [(h.base, h.title, h.confidence) for h in found.hypotheses] == [
        ("6B20", REFERENCE.title("6B20"), "high")
    ]
    assert (found.tools, len(found.calls)) == ((), 1)


async def test_nothing_but_what_was_said_reaches_the_model() -> None:
    interview, words = telltale()
    voice = Voice(answer())
    own = settings_of(
        "analyst/direct.yaml",
        DirectDiagnosisSettings,
        models=["gpt6luna"],
        include_stopped=True,
        prefixes=[1],
    )
    found, ending = await diagnosed(readings([interview], own), (), lambda _: analyst(voice))
    assert ending is None
    assert [one.exchanges for one in found] == [1, 3]
    assert "Answer 3." in voice.everything_sent
    assert [word for word in words if word in voice.everything_sent] == []


async def test_naming_none_is_an_answer() -> None:
    assert (await analyst(Voice(answer())).diagnose(SAID)).hypotheses == ()


async def test_a_weakly_supported_name_stays_named() -> None:
    found = await analyst(Voice(answer(hypothesis("6A30", level="low")))).diagnose(SAID)
    assert [(h.base, h.known, h.confidence) for h in found.hypotheses] == [("6A30", False, "low")]


async def test_low_means_that_the_evidence_does_not_justify_the_name() -> None:
    voice = Voice(answer())
    await analyst(voice).diagnose(SAID)
    prompt = " ".join(voice.requests[0].messages[0]["content"].split())
    assert "`low`: the evidence does not justify naming it" in prompt


@pytest.mark.parametrize(
    "bad",
    [
        answer(hypothesis("6B20"), hypothesis("6B20.0", 2)),
        answer(hypothesis("6B20", 2)),
        answer(
            *(hypothesis(code, n) for n, code in enumerate(("6A70", "6B00", "6B20", "6B01"), 1))
        ),
        answer({"confidence": "low", "code": "6B20", "name": "x", "rank": 1}),
        '{"final_hypotheses": [], "evidence": []}',
        "[]",
    ],
)
async def test_a_bad_answer_is_asked_for_again_and_then_a_typed_failure(bad: str) -> None:
    voice = Voice(bad, answer(hypothesis("6B20")))
    found = await analyst(voice).diagnose(SAID)
    assert (len(found.calls), found.hypotheses[0].base) == (2, "6B20")
    assert len(voice.requests[1].messages) == 4
    with pytest.raises(ModelFailed) as failed:
        await analyst(Voice(bad)).diagnose(SAID)
    assert failed.value.kind == "schema_violated"
