"""Bring every measured table of README.md up to what is committed in tests/results: make results.

A file NAME.json becomes what stands between `<!-- results:NAME -->` and `<!-- /results -->`. It
holds either what src.bench writes, or `columns` and `rows`; and always the command that made it,
the day, the class of the machine and the digest of the configuration. `python tests/tables.py NAME`
prints a block.
"""

import json
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
README, RESULTS = ROOT / "README.md", ROOT / "tests" / "results"
BLOCK = re.compile(r"<!-- results:(\w+) -->\n(.*?)<!-- /results -->", re.DOTALL)
NO_GPU = "saturation on a GPU: not measured"
"""What README says until the figures of a GPU are committed."""
Row = Sequence[str]


def result(name: str) -> dict[str, Any]:
    """Return one committed file."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return found


def names() -> list[str]:
    return sorted(path.stem for path in RESULTS.glob("*.json"))


def block(name: str) -> str:
    """Return what stands between the marks of a result, the marks included."""
    found = result(name)
    columns, rows = (
        bench_table(found["figures"]) if "figures" in found else (found["columns"], found["rows"])
    )
    lines = [line(columns), line(["---"] * len(columns)), *map(line, rows), "", origin(found)]
    return f"<!-- results:{name} -->\n" + "\n".join(lines) + "\n<!-- /results -->"


def bench_table(figures: Sequence[Mapping[str, Any]]) -> tuple[Row, list[Row]]:
    """Return src.bench's figures as a table."""
    rows: list[Row] = []
    for one in figures:
        values = one["values"]
        spread = f"{min(values):.2f}–{max(values):.2f}" if len(values) > 1 else ""
        least, most = one["at_least"], one["at_most"]
        aim = " ".join(
            f"{sign} {value:g}" for sign, value in (("≥", least), ("≤", most)) if value is not None
        )
        told = [one["part"], one["name"], f"{median(values):.2f}", spread, str(len(values)), aim]
        rows.append(told)
    return ("part", "ratio", "median", "min–max", "n", "aim"), rows


def line(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"


def origin(found: Mapping[str, Any]) -> str:
    """Return where the figures come from."""
    machine = found["machine"]
    on = f"{machine['cores']} cores, {machine['memory_gb']} GB, {machine['gpu'] or 'no GPU'}"
    models = f"; models: {', '.join(found['models'])}" if found.get("models") else ""
    digest = found["config_digest"]
    return f"`{found['command']}`, {found['date']}; {on}{models}; configuration `{digest}`."


def renewed(text: str) -> str:
    """Return README's text with every block as its file has it."""
    return BLOCK.sub(lambda match: block(match[1]), text)


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
