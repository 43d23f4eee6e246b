"""Fetch from the hub what serving.models was asked for; runs in .venv-serving, started by it."""

import shutil
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from serving.cached import cache, copies_of
from serving.fetched import Fetched, alone, draft_of, put_in_place
from serving.hub import Hub, Snapshot, Unavailable, Unpublished
from serving.lora import CONFIG, WEIGHTS, read_adapter
from serving.models import ModelsSettings, Source, here, wanted_of
from serving.origin import sha256_of
from src import command, config
from src.errors import DiskError, ServerError, boundary
from src.prompts import load_yaml, shown
from src.settings.personas import Adapters

GIGABYTE, MEGABYTE = 1e9, 1e6


def fetch(arguments: Sequence[str]) -> None:
    """Fetch everything that can be had; raise what went wrong, or how much."""
    settings = config.read_settings("adapters", ModelsSettings, arguments)
    console, wanted = command.console(), wanted_of(settings)
    with alone(config.folder(settings.adapters)):
        hub = Hub(settings.licences)
        found, refused = describe(hub, wanted, console)
        _refuse_full_disk(hub, found, console)
        for snapshot in found:
            try:
                _fetch(hub, snapshot, console)
            except Unavailable as error:
                refused.append(error)
    _print_pins(console, settings, wanted)
    if refused and len(wanted) == 1:
        raise refused[0]
    for one in refused:
        console.print(str(one))
    if settings.any_will_do and len(refused) < len(wanted):  # the rest comes week by week
        refused = [one for one in refused if not isinstance(one, Unpublished)]
    if refused:
        raise ServerError(f"{len(refused)} of {len(wanted)} could not be fetched, see above")


def describe(
    hub: Hub, wanted: Sequence[Source], console: Console
) -> tuple[list[Snapshot], list[Unavailable]]:
    """Return what has to be fetched, and why some cannot be."""
    found, refused = [], list[Unavailable]()
    for source in wanted:
        if source.folder and here(source):
            console.print(f"{source.name} is on disk, {source.repository}")
            continue
        try:
            snapshot = hub.describe(source)
            _refuse_unusable(snapshot)
        except Unavailable as error:
            refused.append(error)
            continue
        gated = ", gated: its terms bind you" if snapshot.gated else ""
        licence = snapshot.licence or "none stated"
        console.print(f"{source.name}: {source.repository} at {snapshot.revision[:12]}")
        console.print(f"  licence: {licence}{gated}")
        found.append(snapshot)
    return found, refused


def _refuse_unusable(snapshot: Snapshot) -> None:
    """Refuse weights in no form that is taken: what would be unpickled may run anything."""
    needed = (CONFIG, WEIGHTS[0]) if snapshot.source.folder else ("config.json",)
    weights = any(name.endswith(".safetensors") for name in snapshot.files)
    if not weights or any(name not in snapshot.files for name in needed):
        names = " and ".join((*needed, "safetensors") if len(needed) == 1 else needed)
        raise Unavailable(
            f"{snapshot.source.name}: {snapshot.source.repository} does not hold {names}; "
            "weights in other forms are not taken"
        )


def _refuse_full_disk(hub: Hub, found: Sequence[Snapshot], console: Console) -> None:
    """Print what will be fetched, and raise a `DiskError` where a disk has no room for it."""
    needs: dict[int, int] = defaultdict(int)
    free: dict[int, int] = {}
    for snapshot in found:
        place = _standing(_target(snapshot) or cache())
        device = place.stat().st_dev
        needs[device] += hub.missing(snapshot, _target(snapshot))
        free[device] = shutil.disk_usage(place).free
    for device, need in needs.items():
        if need > free[device]:
            raise DiskError(
                f"{_size(need)} are to be fetched, but {_size(free[device])} are free: free space, "
                "or name another place (HF_HOME for bases, adapters=FOLDER)"
            )
        console.print(f"To fetch: {_size(need)}; {_size(free[device])} are free.")


def _fetch(hub: Hub, snapshot: Snapshot, console: Console) -> None:
    """Fetch a repository's files; an adapter is in its place when it is whole, and not before."""
    source, draft = snapshot.source, _target(snapshot)
    for name, remote in snapshot.files.items():
        path = hub.download(snapshot, name, draft)
        if draft and remote.sha256 and sha256_of(path) != remote.sha256:
            with boundary(shown(path)):
                path.unlink()
            raise ServerError(f"{source.name}: {name} arrived damaged; repeat the command")
    if draft is None or source.folder is None or source.persona is None:
        console.print(f"{source.name}: {source.repository} is in the hub's cache")
        return
    read_adapter(source.persona, draft)  # what vLLM could not load is refused here
    fetched = Fetched(
        adapter=source.repository,
        revision=snapshot.revision,
        licence=snapshot.licence,
        files={name: remote.sha256 for name, remote in snapshot.files.items()},
    )
    put_in_place(draft, source.folder, fetched)
    console.print(f"{source.name}: in {shown(source.folder)}")


def _print_pins(console: Console, settings: ModelsSettings, wanted: Sequence[Source]) -> None:
    """Print the lines that pin what is on disk and that conf does not pin; conf stays as it is."""
    known = load_yaml(settings.published, Adapters)
    lines = [
        f"  {one.persona}: {{adapter: {one.repository}, revision: {fetched.revision}, "
        f"released: {known.personas[one.persona].released or 'null'}}}"
        for one in wanted
        if one.persona and one.revision is None and (fetched := here(one))
    ]
    if lines:
        console.print(f"To pin what is on disk, write into {settings.published}:")
        for line in lines:
            console.print(line)
    folder = copies_of(known.base) / "snapshots"
    if any(one.persona for one in wanted) and not folder.is_dir():
        console.print(
            f"Their base {known.base} is not in the hub's cache: "
            "python -m serving.models fetch=true model=personas"
        )


def _target(snapshot: Snapshot) -> Path | None:
    """Return the folder where an adapter is gathered; None for the hub's cache."""
    folder = snapshot.source.folder
    return draft_of(folder, snapshot.revision) if folder else None


def _standing(path: Path) -> Path:
    """Return the nearest folder above that exists."""
    return next(one for one in (path, *path.absolute().parents) if one.is_dir())


def _size(count: int) -> str:
    big = count >= GIGABYTE
    return f"{count / GIGABYTE:.1f} GB" if big else f"{count / MEGABYTE:.1f} MB"


if __name__ == "__main__":
    command.main(__doc__, "adapters", fetch)
