"""What every command shares: help, `--cfg`, one line for what goes wrong, exit codes."""

import io
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import yaml
from rich.console import Console

from src import config
from src.errors import DiskError, InputError, TacitError
from src.records import INTENDED_USE

EXITS = """exit codes:
  0 done                       1 too few valid interviews   2 bad input, refused or locked folder
  3 a server or key is missing 4 disk or file limit         5 cost, token limit or quota reached
  130, 143 interrupted; the same command goes on from there"""


WIDTH = 110
"""Columns where no terminal says how many there are."""


def console() -> Console:
    """Return where a command prints; off a terminal, wide enough for its tables."""
    width = None if sys.stdout.isatty() else WIDTH
    return Console(highlight=False, soft_wrap=True, markup=False, width=width)


def main(doc: str, root: str, action: Callable[[Sequence[str]], None]) -> None:
    """Run a command with the process's arguments and end the process with its exit code."""
    arguments = sys.argv[1:]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal without a sign shows another
    try:
        if {"--help", "-h", "help=true"} & set(arguments):
            sys.stdout.write(help_text(doc, root) + "\n")
        elif {"--cfg", "--cfg=job"} & set(arguments):
            rest = [a for a in arguments if a not in {"--cfg", "--cfg=job", "job"}]
            composed = config.compose_plain(root, rest)
            sys.stdout.write(yaml.safe_dump(composed, sort_keys=False))
        else:
            action(arguments)
    except TacitError as error:
        sys.exit(_ended(str(error), error.exit_code))
    except BrokenPipeError:  # the reader of a pipe left, which is its right
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        sys.exit(_ended(f"cannot print: {error.strerror or error}", DiskError.exit_code))
    except KeyboardInterrupt:
        sys.exit(_ended("interrupted", 130))


def empty_folder(given: str, *, replaced: bool) -> Path:
    """Return where `out` is to be written, refusing a folder that holds anything.

    `replaced`: another folder takes its place, which the current one cannot bear.
    """
    out = Path(given).expanduser().absolute()
    try:
        if not (replaced and out == Path.cwd()) and (not out.exists() or not any(out.iterdir())):
            return out.resolve()
    except OSError as error:
        raise InputError(f"out={given}: {error.strerror}") from error
    raise InputError(f"out={given}: holds other files already; name a new or an empty folder")


def help_text(doc: str, root: str) -> str:
    """Return what the command does, every choice with its default, and every option."""
    screen = (config.CONF / f"{root}.yaml").read_text(encoding="utf-8").rstrip()
    groups = "\n".join(
        f"  {group}={'|'.join(names)}" for group, names in config.options(root).items()
    )
    return (
        f"{doc.strip()}\n\n{INTENDED_USE}\n\nEvery choice (conf/{root}.yaml):\n\n{screen}\n\n"
        f"options of each group; --cfg prints what a command would use:\n{groups}\n\n{EXITS}"
    )


def _ended(text: str, code: int) -> int:
    sys.stderr.write("tacit: " + " ".join(text.split()) + "\n")
    return code
