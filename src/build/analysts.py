"""From settings to analysts."""

from collections.abc import Callable

from src.analysts.consensus import ConsensusAnalyst
from src.analysts.imputation import Imputation
from src.analysts.median import MedianAnalyst
from src.build.players import AskingFor
from src.errors import InputError
from src.interview.roles import Analyst, Diagnoser
from src.settings import (
    AnalystSettings,
    ConsensusSettings,
    MedianSettings,
    ReportSettings,
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
    raise InputError(f"analyst={run.analyst.kind} is not there yet: {settings}")
