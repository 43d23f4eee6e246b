"""What a run was held with, and how to hold it again."""

import platform
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from pydantic import ConfigDict

from src import config
from src.errors import InputError
from src.llm.servers import ANALYST, PERSONA_ROLE, Asked, Servers
from src.prompts import ROOT, files_below, located, read_text, sha256
from src.records import Record
from src.settings import RunSettings
from src.store import INPUTS, InputCopy, Manifest, SubjectFolder, digest_of, subject_folders

PLAYERS = (
    "interviewer",
    "guard",
    "patient",
    "scorer",
    "lexicon",
    "orchestrator",
    "tree",
    "scorer_when",
    "seed",
)
"""What decides how an interview goes. Samples, subjects, limits and the analyst do not."""
CASES = "patient.cases"
"""The one part of an identity in which a held-out run differs from the one it is frozen with."""
NOT_IDENTITY = (".models", ".call.timeout")
"""Ends of keys that do not decide it: which models may play (the one that does is named by its
role), and how long a call may take."""
FROZEN_ALONE = "a held-out cohort runs with what was frozen alone"
ONE_OFF: dict[str, object] = {
    "only": None,
    "redo": [],
    "reason": None,
    "retry_failed": False,
    "dry_run": False,
}
"""What a command asked for once, and a repetition does not ask again."""


def manifests_of(
    settings: RunSettings, servers: Servers, subjects: Sequence[str], root: Path
) -> tuple[dict[str, Manifest], dict[str, str]]:
    """Return each subject's manifest, and the texts to copy beside it by file name."""
    files: dict[str, InputCopy] = {}
    texts: dict[str, str] = {}
    for key, file in config.files(settings).items():
        place = located(file.path)
        name = key if place.is_dir() else f"{key}{Path(file.path).suffix}"
        if place.is_dir():
            texts |= {f"{name}/{f.relative_to(place)}": read_text(f) for f in files_below(place)}
        else:
            texts[name] = read_text(file.path)
        files[key] = InputCopy(path=file.path, sha256=sha256(file.path), copy_name=name)
    plain = settings.model_dump(mode="json", by_alias=True)
    identity = {
        key: files[key].sha256 if key in files else str(value)
        for key, value in _flat({player: plain[player] for player in PLAYERS})
        if not key.endswith(NOT_IDENTITY)
    }
    identity["language.interview"] = settings.language.interview
    commit, dirty = _checkout()
    common = {
        "run": settings.run or settings.name,
        "config": plain,
        "files": files,
        "version": version("tacit"),
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "hosts": servers.hosts,
        "created": datetime.now(UTC),
    }
    found = {}
    for subject in subjects:
        held = SubjectFolder(root / subject).manifest() if settings.only else None
        chosen = held.models if held else _players(servers.chosen)
        served = held.served if held else _players(servers.served(subject))
        own = identity | {f"{role}.model": name for role, name in served.items()}
        own |= {f"{role}.effort": str(settings.models[key].effort) for role, key in chosen.items()}
        found[subject] = Manifest(
            subject=subject,
            digest=digest_of(own),
            identity=own,
            models=chosen,
            served=served,
            rendered=servers.rendered.get(served.get(PERSONA_ROLE, "")),
            **common,
        )
    return found, texts


def _players(by_role: Mapping[str, str]) -> dict[str, str]:
    """Leave out the analyst: several may answer from the same interviews."""
    return {role: value for role, value in by_role.items() if role != ANALYST}


class Reported(Record):
    """What is read of a result: with which settings its analyst worked last."""

    model_config = ConfigDict(extra="ignore")

    analyst: dict[str, object]


