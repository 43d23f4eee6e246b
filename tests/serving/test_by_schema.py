"""Tools and diagnostic reports by schema: the real server keeps to the form, whatever is in it.

The forms leave a small model no way out: one tool, one argument, and texts and lists that end.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from calling import caller, request
from real_server import RealServer
from reporting import said
from speaker import settings_of

from src.analysts.diagnosis import DiagnosisAnalyst, instructions
from src.analysts.direct import DirectAnalyst
from src.clinical.icd11 import Reference
from src.llm.caller import Asking, Reply, Request
from src.llm.offering import NONE
from src.llm.structured import closed_object, lint
from src.llm.tools import Ran, Tool, converse
from src.prompts import load_yaml
from src.reports import DiagnosticReport, DirectReport
from src.settings import DiagnosisSettings, DirectDiagnosisSettings

SAID = said(
    ("What brings you here?", "I lie awake until three, and nothing is fun any more."),
    ("Since when?", "Since the spring, nearly every day."),
)
BOUNDS = {"text": 40, "entries": 1}
CALL = {"temperature": 0.7, "top_p": 0.95, "top_k": -1, "max_tokens": 1500, "timeout": 300}
"""At temperature 0 so small a model repeats itself."""
REFERENCE = Reference("prompts/icd11")
LOOK_UP = load_yaml("prompts/diagnosis_tool.yaml", Tool)
CODE, DONE = "6B00", "The entry is read."


class Narrowed:
    """Leaves one way to fill the form of a tool call: the tool, its argument, one message."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def ask(self, request: Request) -> Reply:
        fields = (request.schema or {}).get("properties", {})
        if not {"tool", "message"} <= fields.keys():
            return await self._asking.ask(request)
        names = [name for name in fields["tool"]["enum"] if name != NONE]
        only = {"tool": names or [NONE], "code": [CODE], "message": [DONE]}
        schema = closed_object({key: {"type": "string", "enum": only[key]} for key in fields})
        assert lint(schema) == []
        return await self._asking.ask(replace(request, schema=schema))


async def test_a_tool_is_called_by_schema_with_arguments_of_its_form(server: RealServer) -> None:
    ran: list[tuple[str, Mapping[str, Any]]] = []

    async def execute(name: str, arguments: Mapping[str, Any]) -> Ran:
        ran.append((name, arguments))
        return Ran(output=REFERENCE.disorder(arguments["code"]))

    messages = ({"role": "user", "content": f"Look up the code {CODE} with the tool."},)
    async with server.opened() as servers:
        told = await converse(
            Narrowed(caller(servers.services["interviewer"].model)),
            request(messages, max_tokens=120, timeout=300),
            (LOOK_UP,),
            rounds=1,
            execute=execute,
            native=False,
        )
    assert ran == [(LOOK_UP.name, {"code": CODE})]
    (use,) = told.uses
    assert (use.name, json.loads(use.arguments), use.ok) == (LOOK_UP.name, {"code": CODE}, True)
    assert (told.text, told.capped) == (DONE, True)
    assert [call.outcome for call in told.calls] == ["ok", "ok"]


async def test_psydara_looks_up_and_reports_by_schema(server: RealServer) -> None:
    async with server.opened() as servers:
        settings = settings_of(
            "analyst/diagnosis.yaml",
            DiagnosisSettings,
            models=["smollm2"],
            rounds=1,
            repairs=0,
            bounds=BOUNDS,
            call=CALL,
        )
        analyst = DiagnosisAnalyst(
            Narrowed(caller(servers.services["scorer"].model, role="analyst")),
            settings=settings,
            native=False,
            system=instructions(settings.prompt.path, language="English"),
            reference=REFERENCE,
            language="English",
        )
        found = await analyst.diagnose(SAID)
    assert isinstance(found.report, DiagnosticReport)
    assert [(use.name, use.ok) for use in found.tools] == [(LOOK_UP.name, True)]
    assert [call.outcome for call in found.calls] == ["ok"] * 3
    assert len(found.report.diagnostic_synthesis) <= BOUNDS["text"]
    assert len(found.hypotheses) <= BOUNDS["entries"]


async def test_a_direct_diagnosis_is_reported_by_schema(server: RealServer) -> None:
    async with server.opened() as servers:
        settings = settings_of(
            "analyst/direct.yaml",
            DirectDiagnosisSettings,
            models=["smollm2"],
            repairs=0,
            bounds=BOUNDS,
            call=CALL,
        )
        analyst = DirectAnalyst(
            caller(servers.services["scorer"].model, role="analyst"),
            settings=settings,
            system=instructions(settings.prompt.path, language="English"),
            reference=REFERENCE,
        )
        found = await analyst.diagnose(SAID)
    assert isinstance(found.report, DirectReport)
    assert [call.outcome for call in found.calls] == ["ok"]
    assert len(found.hypotheses) <= BOUNDS["entries"]
