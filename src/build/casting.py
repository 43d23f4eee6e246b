"""The cast of every interview of a run."""

from itertools import product

from src.build.analysts import diagnoser_of
from src.build.players import (
    AskingFor,
    interviewer_of,
    orchestrator_of,
    patient_of,
    refuse_unsaid,
    scorer_of,
)
from src.build.subjects import cases_of, persona_number
from src.errors import InputError
from src.interview.roles import Cast, Diagnoser
from src.interviewers.assessment_guard import AssessmentRules
from src.interviewers.guard import Guard
from src.interviewers.tree import DialogueTree
from src.llm.caller import Asking, CallBook, Caller
from src.llm.servers import Servers
from src.patients.cases import CaseFile
from src.patients.offline import load_persons
from src.prompts import load_yaml
from src.records import Truth, seed_of
from src.settings import (
    NoScorerSettings,
    OfflineSettings,
    ReportSettings,
    RunSettings,
    ScoreSettings,
)


class Casting:
    """Builds the cast of every interview of a run; whatever has no state is shared."""

    def __init__(self, settings: RunSettings) -> None:
        """Read every file that the settings name; a malformed one is an `InputError`."""
        refuse_unaccepted(settings)
        refuse_other_guard(settings)
        self._settings, self._cases = settings, cases_of(settings)
        self._guard = Guard(settings.guard) if settings.guard.kind == "screening" else None
        self._tree = DialogueTree(
            settings.tree.path.path, turns_max=settings.tree.turns_max, bm25=settings.tree.bm25
        )
        self._orchestrator = orchestrator_of(settings.orchestrator, settings.lexicon)
        self._interviewer = interviewer_of(settings, tree=self._tree, guard=self._guard)
        self._patient = patient_of(settings, self._cases)
        scorer = settings.scorer
        self._scorer = None if isinstance(scorer, NoScorerSettings) else scorer_of(scorer)
        about = settings.analyst
        self._diagnoser = (
            diagnoser_of(about, settings) if isinstance(about, ReportSettings) else None
        )
        if self._guard:
            refuse_unsaid(self._guard, settings.tree.path.path, self._tree.texts)

    def cast(self, subject: str, sample: int, *, servers: Servers, book: CallBook) -> Cast:
        """Return who plays in one interview."""
        asking = self._asking(subject, sample, servers=servers, book=book)
        return self.cast_for(asking, subject, sample)

    def diagnoser(
        self, subject: str, sample: int, *, servers: Servers, book: CallBook
    ) -> Diagnoser:
        """Return who reports on one interview."""
        assert self._diagnoser is not None
        return self._diagnoser(self._asking(subject, sample, servers=servers, book=book))

    def _asking(self, subject: str, sample: int, *, servers: Servers, book: CallBook) -> AskingFor:
        """Return each role's way to its model in one interview."""
        names = servers.served(subject)

        def asking(role: str) -> Asking:
            return Caller(
                servers.services[role].model,
                book,
                role=role,
                name=names[role],
                subject=subject,
                sample=sample,
                run_seed=self._settings.seed,
            )

        return asking

    def cast_for(self, asking: AskingFor, subject: str, sample: int) -> Cast:
        """Return the same with any way to the models, such as a rehearsal's stand-in."""
        return Cast(
            subject=subject,
            sample=sample,
            seed=seed_of(self._settings.seed, subject, sample),
            interviewer=self._interviewer(asking),
            patient=self._patient(asking, subject, sample),
            orchestrator=self._orchestrator,
            scorer=self._scorer(asking) if self._scorer else None,
            scorer_when=self._settings.scorer_when,
        )

    @property
    def words_max(self) -> int | None:
        """Return the most words of a question, where the guard limits them."""
        if self._settings.guard.kind == "assessment":
            return load_yaml(self._settings.guard.rules.path, AssessmentRules).limits.words
        return self._guard.words_max if self._guard else None

    def case(self, subject: str) -> CaseFile | None:
        """Return what a case's file holds; None for personas."""
        return self._cases.get(subject)

    def truth(self, subject: str) -> Truth | None:
        """Return what a simulated person was written to be; None for anyone else."""
        settings = self._settings.patient
        if not isinstance(settings, OfflineSettings):
            return None
        person = load_persons(settings.persons.path).person(persona_number(subject))
        ranked = sorted(range(1, len(person.truth) + 1), key=lambda n: (-person.truth[n - 1], n))
        strongest = tuple(n for n in ranked[:4] if person.truth[n - 1] > 0)
        return Truth(total=person.total, key_symptoms=strongest, manner=person.manner)


def refuse_other_guard(settings: RunSettings) -> None:
    """Raise an `InputError` for a guard that was made for another interviewer."""
    agent, guard = settings.interviewer.kind == "agent", settings.guard.kind
    if guard != "none" and agent != (guard == "assessment"):
        fits = "assessment" if agent else "screening"
        raise InputError(f"guard={guard} is not made for this interviewer: guard={fits}, or none")


def refuse_unaccepted(settings: RunSettings | ScoreSettings) -> None:
    """Raise an `InputError` for a sampling parameter that a model's API does not accept."""
    for role, names in settings.asked_models.items():
        call = getattr(settings, role).call
        for name, key in product(names, ("temperature", "top_p", "top_k")):
            if getattr(call, key) is not None and key not in settings.models[name].accepts:
                raise InputError(
                    f"{role}.call.{key}: {settings.models[name].name} accepts none; set it to null"
                )
