"""Endpoint files: where a server of ours answers, and with which key.

`<folder>/<name>.json`, readable by its owner alone and replaced in one step. Whoever serves
writes it; a run reads it, and its host counts as local.
"""

import contextlib
import json
import os
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from src.errors import InputError
from src.prompts import one_line
from src.records import Record


class Endpoint(Record):
    """One server of ours, as its endpoint file tells."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    state: Literal["starting", "ready", "ended"]
    host: str
    """A host name or address that was dialled successfully; empty while starting."""
    port: Annotated[int, Field(ge=0, lt=2**16)]
    key: Annotated[str, Field(repr=False)]
    job: str | None
    """Slurm's job id; None where no scheduler started it."""
    pid: int
    """Process id of the launcher, on its own node."""
    node: str = ""
    """Name of the machine on which the launcher runs; empty: not known."""
    start: str
    """Random, new at every start of the server."""
    identity: str
    """Hash of the server's command line and of its adapters' content."""
    served: tuple[str, ...]
    """Names that it lists: the model, then its adapters."""
    log: str
    """The server's log file, absolute."""
    changed: datetime

    @property
    def base_url(self) -> str:
        """Return the address of the API; an IPv6 address stands in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}/v1"


def endpoint_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def read_endpoint(folder: Path, name: str) -> Endpoint | None:
    """Return what the file says, None where there is none; a broken one is an `InputError`."""
    path = endpoint_path(folder, name)
    try:
        return Endpoint.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    except ValidationError as error:
        raise InputError(f"{path}: {one_line(error)}") from error


def publish(folder: Path, endpoint: Endpoint) -> None:
    """Put the file in place in one step, readable by its owner alone."""
    folder.mkdir(parents=True, exist_ok=True)
    stamped = endpoint.model_copy(update={"changed": datetime.now(UTC)})
    text = json.dumps(stamped.model_dump(mode="json"), indent=1)
    handle, draft = tempfile.mkstemp(dir=folder, prefix=f".{endpoint.name}.")  # mode 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        Path(draft).replace(endpoint_path(folder, endpoint.name))
    except BaseException:
        with contextlib.suppress(OSError):
            Path(draft).unlink()
        raise
