"""Adapters that were fetched: where each came from, and how it gets into its place whole."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import ValidationError

from serving.origin import ORIGIN
from src.errors import FolderError, InputError, boundary
from src.prompts import one_line, shown
from src.records import Record


class Fetched(Record):
    """Where a fetched adapter came from, `origin.json` in its folder."""

    adapter: str
    """Its repository on the hub."""
    revision: str
    licence: str | None
    """As its card says; null where it says nothing."""
    files: dict[str, str | None]
    """Each file's SHA-256, as the hub knows it; null for small ones, which it hashes otherwise."""


def folder_of(adapters: Path, persona: int) -> Path:
    return adapters / f"persona-{persona:02d}"


def draft_of(folder: Path, revision: str) -> Path:
    """Return where a revision is gathered: no name that serving takes, and the same next time."""
    return folder.with_name(f".{folder.name}.{revision[:12]}")


def fetched_in(folder: Path) -> Fetched | None:
    """Return what is in a folder; None where there is none, an `InputError` if it is not ours."""
    if not folder.exists():
        return None
    path = folder / ORIGIN
    try:
        return Fetched.model_validate_json(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(
            f"{shown(folder)}: was not fetched (trained here?); move it away, or give "
            "adapters=FOLDER"
        ) from error
    except OSError as error:
        raise InputError(f"{shown(path)}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise InputError(f"{shown(path)}: {one_line(error)}") from error


def refuse_fetched(folder: Path) -> None:
    """Raise an `InputError` for a folder that was fetched: what is trained must not replace it."""
    if (folder / ORIGIN).exists():
        raise InputError(
            f"{shown(folder)}: was fetched, and is not replaced; train with out=FOLDER, and serve "
            "that with adapters=FOLDER"
        )


def put_in_place(draft: Path, folder: Path, fetched: Fetched) -> None:
    """Make a gathered adapter the one that is served; whenever this ends, none is half there."""
    former = folder.with_name(f".{folder.name}.former")
    with boundary(shown(folder)):
        shutil.rmtree(draft / ".cache", ignore_errors=True)  # the hub's notes on the download
        (draft / ORIGIN).write_text(fetched.model_dump_json(indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(former, ignore_errors=True)
        if folder.exists():
            folder.rename(former)
        draft.rename(folder)
    for left in folder.parent.glob(f".{folder.name}.*"):  # and what other revisions left behind
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def alone(adapters: Path) -> Iterator[None]:
    """Let nobody else fetch into a folder meanwhile; another there is a `FolderError`."""
    with boundary(shown(adapters)):
        adapters.mkdir(parents=True, exist_ok=True)
        file = (adapters / ".fetching").open("w", encoding="utf-8")
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderError(
                f"{shown(adapters)}: another command is fetching into it; wait for its end"
            ) from error
        yield
