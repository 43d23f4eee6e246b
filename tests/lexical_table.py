"""Measure the lexical scorer on recorded conversations for README.md: tests/results/lexical.json.

    python tests/lexical_table.py ../shared/data

The folder holds third parties' research conversations, which are not part of this project.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # a script finds only what lies beside it

from src.benchmark.figures import machine  # noqa: E402
from src.evaluation.metrics import (  # noqa: E402
    Outcome,
    best_constant,
    measure,
    truths_by_person,
)
from src.store import digest_of  # noqa: E402

SOURCES = {
    "erisk2026_transcripts.jsonl": "eRisk 2026, LoRA",
    "dsgt2025_submissions.jsonl": "eRisk 2025",
    "conversations.jsonl": "TalkDep",
}
READ = frozenset({"alex", "elena", "james", "maria", "priya"})
"""Whose conversations the authors of the cues have read."""
COLUMNS = (
    "conversations", "persons", "n", "ADODL", "best constant", "gain", "rank r", "spread / truths'",
    "DCHR",
)  # fmt: skip
Row = Mapping[str, Any]


def scored(folder: Path) -> dict[str, Any]:
    """Return what `python -m src.score` writes of all files."""
    with TemporaryDirectory() as place:
        out = Path(place) / "scores.json"
        files = [str((folder / name).resolve()) for name in SOURCES]
        command = [sys.executable, "-m", "src.score", *files, "scorer=lexical", f"out={out}"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found


def line(name: str, rows: Iterable[Row]) -> list[str]:
    """Return a line of the table; the unit is the person."""
    outcomes = [
        Outcome(person=row["person"], predicted=row["total"], gold=row["gold_total"], k=row["k"])
        for row in rows
    ]
    found = measure(outcomes, unit="person")
    golds = truths_by_person((one.person, one.gold) for one in outcomes)
    guess = best_constant(list(golds.values()))
    rank = "–" if found.spearman is None else f"{found.spearman:.2f}"
    return [
        name, str(found.persons), str(found.conversations), f"{found.adodl:.3f}",
        f"{guess.adodl:.3f} ({guess.total})", f"{found.adodl - guess.adodl:+.3f}", rank,
        f"{found.spread:.1f} / {found.gold_spread:.1f}", f"{found.dchr:.2f}",
    ]  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    """Measure and write; the table of README.md is then renewed by make results."""
    found = scored(Path(arguments[0]))
    rows = [row for row in found["conversations"] if row.get("gold_total") is not None]
    read = [row for row in rows if row["person"].lower() in READ]
    lines = [line("all", rows), line("all, read", read)]
    lines.append(line("all, unread", [row for row in rows if row not in read]))
    for source, name in SOURCES.items():
        lines.append(line(name, [row for row in rows if row["source"].endswith(source)]))
    told = {key: str(value) for key, value in found["settings"].items() if key != "out"}
    result = {
        "command": "python tests/lexical_table.py ../shared/data",
        "config_digest": digest_of(told),
        "date": str(datetime.now(UTC).date()),
        "machine": machine(None).model_dump(),
        "columns": COLUMNS,
        "rows": lines,
    }
    text = json.dumps(result, indent=1, ensure_ascii=False) + "\n"
    (ROOT / "tests" / "results" / "lexical.json").write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
