"""Hold the interviews that are owed, then answer.

    python -m src.run persona=7 interviewer=gemma
    python -m src.run experiment=offline persona=[1,2,7] samples=10 run=short
    python -m src.run persona=7 dry_run=true

The same command again resumes: what is finished is never held twice.
"""

import asyncio
import resource
from collections.abc import Sequence
from contextlib import AsyncExitStack
from importlib.metadata import version
from itertools import chain
from pathlib import Path

from rich.console import Console
from rich.table import Table

from src import build, command, config
from src.diagnosing import CaseResult, case_lines, case_table
from src.errors import DiskError, InputError, TooFewInterviews
from src.forecast import show_forecast, taken
from src.grid import grid_of, run_each
from src.interview.batch import StopRequest, hold_all
from src.live import Watch
from src.llm.ledger import Allowance, Prices
from src.llm.proofs import Proofs, prove
from src.llm.servers import ANALYST, Servers, open_servers
from src.prompts import load_yaml, located, shown
from src.provenance import (
    manifests_of,
    refuse_unfrozen,
    remembered_models,
    settings_to_repeat,
)
from src.readiness import longest_prompts, refuse_too_small, server_checks
from src.records import INTENDED_USE, Call
from src.settings import ReportSettings, RunSettings
from src.store import SubjectFolder
from src.subject import SubjectRun, count_spent, owed_samples, owes_diagnoses, report_name
from src.summary import SubjectResult, answer_lines, table, what_went_wrong

SPARE_FILES = 32
"""File handles that Python, the terminal and result files take beside journals and calls."""
FULL_ANSWERS = 3
"""Up to so many personas are answered in full, more in a table."""


def run(arguments: Sequence[str]) -> None:
    """Do what the arguments say, once or for every part of a grid; what goes wrong is raised."""
    parts = grid_of(arguments)
    if not parts:
        run_one(arguments)
        return
    for part in parts:  # every part is refused before the first one spends anything
        build.Casting(read(part.arguments)[0])
    run_each(parts, run_one)


def run_one(arguments: Sequence[str]) -> None:
    """Hold what one run owes, and answer."""
    settings, differences = read(arguments)
    asked = {name for names in settings.asked_models.values() for name in names}
    if not set(settings.backbone) & asked and any(a.startswith("backbone=") for a in arguments):
        raise InputError(
            f"backbone: nobody in {settings.name} asks it, so models=[…] changes nothing"
        )
    console = command.console()
    root = config.folder(settings.outputs) / (settings.run or settings.name)
    if settings.dry_run:
        show_forecast(settings, console, root)
        return
    subjects = asyncio.run(_hold_and_answer(settings, differences, console, root))
    show(console, subjects, settings=settings, root=root)


def read(arguments: Sequence[str]) -> tuple[RunSettings, list[str]]:
    """Return the settings, and for from=FOLDER what cannot be the same as then."""
    for argument in arguments:
        if "=" not in argument and located(argument).exists():
            raise InputError(
                f"{argument}: a run takes no input file; python -m src.score reads them"
            )
    sources = [a.partition("=")[2] for a in arguments if a.lstrip("+").startswith("from=")]
    if sources and sources[-1] != "null":
        others = [a for a in arguments if not a.lstrip("+").startswith("from=")]
        return settings_to_repeat(sources[-1].strip("\"'"), others)
    return config.read_settings("config", RunSettings, arguments), []


async def _hold_and_answer(
    settings: RunSettings, differences: Sequence[str], console: Console, root: Path
) -> list[SubjectRun]:
    """Refuse what can be refused, then open, hold and answer."""
    stop = StopRequest()
    async with AsyncExitStack() as stack:
        stack.enter_context(stop.listening())
        casting = build.Casting(settings)
        prices = load_yaml(settings.price_list, Prices)
        if settings.only is None and not settings.redo and _all_held(settings, root):
            settings = settings.model_copy(update={"only": "analysis"})  # no server is needed
        asked = _asked(settings, root)
        servers = await stack.enter_async_context(
            open_servers(
                asked,
                settings.models,
                remembered=remembered_models(root, asked),
                local_hosts=settings.local_hosts if settings.privacy == "local" else None,
                endpoints=config.folder(settings.endpoints),
                adapters=not settings.of_cases,
            )
        )
        names, notes = build.subjects(settings, servers, root)
        about = settings.analyst
        reports = report_name(about, settings) if isinstance(about, ReportSettings) else None
        first = manifests_of(settings, servers, names[:1], root)[0][names[0]]
        refuse_unfrozen(settings, first, reports)
        if servers.services:
            _refuse_unpriced(settings, servers, prices)
            longest = longest_prompts(settings, words_max=casting.words_max)
            refuse_too_small(servers, longest)
            needed = server_checks(settings, servers, names)
            notes += await prove(needed, Proofs(config.folder(settings.endpoints)))
        watch = Watch(console, prices, planned=len(names) * settings.samples)
        allowance = Allowance(prices, cost=settings.max_cost, tokens=settings.max_tokens)
        subjects = [
            SubjectRun(
                settings,
                casting,
                servers=servers,
                folder=root / name,
                watch=watch,
                allowance=allowance,
                stop=stop,
            )
            for name in names
        ]
        missing = [s.subject for s in subjects if settings.only and not s.folder.manifest()]
        if missing:
            raise InputError(f"only=analysis: no run of {missing[0]} lies in {shown(root)}")
        redo = _redone(settings, subjects)
        _refuse_too_many_files(servers, len(subjects))
        manifests, inputs = manifests_of(settings, servers, names, root)
        for subject in subjects:
            subject.folder.refuse_other(manifests[subject.subject].identity)
        differences = [*(f"not the same: {line}" for line in differences), *_versions(subjects)]
        _introduce(console, servers, [*differences, *notes])
        for subject in subjects:
            stack.callback(subject.folder.close)
            subject.folder.open(manifests[subject.subject], inputs)
        count_spent(root, allowance)
        for subject, sample in redo:
            await subject.redo(sample, settings.reason or "")
        with watch.showing():
            await _hold(settings, subjects, stop)
    return subjects


