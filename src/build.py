"""From settings to players: the one module that knows every class."""

from collections.abc import Callable, Sequence

from src.analysts.consensus import ConsensusAnalyst
from src.analysts.imputation import Imputation
from src.analysts.median import MedianAnalyst
from src.interview.roles import Analyst, Cast
from src.interviewers.scripted import ScriptedInterviewer
from src.interviewers.tree import DialogueTree
from src.patients import offline
from src.patients.offline import OfflinePatient, load_lines, load_persons
from src.prompts import load_yaml
from src.records import Truth, seed_of
from src.settings import (
    AnalystSettings,
    ConsensusSettings,
    LexicalSettings,
    MedianSettings,
    RunSettings,
)
from src.steering import lexical
from src.steering.lexical import LexicalScorer
from src.steering.orchestrator import CoverageOrchestrator


class Casting:
    """Builds the cast of every interview of a run; whatever has no state is shared."""

    def __init__(self, settings: RunSettings) -> None:
        """Read every file that the settings name; a malformed one is an `InputError`."""
        self._settings = settings
        self._scorer = scorer(settings.scorer)
        self._orchestrator = CoverageOrchestrator(settings.orchestrator, self._signals())
        tree = DialogueTree(
            settings.tree.path.path, turns_max=settings.tree.turns_max, bm25=settings.tree.bm25
        )
        self._interviewer = ScriptedInterviewer(tree=tree, lines=settings.interviewer.lines.path)
        self._offline = offline.Thresholds(**settings.patient.thresholds.model_dump())
        self._persons = load_persons(settings.patient.persons.path)
        self._lines = load_lines(settings.patient.lines.path)

    def cast(self, subject: str, sample: int) -> Cast:
        """Return who plays in one interview."""
        seed = self._settings.seed
        person = self._persons.person(persona_number(subject))
        return Cast(
            subject=subject,
            sample=sample,
            seed=seed_of(seed, subject, sample),
            interviewer=self._interviewer,
            patient=OfflinePatient(
                person,
                self._lines,
                seed=seed,
                subject=subject,
                sample=sample,
                thresholds=self._offline,
            ),
            orchestrator=self._orchestrator,
            scorer=self._scorer,
            scorer_when=self._settings.scorer_when,
        )

    def truth(self, subject: str) -> Truth:
        """Return what a simulated person was written to be."""
        person = self._persons.person(persona_number(subject))
        ranked = sorted(range(1, len(person.truth) + 1), key=lambda n: (-person.truth[n - 1], n))
        strongest = tuple(n for n in ranked[:4] if person.truth[n - 1] > 0)
        return Truth(total=person.total, key_symptoms=strongest, manner=person.manner)

    def _signals(self) -> Callable[[str], Sequence[int]] | None:
        if self._settings.orchestrator.signals == "none":
            return None
        return self._scorer.signals


def subjects(settings: RunSettings) -> tuple[str, ...]:
    """Return the subjects of a run by name, in the order given."""
    return tuple(f"persona-{number:02d}" for number in settings.personas)


def persona_number(subject: str) -> int:
    """Return the number in a persona's name."""
    return int(subject.removeprefix("persona-"))


def scorer(settings: LexicalSettings) -> LexicalScorer:
    cues = load_yaml(settings.cues.path, lexical.Cues)
    return LexicalScorer(cues, lexical.Thresholds(**settings.thresholds.model_dump()))


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
