"""Several runs by one command: every experiment with every model, answered by every analyst.

    python -m src.run experiment=[psycidra,direct] analyst=[diagnosis,direct] cohort=invented

Each pair of experiment and model has a run folder of its own, `<experiment>-<model>`, with a result
of every analyst. The same command again goes on where it ended.
"""

import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

from src.errors import InputError, ServerError, TooFewInterviews

LISTED = ("experiment", "analyst", "models")
_LIST = re.compile(r"\[\s*[\w.-]+(\s*,\s*[\w.-]+)*\s*\]")


@dataclass(frozen=True)
class GridRun:
    """One command of a grid."""

    name: str
    arguments: tuple[str, ...]


def grid_of(arguments: Sequence[str]) -> list[GridRun]:
    """Return the commands that a grid stands for; none where no argument is a list of choices."""
    given = dict(argument.split("=", 1) for argument in arguments if "=" in argument)
    listed = {key for key in LISTED if given.get(key, "").strip().startswith("[")}
    if listed <= {"models"} and "," not in given.get("models", ""):
        return []  # one model beside one experiment: which descriptions are loaded
    for key in listed:
        if not _LIST.fullmatch(given[key].strip()):
            raise InputError(f"{key}={given[key]}: a list of names such as [a,b]")
    if not {"cohort", "persona"} & given.keys():
        raise InputError(f"{min(listed)}=[…] goes with cohort=NAME or persona=…")
    if refused := [key for key in ("run", "only", "from", "redo") if key in given]:
        raise InputError(f"{refused[0]}= has no one meaning for several runs; give one experiment")
    if "experiment" not in given:
        raise InputError("name the experiments: experiment=[psycidra,direct]")
    choices = {key: _names(given[key]) for key in LISTED if key in given}
    rest = [a for a in arguments if a.split("=", 1)[0] not in LISTED]
    return [
        run
        for experiment, model in product(choices["experiment"], choices.get("models", ("",)))
        for run in _runs(experiment, model, choices.get("analyst", ("",)), rest)
    ]


def run_each(parts: Sequence[GridRun], run_one: Callable[[Sequence[str]], None]) -> None:
    """Run every part; what one lacks keeps no other from its answer, and is raised at the end.

    A run whose interviews could not be held may have left nothing for its other analysts to read.
    """
    failed: dict[str, TooFewInterviews | ServerError] = {}
    for part in parts:
        sys.stdout.write(f"\n== {part.name}: {' '.join(part.arguments)}\n")
        try:
            run_one(part.arguments)
        except (TooFewInterviews, ServerError) as error:
            sys.stderr.write(f"tacit: {part.name}: {error}\n")
            failed[part.name] = error
        except InputError as error:
            if part.name not in failed:
                raise
            sys.stderr.write(f"tacit: {part.name}: skipped: {error}\n")
    if failed:  # a server that is missing first: the others follow from what it would have said
        raise max(failed.values(), key=lambda error: error.exit_code)


def _runs(
    experiment: str, model: str, analysts: Sequence[str], rest: Sequence[str]
) -> list[GridRun]:
    name = f"{experiment}-{model}" if model else experiment
    frozen = [f"{a}/{name}" if a.startswith("frozen=") else a for a in rest]  # each by its own
    common = [f"experiment={experiment}", f"run={name}", *frozen]
    common += [f"backbone=[{model}]"] if model else []
    return [
        GridRun(
            name,
            (
                *common,
                *([f"analyst={analyst}"] if analyst else []),
                *([] if number == 0 else ["only=analysis"]),
            ),
        )
        for number, analyst in enumerate(analysts)
    ]


def _names(value: str) -> tuple[str, ...]:
    """Return the names of a list, or of the one choice."""
    names = tuple(name.strip() for name in value.strip("[] ").split(","))
    if len(set(names)) < len(names):
        raise InputError(f"{value}: the same name stands twice")
    return names
