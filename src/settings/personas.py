"""Which published adapter plays which official persona."""

from datetime import date
from typing import Annotated

from pydantic import Field

from src.settings.commands import PERSONAS
from src.settings.form import Settings


class Adapter(Settings):
    """Where one persona's adapter comes from."""

    adapter: Annotated[str, Field(pattern=r"^[\w.-]+/[\w.-]+$")]
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None
    released: date | None


class Adapters(Settings):
    """The adapters by official persona number, `conf/personas/erisk2026.yaml`."""

    base: str
    personas: dict[Annotated[int, Field(ge=1, le=PERSONAS)], Adapter]
