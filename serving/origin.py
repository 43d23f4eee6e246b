"""Where a model folder comes from, written beside its weights."""

import hashlib
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from src.errors import InputError, boundary
from src.prompts import one_line, shown
from src.records import Record

ORIGIN = "origin.json"


class Origin(Record):
    """What a model folder was made of."""

    model: str
    source: str
    """Who publishes the model."""
    licence: str
    package: str
    version: str
    file: str
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Hash of the file that was converted."""


def origin_of(folder: Path) -> Origin | None:
    """Return what a folder says of itself; None where there is no folder."""
    if not folder.exists():
        return None
    try:
        return Origin.model_validate_json((folder / ORIGIN).read_bytes())
    except OSError as error:
        reason = f"{shown(folder)}: is there, but holds no {ORIGIN} that can be read"
        raise InputError(f"{reason}; give another out=FOLDER, or remove it") from error
    except ValidationError as error:
        raise InputError(f"{shown(folder / ORIGIN)}: {one_line(error)}") from error


def sha256_of(path: Path) -> str:
    """Return a file's hash, 64 hex digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """Yield a folder to fill that becomes `out` at the end of the block, or nothing at all.

    What stood there before is replaced.
    """
    with boundary(shown(out)):
        out.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(dir=out.parent, prefix=f".{out.name}."))
    try:
        with boundary(shown(out)):
            filled = draft / "new"
            filled.mkdir()
            yield filled
            if out.exists():
                out.rename(draft / "old")
            filled.rename(out)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
