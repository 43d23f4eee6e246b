"""Measure what the driver costs and how well it fills a server, as ratios from one run.

    python -m src.bench
    python -m src.bench parts=[soak] out=soak.json
    python -m src.bench parts=[saturation,cache] experiment=cpu

The first three parts need no model: they start a stand-in for a server. The others ask the servers
of an experiment.
"""

import asyncio
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from src import command, config
from src.benchmark import driver, serving
from src.benchmark.figures import Figure, Results, machine, table
from src.errors import boundary
from src.settings import RunSettings
from src.settings.bench import BenchSettings, Part
from src.store import digest_of

NOT_MEASURED = {"out", "gpu", "endpoints"}
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
    told = settings.model_dump(mode="json", exclude=NOT_MEASURED)
    results = Results(
        command=" ".join(["python -m src.bench", f"parts=[{','.join(settings.parts)}]"]),
        config_digest=digest_of({key: str(value) for key, value in told.items()}),
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


def measured(part: Part, settings: BenchSettings) -> tuple[list[Figure], tuple[str, ...]]:
    """Return a part's figures, and the served models that were asked."""
    match part:
        case "limits":
            return driver.limits(settings, _run(settings, settings.limits.arguments)), ()
        case "overhead":
            run = _run(settings, settings.overhead.arguments)
            asked = run.models[run.asked_models[driver.ASKED][0]]
            return [asyncio.run(driver.cpu(settings, asked)), *driver.room(settings, run)], ()
        case "soak":
            return driver.soak(settings, _run(settings, settings.soak.arguments)), ()
        case "saturation":
            return asyncio.run(serving.saturation(settings))
        case "cache":
            return asyncio.run(serving.cache(settings))


def _run(settings: BenchSettings, arguments: Sequence[str]) -> RunSettings:
    return config.read_settings("config", RunSettings, [*settings.usual, *arguments])


if __name__ == "__main__":
    command.main(__doc__, "bench", bench)
