"""List the models and adapters on this machine, and fetch what is missing from the hub.

python -m serving.models                                            list, ask nobody
python -m serving.models fetch=true persona=[9,10]                  a new week's adapters
python -m serving.models fetch=true model=[gemma,personas]          the bases, gated and large

Fetching takes a machine with the net, such as a login node; jobs then run with the hub offline. It
pins: what is on disk stays until conf names another revision. Interrupted, the same command goes
on, file by file. Adapters go to models/adapters, bases to the hub's own cache. No file that is
tracked changes: the line that pins is printed.
"""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field
from rich.console import Console
from rich.table import Table

from serving.cached import copy_of, held, model_path
from serving.fetched import Fetched, fetched_in, folder_of
from serving.other_python import go_on
from serving.settings import LaunchSettings, Name, Persona
from src import command, config
from src.errors import InputError, ServerError
from src.prompts import load_yaml
from src.settings.form import Settings
from src.settings.personas import Adapters

UNPINNED = "not pinned: fetch pins it"
QUIET = {"HF_HUB_DISABLE_TELEMETRY": "1", "DO_NOT_TRACK": "1", "HF_HUB_VERBOSITY": "error"}
UNSEEN = {"HF_HUB_DISABLE_PROGRESS_BARS": "1"}
"""Off a terminal: bars would fill a log."""
OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")


class ModelsSettings(Settings):
    """Everything that `python -m serving.models` can be told."""

    fetch: bool
    persona: Literal["all"] | Persona | Annotated[tuple[Persona, ...], Field(min_length=1)] | None
    model: Name | Annotated[tuple[Name, ...], Field(min_length=1)] | None
    published: Name
    """File that names each persona's adapter."""
    adapters: Name
    python: Name
    licences: dict[str, str]
    """Names of licences by the hub's own for them."""

    @property
    def any_will_do(self) -> bool:
        """Say whether nobody in particular was asked for."""
        return self.persona in {None, "all"}


@dataclass(frozen=True)
class Source:
    """A repository of the hub that is wanted, and where it goes."""

    name: str
    repository: str
    revision: str | None
    """The commit that conf pins."""
    folder: Path | None
    """An adapter's; None for a base, which goes to the hub's cache."""
    persona: int | None = None


def models(arguments: Sequence[str]) -> None:
    """Print what is here, or fetch; raise a `ServerError` where the hub cannot be asked."""
    settings = config.read_settings("adapters", ModelsSettings, arguments)
    console = command.console()
    if not settings.fetch:
        _list(console, settings)
        return
    wanted = wanted_of(settings)
    if all(one.folder and here(one) for one in wanted):
        for one in wanted:
            console.print(f"{one.name} is on disk, {one.repository}")
        return
    for name in OFFLINE:
        if os.environ.get(name, "").upper() in {"1", "ON", "YES", "TRUE"}:
            raise ServerError(f"{name} is set: nothing is fetched; unset it where there is a net")
    go_on(
        settings.python,
        "serving.fetching",
        arguments,
        needs=("huggingface_hub",),
        environment=QUIET | ({} if sys.stderr.isatty() else UNSEEN),
    )


def wanted_of(settings: ModelsSettings) -> tuple[Source, ...]:
    """Return the adapters and bases asked for; what conf does not name is an `InputError`."""
    options = settings.model or ()
    options = (options,) if isinstance(options, str) else options
    return (*_adapters(settings, nobody=bool(options)), *_bases(options))


def here(source: Source) -> Fetched | None:
    """Return a persona's adapter where it is on disk at the revision that is wanted."""
    assert source.folder is not None
    fetched = fetched_in(source.folder)
    if fetched is None or fetched.adapter != source.repository:
        return None
    return fetched if source.revision in {None, fetched.revision} else None


def _adapters(settings: ModelsSettings, *, nobody: bool) -> Iterator[Source]:
    """Yield the adapters of the personas asked for: of all, or of nobody, where none is named."""
    if settings.persona is None and nobody:
        return
    known = load_yaml(settings.published, Adapters).personas
    given = settings.persona
    numbers = tuple(known) if given in {None, "all"} else given
    for number in (numbers,) if isinstance(numbers, int) else numbers or ():
        if not isinstance(number, int) or number not in known:
            raise InputError(f"{settings.published}: names no adapter of persona {number}")
        folder = folder_of(config.folder(settings.adapters), number)
        one = known[number]
        yield Source(f"persona-{number:02d}", one.adapter, one.revision, folder, number)


def _bases(options: Sequence[str]) -> Iterator[Source]:
    """Yield the repositories of options of conf/serving, each once."""
    seen, known = set(), config.options("launch")["serving"]
    for option in options:
        if option not in known:
            raise InputError(f"model={option}: no such model; choose from {', '.join(known)}")
        for server in config.read_settings(
            "launch", LaunchSettings, [f"serving={option}"]
        ).servers.values():
            if model_path(server.model) != server.model:
                raise InputError(f"model={option}: {server.model} is a folder, nothing to fetch")
            if (server.model, server.revision) not in seen:
                seen.add((server.model, server.revision))
                yield Source(option, server.model, server.revision, None)


def _list(console: Console, settings: ModelsSettings) -> None:
    known = load_yaml(settings.published, Adapters)
    table = Table("persona", "adapter", "revision", "released", "on disk", box=None)
    for one in _adapters(settings, nobody=False):
        assert one.persona is not None
        released = known.personas[one.persona].released
        cells = (_short(one.revision), str(released or "not known"), _adapter_here(one))
        table.add_row(str(one.persona), one.repository, *cells)
    console.print(table)
    table = Table("model", "repository", "revision", "in the hub's cache", box=None)
    for option in config.options("launch")["serving"]:
        try:
            bases = tuple(_bases([option]))
        except InputError:  # a folder
            continue
        if len(bases) == 1:  # a combination repeats what stands alone
            (base,) = bases
            there = held(copy_of(base.repository, base.revision))
            cells = (base.repository, _short(base.revision), there)
            table.add_row(option, *cells)
    console.print()
    console.print(table)


def _adapter_here(source: Source) -> str:
    assert source.folder is not None
    try:
        fetched = fetched_in(source.folder)
    except InputError:
        return "another, not fetched"
    if fetched is None:
        return "no"
    return "yes" if here(source) else f"of revision {fetched.revision[:12]}"


def _short(revision: str | None) -> str:
    return revision[:12] if revision else UNPINNED


if __name__ == "__main__":
    command.main(__doc__, "adapters", models)
