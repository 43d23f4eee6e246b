"""Bring every measured table of README.md up to what is committed in tests/results: make results.

A file NAME.json becomes what stands between `<!-- results:NAME -->` and `<!-- /results -->`. It
holds either what src.bench writes, or `columns` and `rows`; and always the command that made it,
the day, the class of the machine and the digest of the configuration. Some places are there before
their file is: they say what is not measured. `python tests/tables.py NAME` prints a block.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from src.benchmark.figures import HEADINGS, Figure

ROOT = Path(__file__).resolve().parent.parent
README, RESULTS = ROOT / "README.md", ROOT / "tests" / "results"
BLOCK = re.compile(r"<!-- results:(\w+) -->\n(.*?)<!-- /results -->", re.DOTALL)
NOT_YET = {
    "bench_gpu": "saturation on a GPU: not measured (`sbatch slurm/bench.sh` measures it)",
}
"""What README says in a file's place until it is there."""
Row = Sequence[str]


def result(name: str, folder: Path = RESULTS) -> dict[str, Any]:
    """Return one committed file."""
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    return found


def names(folder: Path = RESULTS) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.json"))


def block(name: str, folder: Path = RESULTS) -> str:
    """Return what stands between the marks of a result, the marks included."""
    there = name not in NOT_YET or (folder / f"{name}.json").exists()
    shown = table(result(name, folder)) if there else NOT_YET[name]
    return f"<!-- results:{name} -->\n{shown}\n<!-- /results -->"


def table(found: Mapping[str, Any]) -> str:
    """Return what a file holds, and where that comes from."""
    columns, rows = (
        (HEADINGS, [Figure.model_validate(one).cells for one in found["figures"]])
        if "figures" in found
        else (found["columns"], found["rows"])
    )
    lines = [line(columns), line(["---"] * len(columns)), *map(line, rows), "", origin(found)]
    return "\n".join(lines)


def line(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"


def origin(found: Mapping[str, Any]) -> str:
    """Return where the figures come from."""
    machine = found["machine"]
    on = f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['gpu'] or 'no GPU'}"
    models = f"; models: {', '.join(found['models'])}" if found.get("models") else ""
    digest = found["config_digest"]
    return f"`{found['command']}`, {found['date']}; {on}{models}; configuration `{digest}`."


def renewed(text: str, folder: Path = RESULTS) -> str:
    """Return README's text with every block as its file has it."""
    return BLOCK.sub(lambda match: block(match[1], folder), text)


def main(arguments: Sequence[str]) -> int:
    """Print the blocks that are named; without a name renew README.md."""
    for name in arguments:
        sys.stdout.write(block(name) + "\n")
    if arguments:
        return 0
    text = README.read_text(encoding="utf-8")
    missing = sorted(set(names()) - {match[1] for match in BLOCK.finditer(text)})
    README.write_text(renewed(text), encoding="utf-8")
    for name in missing:
        sys.stdout.write(f"no place for {name} in README.md: <!-- results:{name} -->\n")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
