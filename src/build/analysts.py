"""From settings to analysts."""

from src.analysts.consensus import ConsensusAnalyst
from src.analysts.imputation import Imputation
from src.analysts.median import MedianAnalyst
from src.interview.roles import Analyst
from src.settings import AnalystSettings, ConsensusSettings, MedianSettings


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
