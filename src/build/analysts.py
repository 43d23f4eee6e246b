"""From settings to analysts."""

from collections.abc import Callable
from functools import partial

from src.analysts.consensus import ConsensusAnalyst
from src.analysts.diagnosis import DiagnosisAnalyst, instructions
from src.analysts.direct import DirectAnalyst
from src.analysts.imputation import Imputation
from src.analysts.median import MedianAnalyst
from src.analysts.rules import RuleAnalyst
from src.build.players import AskingFor, native_of
from src.clinical.icd11 import Reference
from src.interview.roles import Analyst, Diagnoser
from src.interviewers.assessment_guard import load_texts
from src.llm.servers import ANALYST
from src.settings import (
    AnalystSettings,
    ConsensusSettings,
    DiagnosisSettings,
    DirectDiagnosisSettings,
    MedianSettings,
    ReportSettings,
    RuleDiagnosisSettings,
    RunSettings,
)


def analyst(settings: AnalystSettings) -> Analyst:
    imputation = Imputation(
        mode=settings.imputation,
        renormalise=settings.renormalise,
        donor_confidence=settings.donor_confidence,
        donor_score=settings.donor_score,
        donor_weights=settings.donor_weights,
        imputed_cap=settings.imputed_cap,
        imputed_rounding=settings.imputed_rounding,
    )
    match settings:
        case ConsensusSettings():
            return ConsensusAnalyst(
                imputation=imputation, agreement=settings.agreement, selected=settings.selected
            )
        case MedianSettings():
            return MedianAnalyst(imputation=imputation, selected=settings.selected)
        case _:
            raise AssertionError(settings)


def diagnoser_of(settings: ReportSettings, run: RunSettings) -> Callable[[AskingFor], Diagnoser]:
    """Return what makes one interview's diagnoser."""
    reference, language = Reference(settings.reference.path), load_texts(run.language.report).name
    match settings:
        case DiagnosisSettings():
            reasoner = partial(
                DiagnosisAnalyst,
                settings=settings,
                native=native_of(run, settings.models),
                system=instructions(settings.prompt.path, language=language),
                reference=reference,
                language=language,
            )
            return lambda asking: reasoner(asking(ANALYST))
        case DirectDiagnosisSettings():
            direct = partial(
                DirectAnalyst,
                settings=settings,
                system=instructions(settings.prompt.path, language=language),
                reference=reference,
            )
            return lambda asking: direct(asking(ANALYST))
        case RuleDiagnosisSettings():
            rules = RuleAnalyst(settings, reference)
            return lambda _: rules
        case _:
            raise AssertionError(settings)
