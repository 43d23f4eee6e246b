"""From settings to players: who asks, answers, rates and guides in an interview."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import assert_never

from src.build.subjects import persona_number
from src.errors import InputError
from src.interview.roles import Interviewer, Orchestrator, Patient, Scorer
from src.interviewers.guard import Guard
from src.interviewers.guided import GuidedInterviewer
from src.interviewers.monolith import MonolithInterviewer
from src.interviewers.scripted import ScriptedInterviewer
from src.interviewers.tree import DialogueTree
from src.llm.caller import Asking
from src.patients.lora import LoraPatient, Signs
from src.patients.offline import OfflinePatient, load_lines, load_persons
from src.prompts import fill, load_prompt, load_yaml, read_text
from src.settings import (
    AgentSettings,
    BDISettings,
    BudgetSettings,
    CoverageSettings,
    GuidedSettings,
    LexicalSettings,
    LoraSettings,
    MonolithSettings,
    OfflineSettings,
    ProfileOfflineSettings,
    ProfileSettings,
    RawCaseSettings,
    RunSettings,
    ScriptedSettings,
)
from src.steering.budget import BudgetOrchestrator
from src.steering.cues import Cues
from src.steering.lexical import LexicalScorer
from src.steering.orchestrator import CoverageOrchestrator
from src.steering.scorer import BDIScorer, load_texts, rubric_text

AskingFor = Callable[[str], Asking]
"""A role's way to its model in one interview."""


def interviewer_of(
    run: RunSettings, *, tree: DialogueTree, guard: Guard | None
) -> Callable[[AskingFor], Interviewer]:
    """Return what makes one interview's interviewer."""
    settings = run.interviewer
    match settings:
        case ScriptedSettings():
            scripted = ScriptedInterviewer(tree=tree, lines=settings.lines.path)
            if guard:
                refuse_unsaid(guard, settings.lines.path, scripted.texts)
            return lambda _: scripted
        case GuidedSettings():
            guided = partial(
                GuidedInterviewer,
                settings=settings,
                system=fill(load_prompt(settings.prompt.path), {}),
                kickoff=fill(load_prompt(settings.kickoff.path), {}),
                tree=tree,
                guard=guard,
            )
            return lambda asking: guided(asking("interviewer"))
        case MonolithSettings():
            values = {
                "rubric": rubric_text(settings.rubric.path),
                "max_messages": run.orchestrator.max_messages,
            }
            monolith = partial(
                MonolithInterviewer,
                settings=settings,
                system=fill(load_prompt(settings.prompt.path, frozenset(values)), values),
                kickoff=fill(load_prompt(settings.kickoff.path), {}),
                guard=guard,
            )
            return lambda asking: monolith(asking("interviewer"))
        case AgentSettings():
            raise InputError("interviewer=agent is not there yet")
        case _:
            assert_never(settings)


def patient_of(run: RunSettings) -> Callable[[AskingFor, str, int], Patient]:
    """Return what makes the patient of a subject's sample."""
    settings = run.patient
    match settings:
        case OfflineSettings():
            persons = load_persons(settings.persons.path)
            person_in = partial(
                OfflinePatient,
                lines=load_lines(settings.lines.path),
                seed=run.seed,
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
        case ProfileSettings() | RawCaseSettings() | ProfileOfflineSettings():
            raise InputError("patient=profile is not there yet")
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


def orchestrator_of(
    settings: CoverageSettings | BudgetSettings, lexicon: LexicalSettings
) -> Orchestrator:
    """Return who guides; it has no state."""
    match settings:
        case CoverageSettings():
            lexical = settings.signals == "lexical"
            signals = lexical_scorer(lexicon).signals if lexical else None
            return CoverageOrchestrator(settings, signals)
        case BudgetSettings():
            return BudgetOrchestrator(settings)
        case _:
            assert_never(settings)


def lexical_scorer(settings: LexicalSettings) -> LexicalScorer:
    return LexicalScorer(load_yaml(settings.cues.path, Cues), settings.thresholds)


def refuse_unsaid(guard: Guard, path: str, texts: Mapping[str, str]) -> None:
    """Raise an `InputError` for a fixed line that the guard would not let a model say."""
    for node, text in texts.items():
        if breaches := guard.check(text, turns=(), closing=False):
            raise InputError(f"{path}: {node}: the guard refuses this line ({', '.join(breaches)})")
