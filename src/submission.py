"""What is handed in: of each persona and run one finished interview, or a refusal that says why."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from src import build
from src.analysts.median import min_valid
from src.errors import InputError, TooFewInterviews
from src.evaluation import official
from src.prompts import located, shown
from src.records import Consensus, Interview, visible
from src.settings import PERSONAS, ConsensusSettings, MedianSettings, SubmitSettings
from src.store import RESULTS, Manifest, SubjectFolder, subject_folders
from src.summary import SubjectResult

AnyAnalyst = ConsensusSettings | MedianSettings
ANALYST = TypeAdapter[AnyAnalyst](Annotated[AnyAnalyst, Field(discriminator="kind")])


@dataclass(frozen=True, kw_only=True)
class Batch:
    """One persona's finished interviews in one run's folder, or a half of them."""

    place: str
    persona: int
    manifest: Manifest
    analyst: AnyAnalyst
    planned: int
    interviews: Mapping[int, Interview]
    """The valid ones by sample."""

    @property
    def served(self) -> str:
        """Hash in the served adapter's name; empty where no adapter was served."""
        name = self.manifest.served.get("patient", "")
        return name.removeprefix(f"{self.manifest.subject}-")

    @property
    def offline(self) -> bool:
        return self.manifest.identity.get("patient.kind") == "offline"

    def analysed(self) -> Consensus:
        """Return what the run's own analyst makes of these interviews."""
        enough = self.analyst.model_copy(update={"selected": official.RUNS})
        return asyncio.run(build.analyst(enough).analyse(list(self.interviews.values())))

    def half(self, *, odd: bool) -> "Batch":
        """Return the samples with odd or with even numbers, as a batch of its own."""
        name = "odd" if odd else "even"
        mine = {n: one for n, one in self.interviews.items() if n % 2 == odd}
        planned = len([n for n in range(1, self.planned + 1) if n % 2 == odd])
        about = self.analyst
        needed = min_valid(planned, share=about.min_share, least=about.min_interviews)
        if len(mine) < max(needed, 1):
            raise TooFewInterviews(
                f"{self.place}: of its {name} samples {len(mine)}/{planned} are valid, and an "
                f"answer needs {max(needed, 1)}"
            )
        return replace(
            self, place=f"{self.place}, {name} samples", planned=planned, interviews=mine
        )


@dataclass(frozen=True)
class Chosen:
    """What is handed in of one persona in one run."""

    entry: official.Entry
    batch: Batch
    consensus: Consensus


def handed_in(settings: SubmitSettings) -> list[Chosen]:
    """Return every persona's place in the three runs; what may not be handed in is refused."""
    folders = {located(run): run for run in settings.runs}
    if len(folders) < len(settings.runs):
        raise InputError("runs: a folder stands there twice; runs must not share information")
    batches = [_batches(path, name, settings) for path, name in folders.items()]
    for other, name in zip(batches[1:], settings.runs[1:], strict=True):
        if lone := sorted(batches[0].keys() ^ other.keys()):
            both = f"both {settings.runs[0]} and {name}"
            raise InputError(f"persona {lone[0]} is not in {both}: hold its interviews too")
    chosen: list[Chosen] = []
    short = []
    for persona in batches[0]:
        try:
            chosen += _chosen([batch[persona] for batch in batches], settings)
        except TooFewInterviews as error:
            short.append(str(error))
    if short:
        more = f" (and {len(short) - 1} more personas)" if len(short) > 1 else ""
        raise TooFewInterviews(short[0] + more)
    return chosen


def _chosen(own: Sequence[Batch], settings: SubmitSettings) -> list[Chosen]:
    """Return a persona's place in the three runs, each with an interview of its own."""
    if settings.split_batches:
        own = [own[0], own[1].half(odd=True), own[1].half(odd=False)]
    chosen: list[Chosen] = []
    for n, batch in enumerate(own, 1):
        consensus = batch.analysed()
        wanted = 1 if n < len(own) else official.RUNS - len(chosen)
        for selected in consensus.selected[:wanted]:
            entry = official.Entry(
                run=len(chosen) + 1,
                persona=batch.persona,
                interview=batch.interviews[selected.sample],
                selected=selected,
            )
            chosen.append(Chosen(entry, batch, consensus))
    distinct = len({visible(one.entry.interview.turns) for one in chosen})
    if distinct < official.RUNS:
        raise TooFewInterviews(
            f"{own[-1].place}: {distinct} distinct valid runs, and a submission needs "
            f"{official.RUNS}; hold more samples, or interviews with another seed"
        )
    return chosen


