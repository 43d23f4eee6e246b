"""Write the organisers' files from finished runs, or check anyone's; no interview is held.

    python -m src.submit runs=[outputs/baseline,outputs/hybrid] out=submission
    python -m src.submit check=submission gold=gold.jsonl

Each run of a submission is one interview a persona, with the answer it gave by itself. A check
prints every breach of the official form and ends with exit code 2 where there is one.
"""

import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from rich.console import Console
from rich.table import Table

from src import command, config
from src.clinical import bdi
from src.errors import InputError, boundary
from src.evaluation import official
from src.evaluation.conversations import read_gold
from src.evaluation.metrics import measure
from src.patients.lora import Adapters
from src.prompts import load_yaml, located
from src.records import INTENDED_USE
from src.settings import SubmitSettings
from src.store import subject_folders
from src.submission import Chosen, handed_in

SHOWN_BREACHES = 50
"""So many breaches are printed each on its line; the rest are counted by rule."""
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
        check(console, settings.check, settings)
    else:
        write(console, settings)


# writing


def write(console: Console, settings: SubmitSettings) -> None:
    """Write the files of the runs and print what is in them."""
    assert settings.out is not None
    out = _empty(settings.out)
    adapters = _adapters(settings.adapters)
    chosen = handed_in(settings)
    texts = official.build((one.entry for one in chosen), settings.layout)
    built = official.Check({path: text.encode() for path, text in texts.items()}, {})
    if built.breaches:
        raise InputError(f"nothing was written: {built.breaches[0].line}")
    console.print(_table(chosen, adapters, settings))
    if any(one.batch.offline for one in chosen):
        console.print(REHEARSAL, style="yellow")
    if len(settings.runs) < official.RUNS and not settings.split_batches:
        console.print(SHARED, style="yellow")
    _put(out, texts)
    console.print(f"Written: {out}, {len(texts)} files", markup=False)


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


def _table(
    chosen: Sequence[Chosen], adapters: Mapping[int, str], settings: SubmitSettings
) -> Table:
    """Return a line for each run and persona, so that nobody is off by one."""
    table = Table(box=None, header_style="bold", padding=(0, 1, 0, 0))
    for heading in ("run", "persona", "adapter", "hash", "sample"):
        table.add_column(heading)
    for heading in ("total", "band", "k", "chars/\nmessage", "consensus"):
        table.add_column(heading, justify="right")
    for one in sorted(chosen, key=lambda one: (one.entry.run, one.entry.persona)):
        entry, persona = one.entry, one.entry.persona
        said = [m["message"] for m in official.messages(entry.interview) if m["role"] == "user"]
        adapter = adapters.get(persona, "unknown")
        table.add_row(
            str(entry.run),
            str(persona),
            "none: rule-based" if one.batch.offline else adapter,
            one.batch.served or "-",
            str(entry.selected.sample),
            str(entry.selected.total),
            bdi.band(entry.selected.total, settings.bands),
            str(entry.interview.messages),
            f"{fmean(map(len, said)):.1f}",
            str(one.consensus.total),
        )
    return table


def _empty(given: str) -> Path:
    """Return where to write, refusing a folder that holds anything."""
    out = Path(given).expanduser().absolute()
    if out == Path.cwd():
        raise InputError(f"out={given}: is the folder you are in; name a new one")
    try:
        if not out.exists() or not any(out.iterdir()):
            return out.resolve()
    except OSError as error:
        raise InputError(f"out={given}: {error.strerror}") from error
    raise InputError(f"out={given}: holds other files already; name a new or an empty folder")


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


# checking


def check(console: Console, given: str, settings: SubmitSettings) -> None:
    """Print every breach in a folder and end with an `InputError`, or print what is in order."""
    folder = located(given)
    if not folder.is_dir():
        raise InputError(f"check={given}: is no folder")
    if any(subject_folders(folder)):
        raise InputError(f"check={given}: is a run's folder; runs={given} makes the files of it")
    truths = read_gold(settings.gold) if settings.gold else {}
    found = official.Check(_contents(folder), truths)
    for breach in found.breaches[:SHOWN_BREACHES]:
        console.print(breach.line, markup=False)
    rest = Counter(breach.rule for breach in found.breaches[SHOWN_BREACHES:])
    for rule, count in rest.most_common():
        console.print(f"and {count} more: {rule}", markup=False)
    if found.breaches:
        raise InputError(f"{given}: {len(found.breaches)} breaches of the official form")
    if not found.files:
        raise InputError(f"check={given}: holds no interactions_runN.json or results_runN.json")
    entries = sum(len(file.rows) for file in found.files) // 2
    console.print(
        f"{given}: no breach in {len(found.files)} files: {', '.join(found.runs)}, "
        f"{len(found.personas)} personas, {entries} conversations",
        markup=False,
    )
    if truths:
        console.print(_measures(found, settings))


def _contents(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by path, hidden ones left out; only JSON is read."""
    contents = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if any(part.startswith((".", "__")) for part in name.parts) or not path.is_file():
            continue
        try:
            contents[name.as_posix()] = path.read_bytes() if path.suffix == ".json" else b""
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    return contents


def _measures(found: official.Check, settings: SubmitSettings) -> Table:
    """Return the official measures of each run over the personas whose truth is known."""
    table = Table(box=None, header_style="bold")
    for heading in ("run", "personas", "DCHR", "ADODL", "ASHR", "LDCHR", "LASHR", "mean k"):
        table.add_column(heading, justify="right")
    for run in found.runs:
        if outcomes := found.outcomes(run):
            m = measure(outcomes, bands=settings.bands)
            values = (m.dchr, m.adodl, m.ashr, m.ldchr, m.lashr)
            figures = ["-" if value is None else f"{value:.4f}" for value in values]
            k = fmean(outcome.k for outcome in outcomes)
            table.add_row(run, str(len(outcomes)), *figures, f"{k:.1f}")
    return table


if __name__ == "__main__":
    command.main(__doc__, "submit", submit)
