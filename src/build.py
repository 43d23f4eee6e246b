"""From settings to players: the one module that knows every class."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import assert_never

from src.analysts.consensus import ConsensusAnalyst
from src.analysts.imputation import Imputation
from src.analysts.median import MedianAnalyst
from src.errors import InputError, ServerError
from src.interview.roles import Analyst, Cast, Interviewer, Orchestrator, Patient, Scorer
from src.interviewers.guard import Guard
from src.interviewers.guided import GuidedInterviewer
from src.interviewers.monolith import MonolithInterviewer
from src.interviewers.scripted import ScriptedInterviewer
from src.interviewers.tree import DialogueTree
from src.llm.caller import Asking, CallBook, Caller
from src.llm.servers import Servers
from src.patients.lora import LoraPatient, Signs
from src.patients.offline import OfflinePatient, load_lines, load_persons
from src.prompts import fill, load_prompt, load_yaml, read_text
from src.records import Truth, seed_of
from src.settings import (
    AnalystSettings,
    BDISettings,
    BudgetSettings,
    ConsensusSettings,
    CoverageSettings,
    GuidedSettings,
    LexicalSettings,
    LoraSettings,
    MedianSettings,
    MonolithSettings,
    OfflineSettings,
    RunSettings,
    ScoreSettings,
    ScriptedSettings,
)
from src.steering.budget import BudgetOrchestrator
from src.steering.cues import Cues
from src.steering.lexical import LexicalScorer
from src.steering.orchestrator import CoverageOrchestrator
from src.steering.scorer import BDIScorer, load_texts, rubric_text

AskingFor = Callable[[str], Asking]
"""A role's way to its model in one interview."""


class Casting:
    """Builds the cast of every interview of a run; whatever has no state is shared."""

    def __init__(self, settings: RunSettings) -> None:
        """Read every file that the settings name; a malformed one is an `InputError`."""
        refuse_unaccepted(settings)
        self._settings = settings
        self._guard = Guard(settings.guard) if settings.guard.kind == "screening" else None
        self._tree = DialogueTree(
            settings.tree.path.path, turns_max=settings.tree.turns_max, bm25=settings.tree.bm25
        )
        self._orchestrator = self._orchestrator_of(settings.orchestrator)
        self._interviewer = self._interviewer_of(settings.interviewer)
        self._patient = self._patient_of(settings.patient)
        self._scorer = scorer_of(settings.scorer)
        if self._guard:
            refuse_unsaid(self._guard, settings.tree.path.path, self._tree.texts)

    def cast(self, subject: str, sample: int, *, servers: Servers, book: CallBook) -> Cast:
        """Return who plays in one interview."""
        seed, names = self._settings.seed, servers.served(subject)

        def asking(role: str) -> Asking:
            return Caller(
                servers.services[role].model,
                book,
                role=role,
                name=names[role],
                subject=subject,
                sample=sample,
                run_seed=seed,
            )

        return self.cast_for(asking, subject, sample)

    def cast_for(self, asking: AskingFor, subject: str, sample: int) -> Cast:
        """Return the same with any way to the models, such as a rehearsal's stand-in."""
        return Cast(
            subject=subject,
            sample=sample,
            seed=seed_of(self._settings.seed, subject, sample),
            interviewer=self._interviewer(asking),
            patient=self._patient(asking, subject, sample),
            orchestrator=self._orchestrator,
            scorer=self._scorer(asking),
            scorer_when=self._settings.scorer_when,
        )

    @property
    def words_max(self) -> int | None:
        """Return the most words of a question, where the guard limits them."""
        return self._guard.words_max if self._guard else None

    def truth(self, subject: str) -> Truth | None:
        """Return what a simulated person was written to be; None for anyone else."""
        settings = self._settings.patient
        if not isinstance(settings, OfflineSettings):
            return None
        person = load_persons(settings.persons.path).person(persona_number(subject))
        ranked = sorted(range(1, len(person.truth) + 1), key=lambda n: (-person.truth[n - 1], n))
        strongest = tuple(n for n in ranked[:4] if person.truth[n - 1] > 0)
        return Truth(total=person.total, key_symptoms=strongest, manner=person.manner)

    def _orchestrator_of(self, settings: CoverageSettings | BudgetSettings) -> Orchestrator:
        match settings:
            case CoverageSettings():
                lexical = settings.signals == "lexical"
                signals = lexical_scorer(self._settings.lexicon).signals if lexical else None
                return CoverageOrchestrator(settings, signals)
            case BudgetSettings():
                return BudgetOrchestrator(settings)
            case _:
                assert_never(settings)

    def _interviewer_of(
        self, settings: ScriptedSettings | GuidedSettings | MonolithSettings
    ) -> Callable[[AskingFor], Interviewer]:
        match settings:
            case ScriptedSettings():
                scripted = ScriptedInterviewer(tree=self._tree, lines=settings.lines.path)
                if self._guard:
                    refuse_unsaid(self._guard, settings.lines.path, scripted.texts)
                return lambda _: scripted
            case GuidedSettings():
                guided = partial(
                    GuidedInterviewer,
                    settings=settings,
                    system=fill(load_prompt(settings.prompt.path), {}),
                    kickoff=fill(load_prompt(settings.kickoff.path), {}),
                    tree=self._tree,
                    guard=self._guard,
                )
                return lambda asking: guided(asking("interviewer"))
            case MonolithSettings():
                values = {
                    "rubric": rubric_text(settings.rubric.path),
                    "max_messages": self._settings.orchestrator.max_messages,
                }
                monolith = partial(
                    MonolithInterviewer,
                    settings=settings,
                    system=fill(load_prompt(settings.prompt.path, frozenset(values)), values),
                    kickoff=fill(load_prompt(settings.kickoff.path), {}),
                    guard=self._guard,
                )
                return lambda asking: monolith(asking("interviewer"))
            case _:
                assert_never(settings)

    def _patient_of(
        self, settings: OfflineSettings | LoraSettings
    ) -> Callable[[AskingFor, str, int], Patient]:
        match settings:
            case OfflineSettings():
                persons = load_persons(settings.persons.path)
                person_in = partial(
                    OfflinePatient,
                    lines=load_lines(settings.lines.path),
                    seed=self._settings.seed,
                    thresholds=settings.thresholds,
                )
                return lambda _, subject, sample: person_in(
                    persons.person(persona_number(subject)), subject=subject, sample=sample
                )
            case LoraSettings():
                own = settings.system_prompt
                persona = partial(
                    LoraPatient,
                    settings=settings,
                    system=read_text(own.path) if own else None,
                    signs=load_yaml(settings.signs.path, Signs),
                )
                return lambda asking, _, __: persona(asking("patient"))
            case _:
                assert_never(settings)