def _batches(path: Path, name: str, settings: SubmitSettings) -> dict[int, Batch]:
    """Return a run's finished interviews by persona's number, or refuse the run."""
    batches: dict[int, Batch] = {}
    first: Manifest | None = None
    for folder in subject_folders(path):
        manifest = folder.manifest()
        assert manifest is not None
        first = first or manifest
        _refuse(manifest, first, f"{name}: {manifest.subject}", settings)
        batch = _batch(folder, manifest, name)
        batches[batch.persona] = batch
    if not batches:
        raise InputError(f"{name}: no run lies there; python -m src.run persona=all makes one")
    return dict(sorted(batches.items()))


def _refuse(manifest: Manifest, first: Manifest, place: str, settings: SubmitSettings) -> None:
    """Raise an `InputError` for interviews that may not be handed in."""
    held = manifest.identity
    numbers = {f"persona-{n:02d}" for n in range(1, PERSONAS + 1)}
    patient = held.get("patient.kind")
    if manifest.subject not in numbers or patient not in {"lora", "offline"}:
        raise InputError(f"{place} is none of the organisers' personas")
    if patient == "offline" and not settings.offline:
        raise InputError(
            f"{place} is a rule-based person and must not be handed in; offline=true writes a "
            "rehearsal"
        )
    if held.get("interviewer.kind") != "scripted" and held.get("guard.kind", "none") == "none":
        raise InputError(
            f"{place} was interviewed by a model without the guard: a message may name what must "
            "not be asked about; hold the interviews again with guard=screening"
        )
    one, other = _shared(first), _shared(manifest)
    for key in sorted(one.keys() | other.keys()):
        if (was := one.get(key)) != (now := other.get(key)):
            raise InputError(
                f"{place} was held with {key}={str(now)[:24]}, {first.subject} with "
                f"{str(was)[:24]}: the personas of a run are held alike"
            )


def _shared(manifest: Manifest) -> dict[str, str]:
    """Return the identity without the name of the persona's own adapter."""
    return {key: value for key, value in manifest.identity.items() if key != "patient.model"}


def _batch(folder: SubjectFolder, manifest: Manifest, name: str) -> Batch:
    """Return a subject's valid interviews; the stored result must be of them."""
    place = f"{name}: {manifest.subject}"
    again = f"python -m src.run from={shown(folder.path)} run={manifest.run} only=analysis makes it"
    found = _answer(folder.path / RESULTS, manifest)
    if found is None:
        raise InputError(f"{place} has no result; {again}")
    analyst, answer = found
    states = sorted(folder.load().items())
    batch = Batch(
        place=place,
        persona=build.persona_number(manifest.subject),
        manifest=manifest,
        analyst=analyst,
        planned=answer.n_planned,
        interviews={
            n: state.ended
            for n, state in states
            if n <= answer.n_planned and state.ended and state.ended.valid
        },
    )
    now, then = batch.analysed(), answer.result
    if (now.total, now.totals) != (then.total, then.totals):
        raise InputError(f"{place}: its result is not of the interviews there; {again} anew")
    return batch


def _answer(results: Path, manifest: Manifest) -> tuple[AnyAnalyst, SubjectResult] | None:
    """Return the result of the run's own analyst, or else the only one, or None."""
    answers = []
    for path in sorted(results.glob("*.json")):
        try:
            answer = SubjectResult.model_validate_json(path.read_bytes())
            answers.append((ANALYST.validate_json(json.dumps(answer.analyst)), answer))
        except (OSError, ValidationError) as error:
            raise InputError(f"{path}: is damaged, or of another version") from error
    own = [pair for pair in answers if pair[1].analyst == manifest.config.get("analyst")]
    candidates = own or answers
    return candidates[0] if len(candidates) == 1 else None
