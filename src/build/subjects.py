"""From settings to subjects: their names, and who is there to be interviewed."""

from pathlib import Path
from typing import assert_never

from src.errors import InputError, ServerError
from src.llm.servers import Servers
from src.patients.cases import CaseFile, load_cases
from src.patients.offline import load_persons
from src.settings import (
    LoraSettings,
    OfflineSettings,
    ProfileOfflineSettings,
    ProfileSettings,
    RawCaseSettings,
    RunSettings,
)


def cases_of(settings: RunSettings) -> dict[str, CaseFile]:
    """Return the cases by id, where the patients are cases."""
    patient = settings.patient
    if not isinstance(patient, ProfileSettings | RawCaseSettings | ProfileOfflineSettings):
        return {}
    return {file.case.id: file for file in load_cases(patient.cases.path)}


def subjects(settings: RunSettings, servers: Servers, root: Path) -> tuple[list[str], list[str]]:
    """Return the subjects by name, and what to say of those that are missing.

    `persona=all` means everyone there is: in the persons' file, or among the served adapters.
    """
    names = wanted(settings)
    if settings.of_cases:
        return names, []
    match settings.patient:
        case OfflineSettings():
            there = load_persons(settings.patient.persons.path).persons
            known = {persona_name(person.number) for person in there}
        case LoraSettings() if settings.only:
            known = {name for name in names if (root / name).is_dir()}
        case LoraSettings():
            known = {name for name in names if servers.served(name).get("patient")}
        case ProfileSettings() | RawCaseSettings() | ProfileOfflineSettings():
            raise AssertionError(settings.patient)
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


def wanted(settings: RunSettings) -> list[str]:
    """Return the subjects that a command asks for, whether they are there or not."""
    if settings.of_cases:
        return _cases(settings)
    return [persona_name(number) for number in settings.personas]


def _cases(settings: RunSettings) -> list[str]:
    """Return the ids of the cases to interview."""
    there = cases_of(settings)
    if settings.case is None:
        raise InputError(
            f"patient={settings.patient.kind} plays cases: case=ID, [ID,…] or all; persona= is for "
            "patient=offline and lora"
        )
    if settings.case == "all":
        return list(there)
    if missing := [name for name in settings.case if name not in there]:
        raise InputError(f"case={missing[0]}: there is none; there are: {', '.join(there)}")
    return list(settings.case)


def persona_name(number: int) -> str:
    """Return how a persona is called in folders and by servers."""
    return f"persona-{number:02d}"


def persona_number(subject: str) -> int:
    """Return the number in a persona's name."""
    return int(subject.removeprefix("persona-"))
