"""Measure what the driver costs and how well it fills a server, as ratios from one run.

    python -m src.bench
    python -m src.bench parts=[soak] out=soak.json
    python -m src.bench parts=[saturation,cache] cast=local

The first three parts need no model: they start a stand-in for a server. The others ask the servers
of an experiment. strict=true ends with exit code 1 where an aim was missed.
"""

import asyncio
import shlex
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from src import command, config
from src.benchmark import driver, serving
from src.benchmark.figures import Figure, Results, machine, table
from src.errors import TacitError, boundary
from src.prompts import sha256
from src.settings import RunSettings
from src.settings.bench import BenchSettings, Part
from src.store import digest_of

PLACES = ("out", "gpu", "endpoints", "url")
"""Keys that say where something is, on this machine alone."""
NOT_MEASURED = {*PLACES, "strict"}
"""Keys that change nothing that is measured."""


def bench(arguments: Sequence[str]) -> None:
    """Measure the parts that are asked for, print them, and write them where told."""
    settings = config.read_settings("bench", BenchSettings, arguments)
    console = command.console()
    figures: list[Figure] = []
    models: tuple[str, ...] = ()
    for part in settings.parts:
        sys.stderr.write(f"{part} …\n")
        found, served = measured(part, settings)
        figures += found
        models = tuple(dict.fromkeys([*models, *served]))
    console.print(table(figures))
    results = Results(
        command=as_given(arguments),
        config_digest=digest(settings, runs_of(settings)),
        date=datetime.now(UTC).date(),
        machine=machine(settings.gpu),
        models=models,
        figures=tuple(figures),
    )
    if settings.out:
        path = Path(settings.out).expanduser()
        with boundary(str(path)):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(results.model_dump_json(indent=1) + "\n", encoding="utf-8")
        console.print(f"Written to {path}")
    if settings.strict and results.missed:
        raise TacitError(f"missed: {'; '.join(results.missed)}")


def measured(part: Part, settings: BenchSettings) -> tuple[list[Figure], tuple[str, ...]]:
    """Return a part's figures, and the served models that were asked."""
    match part:
        case "limits":
            return driver.limits(settings, run_of(part, settings)), ()
        case "overhead":
            run = run_of(part, settings)
            asked = run.models[run.asked_models[driver.ASKED][0]]
            return [asyncio.run(driver.cpu(settings, asked)), *driver.room(settings, run)], ()
        case "soak":
            return driver.soak(settings, run_of(part, settings)), ()
        case "saturation":
            return asyncio.run(serving.saturation(settings))
        case "cache":
            return asyncio.run(serving.cache(settings))


def run_of(part: Part, settings: BenchSettings) -> RunSettings:
    """Return the settings of the run by which a part is measured."""
    own = settings.arguments(part)
    match part:
        case "limits" | "overhead" | "soak":
            return config.read_settings("config", RunSettings, [*settings.usual, *own])
        case "saturation" | "cache":
            return serving.run_of(settings, *own)


def runs_of(settings: BenchSettings) -> dict[Part, RunSettings]:
    """Return the run of every part that is measured, wherever its servers are."""
    anywhere = settings.model_copy(update={"url": None})
    return {part: run_of(part, anywhere) for part in settings.parts}


def digest(settings: BenchSettings, runs: Mapping[Part, RunSettings]) -> str:
    """Return 16 hex digits over what is measured, the files of its runs by their content."""
    told: dict[str, object] = settings.model_dump(mode="json", exclude=NOT_MEASURED)
    for part, run in runs.items():
        told[f"{part}: run"] = run.model_dump(mode="json", exclude={"endpoints"})
        told[f"{part}: files"] = {key: sha256(f.path) for key, f in config.files(run).items()}
    return digest_of({key: str(value) for key, value in told.items()})


def as_given(arguments: Sequence[str]) -> str:
    """Return the command as it was typed, less what is true of one machine alone."""
    places = tuple(f"{key}=" for key in PLACES)
    kept = [argument for argument in arguments if not argument.startswith(places)]
    return shlex.join(["python", "-m", "src.bench", *kept])


if __name__ == "__main__":
    command.main(__doc__, "bench", bench)
