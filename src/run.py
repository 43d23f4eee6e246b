"""Hold the interviews that are owed, then answer.

    python -m src.run persona=7 samples=20
    python -m src.run persona=[1,2,7] orchestrator.max_messages=12 run=short

The same command again resumes: what is finished is never held twice.
"""

import asyncio
import resource
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

from rich.console import Console

from src import build, command, config
from src.errors import DiskError, InputError, TooFewInterviews
from src.interview.batch import StopRequest, hold_all
from src.live import Watch
from src.prompts import located, shown
from src.provenance import manifest_of, settings_to_repeat
from src.records import INTENDED_USE
from src.settings import RunSettings
from src.subject import SubjectRun
from src.summary import answer_lines, table, what_went_wrong

SPARE_FILES = 32
"""File handles that Python, the terminal and result files take beside the journals."""
FULL_ANSWERS = 3
"""Up to so many personas are answered in full, more in a table."""


def run(arguments: Sequence[str]) -> None:
    """Do what the arguments say; whatever goes wrong is a `TacitError`."""
    settings, differences = read(arguments)
    casting, analyst = build.Casting(settings), build.analyst(settings.analyst)
    name = settings.run or settings.name
    root = config.folder(settings.outputs) / name
    manifest, inputs = manifest_of(settings, run=name)
    console = command.console()
    watch = Watch(console)
    subjects = [
        SubjectRun(settings, casting, analyst=analyst, folder=root / subject, watch=watch)
        for subject in build.subjects(settings)
    ]
    redo = _redone(settings, subjects)
    _refuse_too_many_files(len(subjects))
    for subject in subjects:
        subject.folder.refuse_other(manifest.identity)
    console.print(INTENDED_USE, style="dim")
    held = [held for subject in subjects if (held := subject.folder.manifest())]
    if older := sorted({m.version for m in held} - {manifest.version}):
        differences.append(f"held so far with version {older[0]}, goes on with {manifest.version}")
    for difference in differences:
        console.print(f"not the same: {difference}", style="yellow")
    with ExitStack() as stack:
        for subject in subjects:
            named = manifest.model_copy(update={"subject": subject.subject})
            stack.callback(subject.folder.close)
            subject.folder.open(named, inputs)
        asyncio.run(_hold_and_answer(settings, subjects, watch, redo))
    show(console, subjects, root)


def read(arguments: Sequence[str]) -> tuple[RunSettings, list[str]]:
    """Return the settings, and for from=FOLDER what cannot be the same as then."""
    for argument in arguments:
        if "=" not in argument and located(argument).exists():
            raise InputError(
                f"{argument}: a run takes no input file; python -m src.score reads them"
            )
    sources = [a.partition("=")[2] for a in arguments if a.startswith("from=")]
    if sources and sources[-1] != "null":
        others = [a for a in arguments if not a.startswith("from=")]
        return settings_to_repeat(sources[-1].strip("\"'"), others)
    return config.read_settings("config", RunSettings, arguments), []


async def _hold_and_answer(
    settings: RunSettings,
    subjects: Sequence[SubjectRun],
    watch: Watch,
    redo: Sequence[tuple[SubjectRun, int]],
) -> None:
    stop = StopRequest()
    with stop.listening(), watch.showing():
        for subject, sample in redo:
            assert settings.reason is not None
            await subject.redo(sample, settings.reason)
        if settings.only is None:
            owed = chain.from_iterable(subject.owed() for subject in subjects)
            limits = settings.limits
            await hold_all(owed, interviews=limits.interviews, deadline=limits.deadline, stop=stop)
        for subject in subjects:  # those of which nothing was owed
            if subject.answer is None and subject.shortfall is None:
                await subject.analyse()


def show(console: Console, subjects: Sequence[SubjectRun], root: Path) -> None:
    """Print the answers; raise `TooFewInterviews` where there is none."""
    answers = [subject.answer for subject in subjects if subject.answer]
    if len(answers) > 1:
        console.print(table(answers))
    for answer in answers if len(answers) <= FULL_ANSWERS else ():
        console.print(f"\n{answer.subject}", style="bold")
        for line in answer_lines(answer):
            console.print(line, markup=False)
        for line in what_went_wrong(answer.problems) if answer.problems else ():
            console.print(f"! {line}", style="red", markup=False)
    if answers:
        console.print(f"\n{answers[0].caution or ''}", style="dim")
    console.print(f"Files: {shown(root)}/<subject>/summary.md, results/, journal.jsonl")
    short = [f"{s.subject}: {s.shortfall}" for s in subjects if s.shortfall]
    if short:
        more = f" (and {len(short) - 1} more)" if len(short) > 1 else ""
        raise TooFewInterviews(short[0] + more)


def _redone(settings: RunSettings, subjects: Sequence[SubjectRun]) -> list[tuple[SubjectRun, int]]:
    """Return which samples to hold again; one that this run does not cover is refused."""
    by_number = {build.persona_number(subject.subject): subject for subject in subjects}
    chosen = []
    for pair in settings.redo:
        persona, sample = map(int, pair.split("/"))
        if persona not in by_number or sample > settings.samples:
            raise InputError(f"redo: {pair} is not among this run's personas and samples")
        chosen.append((by_number[persona], sample))
    return chosen


def _refuse_too_many_files(subjects: int) -> None:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = subjects + SPARE_FILES
    if allowed != resource.RLIM_INFINITY and needed > allowed:
        raise DiskError(f"{needed} files must be open, {allowed} may be: raise it with ulimit -n")


if __name__ == "__main__":
    command.main(__doc__, "config", run)
