"""The baseline: hypotheses from the transcript at once (PsyCIDRA, section 5)."""

from collections.abc import Sequence

from src.analysts.diagnosis import opened
from src.analysts.reported import named, reported
from src.clinical.icd11 import Reference
from src.llm.caller import Asking, Request
from src.records import Message
from src.reports import DirectReport, Findings
from src.settings import DirectDiagnosisSettings


class DirectAnalyst:
    """Diagnoses with one question and no tool."""

    def __init__(
        self,
        asking: Asking,
        *,
        settings: DirectDiagnosisSettings,
        system: str,
        reference: Reference,
    ) -> None:
        """Take the filled prompt; the reference only names what the model answered."""
        self._asking, self._settings = asking, settings
        self._system, self._reference = system, reference

    async def diagnose(self, said: Sequence[Message]) -> Findings:
        """Name hypotheses; raise `ModelFailed` where no answer can be used."""
        settings = self._settings
        request = Request(
            messages=opened(self._system, said), settings=settings.call, turn=len(said) // 2
        )
        report, calls = await reported(
            self._asking, request, DirectReport, repairs=settings.repairs, bounds=settings.bounds
        )
        hypotheses = named(report.final_hypotheses, self._reference)
        return Findings(report=report, hypotheses=hypotheses, calls=calls)