def refuse_unfrozen(settings: RunSettings, manifest: Manifest, result: str | None) -> None:
    """Raise an `InputError` unless all but the cases is as in the finished run `frozen` names.

    `result`: the name of the analyst's result, which every subject there must have.
    """
    if settings.frozen is None:
        return
    folder = located(settings.frozen)
    if not folder.is_dir():
        folder = config.folder(settings.outputs) / settings.frozen
    held = next((m for f in subject_folders(folder) if (m := f.manifest())), None)
    if held is None:
        raise InputError(f"frozen={settings.frozen}: no run lies there")
    was, now = (
        {k: v for k, v in i.items() if k != CASES} for i in (held.identity, manifest.identity)
    )
    if was != now:
        key = next(k for k in sorted(was.keys() | now.keys()) if was.get(k) != now.get(k))
        raise InputError(
            f"frozen={settings.frozen}: {key} was {was.get(key, 'absent')[:24]} there, is "
            f"{now.get(key, 'absent')[:24]} now; {FROZEN_ALONE}"
        )
    without = [f.path.name for f in subject_folders(folder) if result and not f.has_result(result)]
    if without:
        raise InputError(
            f"frozen={settings.frozen}: {without[0]} has no result of this analyst; finish that "
            "run with the analyst's final settings first"
        )
    now_stopped = getattr(settings.analyst, "include_stopped", None)
    for one in subject_folders(folder) if now_stopped is not None else ():
        found = one.read_result(result, Reported) if result else None
        if found and (was_stopped := found.analyst.get("include_stopped")) != now_stopped:
            raise InputError(
                f"frozen={settings.frozen}: analyst.include_stopped was {was_stopped} for "
                f"{one.path.name} there, is {now_stopped} now; {FROZEN_ALONE}"
            )


def remembered_models(root: Path, asked: Asked) -> dict[str, str]:
    """Return what the run folder chose for each role, where it may still play that role."""
    held = next((m for folder in subject_folders(root) if (m := folder.manifest())), None)
    chosen = held.models if held else {}
    return {role: chosen[role] for role, names in asked.items() if chosen.get(role) in names}


def settings_to_repeat(folder: str, overrides: Sequence[str]) -> tuple[RunSettings, list[str]]:
    """Return the settings of an earlier run, and what cannot be the same this time.

    Inputs that changed since are taken from the copies in the folder. Unless told otherwise the
    repetition gets the folder `<run>-repeat`.
    """
    subjects = list(subject_folders(located(folder)))
    if not subjects:
        raise InputError(f"from={folder}: no run lies there")
    manifests = {subject.path: subject.manifest() for subject in subjects}
    place, held = next((path, m) for path, m in manifests.items() if m)
    plain = (
        held.config
        | ONE_OFF
        | {
            "from": folder,
            "run": f"{held.run}-repeat",
        }
    )
    _select(plain, [m.subject for m in manifests.values() if m])
    differences = []
    for key, copy in held.files.items():
        now = located(copy.path)
        if not now.exists() or sha256(now) != copy.sha256:
            _set(plain, key, str(place / INPUTS / copy.copy_name))
            differences.append(f"{copy.path} is not as it was: the run's own copy is used")
    settings = config.validated(config.changed(plain, overrides), RunSettings)
    nobody = Servers(services={})
    here = manifests_of(settings, nobody, [held.subject], place.parent)[0][held.subject]
    for field in ("version", "commit", "python"):
        was, is_now = getattr(held, field), getattr(here, field)
        if was != is_now:
            differences.append(f"{field} was {was}, is {is_now}")
    if held.dirty or here.dirty:
        differences.append("the checkout holds, or held, changes that no commit has")
    for key, value in held.identity.items():
        if key in here.identity and (changed := here.identity[key]) != value:
            differences.append(f"{key} was {value}, is {changed}")
    if held.served:
        names = ", ".join(sorted(set(held.served.values())))
        differences.append(f"models answer anew, by chance and perhaps by another build: {names}")
    return settings, differences


def _select(plain: dict[str, object], names: Sequence[str]) -> None:
    """Ask for these subjects, personas by number and cases by id."""
    if names[0].startswith("persona-"):
        plain["persona"] = [int(name.removeprefix("persona-")) for name in names]
    else:
        plain["case"] = list(names)


def _flat(plain: object, prefix: str = "") -> list[tuple[str, object]]:
    if isinstance(plain, dict):
        return [
            pair
            for key, value in plain.items()
            for pair in _flat(value, f"{prefix}.{key}" if prefix else str(key))
        ]
    return [(prefix, plain)]


def _set(plain: dict[str, object], key: str, value: object) -> None:
    *groups, last = key.split(".")
    for group in groups:
        inner = plain[group]
        assert isinstance(inner, dict)
        plain[group] = plain = dict(inner)
    plain[last] = value


def _checkout() -> tuple[str | None, bool | None]:
    """Return the commit and whether anything was changed since, where this is a checkout."""
    git = ["git", "-C", str(ROOT)]
    try:
        head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True)
        status = subprocess.run(
            [*git, "status", "--porcelain", "--untracked-files=no"], capture_output=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None, None
    return head.stdout.decode().strip(), bool(status.stdout.strip())