def _folders(settings: RunSettings, root: Path) -> list[SubjectFolder]:
    return [SubjectFolder(root / name) for name in build.wanted(settings)]


def _all_held(settings: RunSettings, root: Path) -> bool:
    """Whether every interview that the command asks for has been held before."""
    folders = _folders(settings, root)
    return all(f.manifest() and not owed_samples(settings, f)[0] for f in folders)


def _asked(settings: RunSettings, root: Path) -> dict[str, tuple[str, ...]]:
    """Return the models to ask by role; once all is held, an analyst's alone if it owes reports."""
    if settings.only is None:
        return settings.asked_models
    owed = any(owes_diagnoses(settings, folder) for folder in _folders(settings, root))
    return {r: m for r, m in settings.asked_models.items() if r == ANALYST and owed}


async def _hold(settings: RunSettings, subjects: Sequence[SubjectRun], stop: StopRequest) -> None:
    if settings.only is None:
        owed = chain.from_iterable(subject.owed() for subject in subjects)
        deadline = settings.limits.deadline
        await hold_all(owed, interviews=settings.interviews, deadline=deadline, stop=stop)
    unowed = [s for s in subjects if s.answer is None and s.shortfall is None]
    outcomes = await asyncio.gather(*(s.analyse() for s in unowed), return_exceptions=True)
    for error in outcomes:  # all have come to rest: what could be answered is written
        if isinstance(error, BaseException):
            raise error


def _introduce(console: Console, servers: Servers, notes: Sequence[str]) -> None:
    """Print who will see text, what the run is for, and what is not as it was."""
    for line in servers.introduction:
        console.print(line)
    console.print(INTENDED_USE, style="dim")
    for note in notes:
        console.print(note, style="yellow")


def _versions(subjects: Sequence[SubjectRun]) -> list[str]:
    """Return one line where another version of the package held what is there."""
    held = {m.version for subject in subjects if (m := subject.folder.manifest())}
    here = version("tacit")
    older = sorted(held - {here})
    return [f"held so far with version {older[0]}, goes on with {here}"] if older else []


def show(
    console: Console, subjects: Sequence[SubjectRun], *, settings: RunSettings, root: Path
) -> None:
    """Print the answers; raise `TooFewInterviews` where there is none."""
    answers = [subject.answer for subject in subjects if subject.answer]
    if len(answers) > 1:
        console.print(table_of(answers))
    for answer in answers if len(answers) <= FULL_ANSWERS else ():
        console.print(f"\n{answer.subject}", style="bold")
        for line in lines_of(answer):
            console.print(line)
        for line in what_went_wrong(answer.problems) if answer.problems else ():
            console.print(f"! {line}", style="red")
    if answers and answers[0].caution:
        console.print(f"\n{answers[0].caution}", style="dim")
    for part in taken(settings, root, [s.folder for s in subjects if s.answer]):
        console.print(part)
    console.print(f"Files: {shown(root)}/<subject>/summary.md, results/, journal.jsonl")
    short = [f"{s.subject}: {s.shortfall}" for s in subjects if s.shortfall]
    if short:
        more = f" (and {len(short) - 1} more)" if len(short) > 1 else ""
        raise TooFewInterviews(short[0] + more)


def table_of(answers: Sequence[SubjectResult | CaseResult]) -> Table:
    """Return one line a subject."""
    cases = [answer for answer in answers if isinstance(answer, CaseResult)]
    return (
        case_table(cases)
        if cases
        else table([answer for answer in answers if isinstance(answer, SubjectResult)])
    )


def lines_of(answer: SubjectResult | CaseResult) -> list[str]:
    """Return an answer as short lines."""
    return case_lines(answer) if isinstance(answer, CaseResult) else answer_lines(answer)


def _redone(settings: RunSettings, subjects: Sequence[SubjectRun]) -> list[tuple[SubjectRun, int]]:
    """Return which samples to hold again; one that does not exist is refused."""
    by_name = {subject.subject: subject for subject in subjects}
    chosen = []
    for pair in settings.redo:
        name, number = pair.split("/")
        sample = int(number)
        subject = by_name.get(build.persona_name(int(name)) if name.isdecimal() else name)
        if subject is None or sample > settings.samples or not subject.has_ended(sample):
            raise InputError(f"redo: {pair} is no finished sample of this run's subjects")
        chosen.append((subject, sample))
    return chosen


def _refuse_unpriced(settings: RunSettings, servers: Servers, prices: Prices) -> None:
    """Refuse a limit in dollars where not every price is known."""
    names = [service.model.settings.name for service in servers.services.values()]
    unknown = [n for n in names if prices.cost(Call(role="", asked=n, input_tokens=1)) is None]
    if settings.max_cost is not None and unknown:
        raise InputError(
            f"max_cost: {settings.price_list} has no price of {unknown[0]}; add it there, or limit "
            "the run with max_tokens"
        )


def _refuse_too_many_files(servers: Servers, subjects: int) -> None:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    models = {s.key: s.model.settings for s in servers.services.values()}
    calls = sum(model.calls for model in models.values())
    needed = subjects + calls + SPARE_FILES
    if allowed != resource.RLIM_INFINITY and needed > allowed:
        raise DiskError(f"{needed} files must be open, {allowed} may be: raise it with ulimit -n")


if __name__ == "__main__":
    command.main(__doc__, "config", run)
