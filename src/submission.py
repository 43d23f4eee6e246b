"""What is handed in: of each persona and run one finished interview, or a refusal that says why."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError

from src import build
from src.analysts.median import require_enough
from src.errors import InputError, TooFewInterviews
from src.evaluation import official
from src.prompts import located, shown
from src.records import Consensus, Interview, visible
from src.settings import PERSONAS, ConsensusSettings, MedianSettings, SubmitSettings
from src.store import RESULTS, Manifest, SubjectFolder, subject_folders
from src.summary import SubjectResult

AnyAnalyst = ConsensusSettings | MedianSettings
ANALYST = TypeAdapter[AnyAnalyst](Annotated[AnyAnalyst, Field(discriminator="kind")])
SUBJECTS = {build.persona_name(n) for n in range(1, PERSONAS + 1)}


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
        """Return what the run's own analyst makes of these interviews, if they are enough."""
        about, valid = self.analyst, list(self.interviews.values())
        try:
            require_enough(
                len(valid), self.planned, share=about.min_share, least=about.min_interviews
            )
            enough = about.model_copy(update={"selected": official.RUNS})
            return asyncio.run(build.analyst(enough).analyse(valid))
        except TooFewInterviews as error:
            raise TooFewInterviews(f"{self.place}: {error}") from error

    def half(self, *, odd: bool) -> "Batch":
        """Return the samples with odd or with even numbers, as a batch of its own."""
        return replace(
            self,
            place=f"{self.place}, {'odd' if odd else 'even'} samples",
            planned=(self.planned + odd) // 2,
            interviews={n: one for n, one in self.interviews.items() if n % 2 == odd},
        )


@dataclass(frozen=True)
class Chosen:
    """What is handed in of one persona in one run."""

    entry: official.Entry
    batch: Batch
    consensus: Consensus


def handed_in(settings: SubmitSettings) -> list[Chosen]:
    """Return every persona's place in the three runs; what may not be handed in is refused."""
    runs = settings.runs
    if len({located(run) for run in runs}) < len(runs):
        raise InputError("runs: a folder stands there twice; runs must not share information")
    batches = [_batches(run, settings) for run in runs]
    for other, name in zip(batches, runs, strict=True):
        if lone := sorted(batches[0].keys() ^ other.keys()):
            both = f"both {runs[0]} and {name}"
            raise InputError(f"persona {lone[0]} is not in {both}: hold its interviews too")
    chosen: list[Chosen] = []
    short = []
    for persona in sorted(batches[0]):
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


def _batches(run: str, settings: SubmitSettings) -> dict[int, Batch]:
    """Return a run's finished interviews by persona's number, or refuse the run."""
    batches = [_batch(folder, run, settings) for folder in subject_folders(located(run))]
    if not batches:
        raise InputError(f"{run}: no run lies there; python -m src.run persona=all makes one")
    return {batch.persona: batch for batch in batches}


def _batch(folder: SubjectFolder, run: str, settings: SubmitSettings) -> Batch:
    """Return a subject's valid interviews, or refuse what may not be handed in."""
    manifest = folder.manifest()
    assert manifest is not None
    held, place = manifest.identity, f"{run}: {manifest.subject}"
    if manifest.subject not in SUBJECTS or held.get("patient.kind") not in {"lora", "offline"}:
        raise InputError(f"{place} is none of the organisers' personas")
    if held["patient.kind"] == "offline" and not settings.offline:
        raise InputError(
            f"{place} is a rule-based person and must not be handed in; offline=true writes a "
            "rehearsal"
        )
    if held.get("interviewer.kind") != "scripted" and held.get("guard.kind", "none") == "none":
        raise InputError(
            f"{place} was interviewed by a model without the guard: a message may name what must "
            "not be asked about; hold the interviews again with guard=screening"
        )
    found = _answer(folder.path / RESULTS, manifest)
    if found is None:
        again = f"python -m src.run from={shown(folder.path)} run={manifest.run} only=analysis"
        raise InputError(f"{place} has no result; {again} makes it")
    analyst, planned = found
    ended = {n: state.ended for n, state in sorted(folder.load().items()) if n <= planned}
    return Batch(
        place=place,
        persona=build.persona_number(manifest.subject),
        manifest=manifest,
        analyst=analyst,
        planned=planned,
        interviews={n: one for n, one in ended.items() if one and one.valid},
    )


def _answer(results: Path, manifest: Manifest) -> tuple[AnyAnalyst, int] | None:
    """Return analyst and planned samples of the run's own result, or of the only one, or None."""
    own: list[tuple[AnyAnalyst, int]] = []
    others: list[tuple[AnyAnalyst, int]] = []
    for path in sorted(results.glob("*.json")):
        try:
            answer = SubjectResult.model_validate_json(path.read_bytes())
            analyst = ANALYST.validate_json(json.dumps(answer.analyst))
        except (OSError, ValidationError) as error:
            raise InputError(f"{path}: is damaged, or of another version") from error
        is_own = answer.analyst == manifest.config.get("analyst")
        (own if is_own else others).append((analyst, answer.n_planned))
    candidates = own or others
    return candidates[0] if len(candidates) == 1 else None
