"""Tools and diagnostic reports by schema: the real server keeps to the form, whatever is in it."""

from collections.abc import Mapping
from typing import Any

from calling import caller, request
from real_server import RealServer
from reporting import said
from speaker import settings_of

from src.analysts.diagnosis import DiagnosisAnalyst, instructions
from src.analysts.direct import DirectAnalyst
from src.clinical.icd11 import Reference
from src.errors import ModelFailed
from src.llm.tools import Ran, Tool, converse
from src.prompts import load_yaml
from src.reports import DiagnosticReport, DirectReport, Findings
from src.settings import DiagnosisSettings, DirectDiagnosisSettings

TYPED = {"budget_exhausted", "whitespace_loop", "unparseable", "schema_violated", "empty"}
"""How a small model may fail; anything else is a failure of ours."""
SAID = said(
    ("What brings you here?", "I lie awake until three, and nothing is fun any more."),
    ("Since when?", "Since the spring, nearly every day."),
)
CALL = {"temperature": 0.0, "top_p": 1.0, "top_k": -1, "timeout": 170}
REFERENCE = Reference("prompts/icd11")
LOOK_UP = load_yaml("prompts/diagnosis_tool.yaml", Tool)


async def test_a_tool_is_called_by_schema_with_arguments_of_its_form(server: RealServer) -> None:
    ran: list[tuple[str, Mapping[str, Any]]] = []

    async def execute(name: str, arguments: Mapping[str, Any]) -> Ran:
        ran.append((name, arguments))
        return Ran(output="no such entry")

    messages = ({"role": "user", "content": "Look up the code 6A70 with the tool."},)
    async with server.opened() as servers:
        asking = caller(servers.services["interviewer"].model)
        try:
            told = await converse(
                asking,
                request(messages, max_tokens=120, timeout=120),
                (LOOK_UP,),
                rounds=2,
                execute=execute,
                native=False,
            )
        except ModelFailed as error:
            _is_typed(error)
        else:
            assert told.text or told.ended
            assert {use.name for use in told.uses} <= {LOOK_UP.name}
            assert len(told.calls) <= 2 * 3
    assert all(name == LOOK_UP.name and [*given] == ["code"] for name, given in ran)
    assert all(isinstance(given["code"], str) for _, given in ran)


async def test_a_report_by_schema_has_its_form_or_fails_by_kind(server: RealServer) -> None:
    async with server.opened() as servers:
        settings = settings_of(
            "analyst/diagnosis.yaml",
            DiagnosisSettings,
            models=["smollm2"],
            rounds=1,
            repairs=0,
            call=CALL | {"max_tokens": 200},
        )
        analyst = DiagnosisAnalyst(
            caller(servers.services["scorer"].model, role="analyst"),
            settings=settings,
            native=False,
            system=instructions(settings.prompt.path, language="English"),
            reference=REFERENCE,
            language="English",
        )
        found = await findings_of(analyst)
    assert found is None or isinstance(found.report, DiagnosticReport)


async def test_a_direct_diagnosis_by_schema_has_its_form_or_fails_by_kind(
    server: RealServer,
) -> None:
    async with server.opened() as servers:
        settings = settings_of(
            "analyst/direct.yaml",
            DirectDiagnosisSettings,
            models=["smollm2"],
            repairs=1,
            call=CALL | {"max_tokens": 200},
        )
        analyst = DirectAnalyst(
            caller(servers.services["scorer"].model, role="analyst"),
            settings=settings,
            system=instructions(settings.prompt.path, language="English"),
            reference=REFERENCE,
        )
        found = await findings_of(analyst)
    assert found is None or isinstance(found.report, DirectReport)


async def findings_of(analyst: DiagnosisAnalyst | DirectAnalyst) -> Findings | None:
    """Return what an analyst finds; None where its model failed in a way that has a name."""
    try:
        return await analyst.diagnose(SAID)
    except ModelFailed as error:
        _is_typed(error)
        return None


def _is_typed(error: ModelFailed) -> None:
    assert error.kind in TYPED, error