def scorer_of(settings: LexicalSettings | BDISettings) -> Callable[[AskingFor], Scorer]:
    """Return what makes one interview's scorer."""
    match settings:
        case LexicalSettings():
            lexical = lexical_scorer(settings)
            return lambda _: lexical
        case BDISettings():
            rating = partial(BDIScorer, settings=settings, texts=load_texts(settings))
            return lambda asking: rating(asking("scorer"))
        case _:
            assert_never(settings)


def lexical_scorer(settings: LexicalSettings) -> LexicalScorer:
    return LexicalScorer(load_yaml(settings.cues.path, Cues), settings.thresholds)


def refuse_unsaid(guard: Guard, path: str, texts: Mapping[str, str]) -> None:
    """Raise an `InputError` for a fixed line that the guard would not let a model say."""
    for node, text in texts.items():
        if breaches := guard.check(text, turns=(), closing=False):
            raise InputError(f"{path}: {node}: the guard refuses this line ({', '.join(breaches)})")


def refuse_unaccepted(settings: RunSettings | ScoreSettings) -> None:
    """Raise an `InputError` for a sampling parameter that a model's API does not accept."""
    for role, names in settings.asked_models.items():
        call = getattr(settings, role).call
        for name, key in product(names, ("temperature", "top_p", "top_k")):
            if getattr(call, key) is not None and key not in settings.models[name].accepts:
                raise InputError(
                    f"{role}.call.{key}: {settings.models[name].name} accepts none; set it to null"
                )


def subjects(settings: RunSettings, servers: Servers, root: Path) -> tuple[list[str], list[str]]:
    """Return the subjects by name, and what to say of those that are missing.

    `persona=all` means everyone there is: in the persons' file, or among the served adapters.
    """
    names = [persona_name(number) for number in settings.personas]
    match settings.patient:
        case OfflineSettings():
            there = load_persons(settings.patient.persons.path).persons
            known = {persona_name(person.number) for person in there}
        case LoraSettings() if settings.only:
            known = {name for name in names if (root / name).is_dir()}
        case LoraSettings():
            known = {name for name in names if servers.served(name).get("patient")}
        case _:
            assert_never(settings.patient)
    missing = [name for name in names if name not in known]
    if settings.persona == "all" and known:
        found = [name for name in names if name in known]
        return found, [f"not there: {', '.join(missing)}"] if missing else []
    if not missing:
        return names, []
    lora = isinstance(settings.patient, LoraSettings) and not settings.only
    everyone = servers.services["patient"].listed if lora else known
    there_are = ", ".join(sorted(n for n in everyone if n.startswith("persona-"))) or "none"
    if lora:
        number = persona_number(missing[0])
        fetch = f"; python -m serving.models fetch=true persona={number}, then serve again"
        raise ServerError(
            f"{missing[0]}: no adapter of it is served; served are: {there_are}{fetch}"
        )
    raise InputError(f"{missing[0]}: there is none; there are: {there_are}")


def persona_name(number: int) -> str:
    """Return how a persona is called in folders and by servers."""
    return f"persona-{number:02d}"


def persona_number(subject: str) -> int:
    """Return the number in a persona's name."""
    return int(subject.removeprefix("persona-"))


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
