"""From settings to players: who asks, answers, rates and guides in an interview."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import assert_never

from src.build.subjects import persona_number
from src.clinical.icd11 import Reference
from src.clinical.safety import SafetyCheck
from src.errors import InputError
from src.interview.roles import Interviewer, Orchestrator, Patient, Scorer
from src.interviewers.agent import AgentInterviewer, instructions
from src.interviewers.assessment_guard import AssessmentGuard, load_texts
from src.interviewers.guard import Guard
from src.interviewers.guided import GuidedInterviewer
from src.interviewers.monolith import MonolithInterviewer
from src.interviewers.script import ScriptedModel
from src.interviewers.scripted import ScriptedInterviewer
from src.interviewers.skills import Skills
from src.interviewers.toolbox import Toolbox
from src.interviewers.tree import DialogueTree
from src.llm.caller import Asking
from src.patients.cases import CaseFile
from src.patients.hearing import load_hearing
from src.patients.lora import LoraPatient, Signs
from src.patients.offline import OfflinePatient, load_lines, load_persons
from src.patients.profile import (
    PROFILE_PLACES,
    RAW_CASE_PLACES,
    CasePatient,
    raw_role_play,
    role_play,
)
from src.patients.profile_offline import ProfileOfflinePatient
from src.patients.profiles import PatientProfile
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
from src.steering.scorer import BDIScorer, rubric_text
from src.steering.scorer import load_texts as load_scorer_texts

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
            return agent_of(run, settings)
        case _:
            assert_never(settings)


def agent_of(run: RunSettings, settings: AgentSettings) -> Callable[[AskingFor], Interviewer]:
    """Return what makes one interview's interviewer with tools."""
    texts, skills = load_texts(run.language.interview), Skills(settings.skills.path)
    check = SafetyCheck(settings.safety.path) if settings.safety else None
    guard = None
    if run.guard.kind == "assessment":
        if check is None:
            raise InputError("guard=assessment needs interviewer.safety to know of danger")
        language = run.language.interview
        guard = AssessmentGuard(run.guard, language=language, texts=texts, safety=check)
    agent = partial(
        AgentInterviewer,
        settings=settings,
        native=settings.script is not None or native_of(run, settings.models),
        system=instructions(
            settings,
            language=texts.name,
            max_messages=run.orchestrator.max_messages,
            skills=skills,
        ),
        kickoff=fill(load_prompt(settings.kickoff.path), {}),
        texts=texts,
        toolbox=Toolbox(settings, skills=skills, reference=Reference(settings.reference.path)),
        safety_check=check,
        guard=guard,
    )
    if settings.script:
        scripted = ScriptedModel(settings.script.path)
        return lambda _: agent(scripted)
    return lambda asking: agent(asking("interviewer"))


def native_of(run: RunSettings, models: Sequence[str]) -> bool:
    """Return whether these models call tools by their API's own means."""
    kinds = {run.models[name].tools for name in models}
    if len(kinds) > 1:
        raise InputError(f"{', '.join(models)}: some call tools natively, some by schema; name one")
    return kinds == {"native"}


def patient_of(
    run: RunSettings, cases: Mapping[str, CaseFile]
) -> Callable[[AskingFor, str, int], Patient]:
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
        case ProfileSettings():
            template, language = load_prompt(settings.prompt.path, PROFILE_PLACES), name_of(run)
            systems = {
                subject: role_play(template, profile, language=language)
                for subject, profile in profiles_of(cases).items()
            }
            signs = load_yaml(settings.signs.path, Signs)
            return lambda asking, subject, _: CasePatient(
                asking("patient"), settings=settings, system=systems[subject], signs=signs
            )
        case RawCaseSettings():
            template, language = load_prompt(settings.prompt.path, RAW_CASE_PLACES), name_of(run)
            signs = load_yaml(settings.signs.path, Signs)
            return lambda asking, subject, _: CasePatient(
                asking("patient"),
                settings=settings,
                system=raw_role_play(template, cases[subject].case, language=language),
                signs=signs,
            )
        case ProfileOfflineSettings():
            profiles, hearing = profiles_of(cases), load_hearing(settings.lines.path)
            return lambda _, subject, sample: ProfileOfflinePatient(
                profiles[subject], hearing, seed=run.seed, subject=subject, sample=sample
            )
        case _:
            assert_never(settings)


def profiles_of(cases: Mapping[str, CaseFile]) -> dict[str, PatientProfile]:
    """Return the profiles by case; a case without one is an `InputError`."""
    if missing := [name for name, file in cases.items() if file.profile is None]:
        raise InputError(f"{missing[0]} has no profile: patient=raw_case plays it from its record")
    return {name: file.profile for name, file in cases.items() if file.profile}


def name_of(run: RunSettings) -> str:
    """Return the name of the interview's language."""
    return load_texts(run.language.interview).name


def scorer_of(settings: LexicalSettings | BDISettings) -> Callable[[AskingFor], Scorer]:
    """Return what makes one interview's scorer."""
    match settings:
        case LexicalSettings():
            lexical = lexical_scorer(settings)
            return lambda _: lexical
        case BDISettings():
            rating = partial(BDIScorer, settings=settings, texts=load_scorer_texts(settings))
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
