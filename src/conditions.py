"""From run folders to conditions: what an interviewer and a diagnoser came to on every case."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from src.diagnosing import CaseResult, held
from src.errors import InputError
from src.evaluation.judged import Judged, Label, complete
from src.evaluation.tool_sheets import Held
from src.interview.views import transcript
from src.llm.ledger import ADAPTER
from src.patients.cases import FAMILIES, Case
from src.prompts import located, one_line, shown
from src.records import Call, Interview, sha256_of
from src.rehearsal import Assumptions
from src.reports import Diagnosis, Findings
from src.store import RESULTS, Manifest, SubjectFolder, subject_folders

Key = tuple[str, int]
"""Subject and sample."""


@dataclass
class Reported:
    """One analyst's results in one run."""

    judged: list[Judged] = field(default_factory=list)
    diagnoses: dict[Key, Diagnosis] = field(default_factory=dict)
    """Of whole interviews."""
    subjects: set[str] = field(default_factory=set)
    cautions: set[str] = field(default_factory=set)

    @property
    def findings(self) -> list[Findings]:
        """Return what counts: after a stop whose diagnosis is suppressed, nothing does."""
        shown = (one for one in self.diagnoses.values() if not one.suppressed)
        return [one.findings for one in shown if one.findings]


@dataclass
class Run:
    """One run's folder."""

    name: str
    path: Path
    interviews: dict[Key, Interview] = field(default_factory=dict)
    calls: list[Call] = field(default_factory=list)
    references: dict[str, tuple[Label, ...] | None] = field(default_factory=dict)
    analysts: dict[str, Reported] = field(default_factory=dict)
    """By the analyst's kind; by kind and digest where a kind stands there twice."""
    held_out: str | None = None
    """Name of the cohort, where it is one that is kept aside."""
    models: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Key and backend of each model by its name."""

    @property
    def conditions(self) -> dict[str, Reported]:
        return {f"{self.name}/{name}": one for name, one in self.analysts.items()}

    def held(self, assumed: Assumptions) -> Held:
        """Return what a run took; how many GPUs a server of ours has is assumed."""

        def cards(call: Call) -> int | None:
            name = ADAPTER if call.asked.startswith(ADAPTER) else call.asked
            key, backend = self.models.get(name, ("", ""))
            speed = assumed.speed.get(key) or assumed.speed.get(backend)
            return None if speed is None else speed.cards if backend == "vllm" else 0

        return Held(
            interviews=[*self.interviews.values()],
            reports={name: one.findings for name, one in self.conditions.items()},
            calls=self.calls,
            cards=cards,
        )


def runs_of(folders: Sequence[str]) -> list[Run]:
    """Return the runs by the names of their folders; one without a report is an `InputError`."""
    paths = [located(folder) for folder in folders]
    if len(set(paths)) < len(paths):
        raise InputError("runs: a folder stands there twice")
    names = [path.name for path in paths]
    return [_run(path, path.name if names.count(path.name) == 1 else shown(path)) for path in paths]


def _run(path: Path, name: str) -> Run:
    run, results = Run(name=name, path=path), dict[str, list[tuple[SubjectFolder, CaseResult]]]()
    for folder in subject_folders(path):
        for stem, result in _results(folder.path / RESULTS):
            results.setdefault(stem, []).append((folder, result))
        _read(run, folder)
    if not results:
        raise InputError(
            f"{shown(path)}: holds no diagnostic report; python -m src.run with an analyst that "
            "diagnoses makes them"
        )
    kinds = [stem.rpartition("-")[0] for stem in results]
    for stem, found in sorted(results.items()):
        kind = stem.rpartition("-")[0]
        reported = run.analysts[kind if kinds.count(kind) == 1 else stem] = Reported()
        for folder, result in found:
            _take(run, reported, folder.path.name, result)
    return run


def _results(folder: Path) -> Iterator[tuple[str, CaseResult]]:
    """Yield the results that hold diagnoses; a screening's are passed over."""
    for path in sorted(folder.glob("*.json")):
        try:
            content = path.read_bytes()
            if "diagnoses" in json.loads(content):
                yield path.stem, CaseResult.model_validate_json(content)
        except (OSError, ValueError, TypeError) as error:
            why = one_line(error) if isinstance(error, ValidationError) else "no JSON"
            raise InputError(f"{shown(path)}: is damaged, or of another version: {why}") from error


def _read(run: Run, folder: SubjectFolder) -> None:
    """Take what a subject's journal holds."""
    ended = [(n, state.ended) for n, state in sorted(folder.load().items()) if state.ended]
    for sample, interview in ended:
        if held([interview]):
            run.interviews[folder.path.name, sample] = interview
    run.calls += folder.calls()[0]
    manifest = folder.manifest()
    run.held_out = run.held_out or _held_out(manifest)
    run.models |= _models(manifest) if manifest else {}


def _take(run: Run, reported: Reported, subject: str, result: CaseResult) -> None:
    """Take a subject's diagnoses; those of an interview that was held again since are left out."""
    references = _labels(result.case)
    run.references[subject] = references
    reported.subjects.add(subject)
    reported.cautions |= {result.caution} if result.caution else set()
    for one in result.diagnoses:
        interview = run.interviews.get((subject, one.sample))
        read = interview.turns[: one.exchanges] if interview else ()
        if interview is None or sha256_of(transcript(read)) != one.transcript:
            continue
        judged = Judged(
            subject=subject,
            sample=one.sample,
            exchanges=one.exchanges,
            whole=len(interview.turns),
            references=references,
            status="suppressed" if one.suppressed else "reported" if one.findings else "failed",
            hypotheses=one.hypotheses,
            sex=result.case.sex if result.case else None,
            age=result.case.age if result.case else None,
            safety=result.safety_present,
        )
        reported.judged.append(judged)
        if complete([judged]):
            reported.diagnoses[judged.key] = one


def _labels(case: Case | None) -> tuple[Label, ...] | None:
    if case is None:
        return None
    return tuple(
        Label(code=one.code, name=one.name, family=FAMILIES[one.code[:3]])
        for one in case.references
    )


def _models(manifest: Manifest) -> dict[str, tuple[str, str]]:
    """Return key and backend of each model that a run could ask; adapters are its patients'."""
    config: dict[str, Any] = manifest.config
    found: dict[str, tuple[str, str]] = {}
    for key, model in config.get("models", {}).items():
        found[model["name"]] = (key, model["backend"])
        if key in config.get("patient", {}).get("models", ()):
            found[ADAPTER] = found[model["name"]]
    return found


def _held_out(manifest: Manifest | None) -> str | None:
    cohort: Any = manifest.config.get("cohort") if manifest else None
    return str(cohort["name"]) if isinstance(cohort, dict) and cohort.get("held_out") else None


def times_held_out(run: Run) -> list[str]:
    """Return the names of the runs beside this one that were held on its held-out cohort."""
    return sorted(
        folder.name
        for folder in run.path.parent.iterdir()
        if folder.is_dir()
        and run.held_out in {_held_out(one.manifest()) for one in subject_folders(folder)}
    )
