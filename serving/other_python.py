"""Going on in the environment that holds what the driver's own does not."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from src.errors import ServerError
from src.prompts import ROOT


def is_here(packages: Sequence[str]) -> bool:
    """Say whether this Python holds all packages; none of them is imported."""
    return all(find_spec(package) for package in packages)


def go_on(
    python: str,
    module: str,
    arguments: Sequence[str],
    *,
    needs: Sequence[str],
    environment: Mapping[str, str],
) -> NoReturn:
    """Become a module run by another Python; one without what it needs is a `ServerError`."""
    path = ROOT / Path(python).expanduser()
    looks = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    try:
        lacking = subprocess.run([str(path), "-c", looks, *needs], check=False).returncode
    except OSError:
        lacking = 1
    if lacking:
        raise ServerError(
            f"{python}: no Python with {', '.join(needs)}; install the serving environment first "
            "(serving/README.md, Installing), or give python=PATH"
        )
    places = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    words = [str(path), "-m", module, *arguments]
    sys.stdout.flush()
    given = {**os.environ, **environment, "PYTHONPATH": places}
    os.execve(path, words, given)  # noqa: S606 - no shell is wanted, and signals go straight
