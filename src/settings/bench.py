"""Everything that `python -m src.bench` can be told; conf/bench.yaml holds the values."""

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from src.settings.form import Positive, Seconds, Settings, Share

Arguments = tuple[Annotated[str, Field(pattern=r"=")], ...]
"""Arguments of `python -m src.run`."""
Part = Literal["limits", "overhead", "soak", "saturation", "cache"]


class LoadSettings(Settings):
    """A run of src.run against the stand-in for a server."""

    runs: Positive
    seconds: Seconds
    arguments: Arguments
    plan: dict[str, Any]
    """What the stand-in is told, as JSON."""


class LimitsSettings(LoadSettings):
    aim: Share
    tail: Share


class OverheadSettings(LoadSettings):
    rounds: Positive
    calls: Positive
    concurrent: Positive
    messages: Annotated[int, Field(ge=2)]
    cpu: Share
    memory: Positive
    files: Positive


class SaturationSettings(Settings):
    pairs: Positive
    aim: Share
    running_aim: Share
    tail: Share
    every: Seconds
    interviews: Positive
    alone: Positive
    arguments: Arguments


class CacheSettings(Settings):
    aim: Share
    arguments: Arguments


class BenchSettings(Settings):
    parts: tuple[Part, ...]
    strict: bool
    out: Annotated[str, Field(min_length=1)] | None
    gpu: Annotated[str, Field(min_length=1)] | None
    endpoints: Annotated[str, Field(min_length=1)]
    cast: Annotated[str, Field(min_length=1)]
    """Name of an experiment: Hydra takes a key of that name for its group."""
    persona: Positive
    calls: Positive | None
    url: Annotated[str, Field(pattern=r"^https?://")] | None
    stand_in: Annotated[str, Field(min_length=1)]
    plays: tuple[str, ...]
    usual: Arguments
    limits: LimitsSettings
    overhead: OverheadSettings
    soak: LoadSettings
    saturation: SaturationSettings
    cache: CacheSettings

    def arguments(self, part: Part) -> Arguments:
        """Return what a part's run is told beside what they all are."""
        own: LoadSettings | SaturationSettings | CacheSettings = getattr(self, part)
        return own.arguments

    @field_validator("parts")
    @classmethod
    def _some_parts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or len(set(value)) < len(value):
            raise ValueError("name each part once: parts=[limits,overhead]")
        return value
