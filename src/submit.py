"""Write the organisers' files from finished runs, or check anyone's; no interview is held.

    python -m src.submit runs=[outputs/baseline,outputs/hybrid] out=submission
    python -m src.submit check=submission

Each run of a submission is one interview a persona, with the answer it gave by itself. A check
prints every breach of the official form and ends with exit code 2 where there is one.
"""

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Column, Table

from src import command, config
from src.clinical import bdi
from src.errors import InputError, boundary
from src.evaluation import official
from src.prompts import load_yaml, located
from src.records import INTENDED_USE
from src.settings import SubmitSettings
from src.settings.personas import Adapters
from src.store import subject_folders
from src.submission import Chosen, handed_in

SHOWN_BREACHES = 50
PUBLISHED = re.compile(r"patient-([0-9]{2})-adapter$")
REHEARSAL = "Rule-based persons: a rehearsal that must not be handed in."
SHARED = (
    "note: runs from one folder were chosen by one consensus over all its samples; with two "
    "folders split_batches=true parts them"
)


def submit(arguments: Sequence[str]) -> None:
    """Do what the arguments say; whatever goes wrong is a `TacitError`."""
    settings = config.read_settings("submit", SubmitSettings, arguments)
    console = command.console()
    console.print(INTENDED_USE, style="dim")
    if settings.check is not None:
        check(console, settings.check)
    else:
        write(console, settings)


def write(console: Console, settings: SubmitSettings) -> None:
    """Write the files of the runs and print what is in them."""
    assert settings.out is not None
    out = command.empty_folder(settings.out, replaced=True)
    adapters = _adapters(settings.adapters)
    chosen = handed_in(settings)
    texts = official.build((one.entry for one in chosen), settings.layout)
    built = official.Check({path: text.encode() for path, text in texts.items()})
    if built.breaches:
        raise InputError(f"nothing was written: {built.breaches[0]}")
    console.print(_table(chosen, adapters, settings.bands))
    if any(one.batch.offline for one in chosen):
        console.print(REHEARSAL, style="yellow")
    if len(settings.runs) < official.RUNS and not settings.split_batches:
        console.print(SHARED, style="yellow")
    _put(out, texts)
    console.print(f"Written: {out}, {len(texts)} files")


def _adapters(path: str) -> dict[int, str]:
    """Return the published adapters by persona; one of a neighbour's is an `InputError`."""
    adapters = {n: one.adapter for n, one in load_yaml(path, Adapters).personas.items()}
    for persona, adapter in adapters.items():
        number = PUBLISHED.search(adapter)
        if number and int(number[1]) + 1 != persona:
            raise InputError(
                f"{path}: personas[{persona}]: {adapter} is persona {int(number[1]) + 1}'s: the "
                "organisers count adapters from 0"
            )
    return adapters


def _table(chosen: Sequence[Chosen], adapters: Mapping[int, str], bands: bdi.Bands) -> Table:
    """Return a line for each run and persona, so that nobody is off by one."""
    figures = ("total", "band", "k", "chars/\nmessage", "consensus")
    table = Table(
        *("run", "from", "persona", "adapter", "hash", "sample"),
        *(Column(figure, justify="right") for figure in figures),
        box=None,
        padding=(0, 1, 0, 0),
    )
    for one in sorted(chosen, key=lambda one: (one.entry.run, one.entry.persona)):
        entry, total = one.entry, one.entry.selected.total
        said = [m["message"] for m in official.messages(entry.interview) if m["role"] == "user"]
        cells = (
            entry.run,
            one.batch.manifest.run,
            entry.persona,
            "none: rule-based" if one.batch.offline else adapters.get(entry.persona, "unknown"),
            one.batch.served or "-",
            entry.selected.sample,
            total,
            bdi.band(total, bands),
            entry.interview.messages,
            f"{fmean(map(len, said)):.1f}",
            one.consensus.total,
        )
        table.add_row(*map(str, cells))
    return table


def _put(out: Path, texts: Mapping[str, str]) -> None:
    """Write all the files or none."""
    draft = out.with_name(f".{out.name}.{os.getpid()}")
    with boundary(str(out)):
        try:
            for path, text in texts.items():
                (draft / path).parent.mkdir(parents=True, exist_ok=True)
                (draft / path).write_text(text, encoding="utf-8")
            draft.replace(out)
        finally:
            shutil.rmtree(draft, ignore_errors=True)


def check(console: Console, given: str) -> None:
    """Print every breach in a folder and end with an `InputError`, or print what is in order."""
    folder = located(given)
    if not folder.is_dir():
        raise InputError(f"check={given}: is no folder")
    if any(subject_folders(folder)):
        raise InputError(f"check={given}: is a run's folder; runs={given} makes the files of it")
    found = official.Check(_contents(folder))
    for breach in found.breaches[:SHOWN_BREACHES]:
        console.print(breach)
    if count := len(found.breaches):
        more = f", the first {SHOWN_BREACHES} above" if count > SHOWN_BREACHES else ""
        raise InputError(f"{given}: {count} breaches of the official form{more}")
    if not found.files:
        raise InputError(f"check={given}: holds no interactions_runN.json or results_runN.json")
    console.print(
        f"{given}: no breach in {len(found.files)} files: {', '.join(found.runs)}, "
        f"{len(found.personas)} personas, {len(found.entries) // 2} conversations",
        markup=False,
    )


def _contents(folder: Path) -> dict[str, bytes]:
    """Return the JSON files below a folder by path, hidden ones left out."""
    contents = {}
    for path in folder.rglob("*.json"):
        name = path.relative_to(folder)
        if not any(part.startswith((".", "__")) for part in name.parts):
            try:
                contents[name.as_posix()] = path.read_bytes()
            except OSError as error:
                raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return contents


if __name__ == "__main__":
    command.main(__doc__, "submit", submit)
