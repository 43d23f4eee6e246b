"""PsyDARA: reads a finished transcript, looks disorders up, then reports (PsyCIDRA, section 4.2).

It knows the two sides of the conversation and the reference, and nothing else. The report is asked
for behind everything that was looked up, so that a server's cache holds all before it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from src.analysts.reported import named, report_request, reported
from src.clinical.icd11 import Reference
from src.interview.views import tagged
from src.llm.caller import Asking, Request
from src.llm.tools import Ran, Tool, converse, spoken
from src.prompts import fill, load_prompt, load_yaml
from src.records import Message
from src.reports import DiagnosticReport, Findings
from src.settings import DiagnosisSettings

TOOL = "prompts/diagnosis_tool.yaml"


def instructions(path: str, *, language: str) -> str:
    """Return a diagnoser's system prompt for reports in a language, given by its name."""
    return fill(load_prompt(path, frozenset({"language"})), {"language": language})


def opened(system: str, said: Sequence[Message]) -> tuple[dict[str, str], ...]:
    """Return the beginning of what a diagnoser reads: the instructions, and the transcript."""
    return (
        {"role": "system", "content": system},
        {"role": "user", "content": tagged(said)},
    )


class DiagnosisAnalyst:
    """Diagnoses in two phases: tools without a report, then the report without tools."""

    def __init__(
        self,
        asking: Asking,
        *,
        settings: DiagnosisSettings,
        native: bool,
        system: str,
        reference: Reference,
        language: str,
    ) -> None:
        """Take the filled prompt; `native`: whether the model's API has tool calls."""
        self._asking, self._settings, self._native = asking, settings, native
        self._system, self._reference = system, reference
        self._tool = load_yaml(TOOL, Tool)
        self._report_request = report_request(language)

    async def diagnose(self, said: Sequence[Message]) -> Findings:
        """Report on what was said; raise `ModelFailed` where no report can be used."""
        settings = self._settings
        request = Request(
            messages=opened(self._system, said), settings=settings.call, turn=len(said) // 2
        )
        looked_up = await converse(
            self._asking,
            request,
            (self._tool,),
            rounds=settings.rounds,
            execute=self._look_up,
            native=self._native,
            parallel=True,
        )
        draft = spoken(looked_up.text, native=self._native)
        due = {"role": "user", "content": self._report_request}
        request = replace(request, messages=(*looked_up.messages, draft, due))
        if self._native:  # the tools stay, or the server's prefix cache were lost
            request = replace(request, tools=(self._tool.function(),), tool_choice="none")
        report, calls = await reported(
            self._asking,
            request,
            DiagnosticReport,
            repairs=settings.repairs,
            bounds=settings.bounds,
        )
        return Findings(
            report=report,
            hypotheses=named(report.final_hypotheses, self._reference),
            tools=looked_up.uses,
            calls=looked_up.calls + calls,
        )

    async def _look_up(self, _: str, arguments: Mapping[str, Any]) -> Ran:
        """Return an entry; an `InputError` names the nearest codes.

        In a thread: several look-ups of one response run at the same time (D1).
        """
        return Ran(output=await asyncio.to_thread(self._reference.disorder, arguments["code"]))
