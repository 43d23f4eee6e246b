"""Sixteen exchanges and twenty-four with the same profiles, held apart and compared."""

import csv
from pathlib import Path

from model_runs import tagged

from src import evaluate
from src.run import run

USUAL = ("experiment=psycidra_offline", "case=[1,4,29]")
BUDGETS = {"psycidra_offline": 16, "longer": 24}


def table(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_a_larger_budget_is_another_run_which_is_compared_case_by_case(tmp_path: Path) -> None:
    run([*USUAL, f"outputs={tmp_path}"])
    run([*USUAL, f"outputs={tmp_path}", "orchestrator.max_messages=25", "run=longer"])
    for name, exchanges in BUDGETS.items():
        for folder in sorted((tmp_path / name).iterdir()):
            assert len(tagged(folder, "turn")) == exchanges
            (ended,) = (line["interview"] for line in tagged(folder, "end"))
            assert (ended["stop"], ended["closing"]["source"]) == ("max_messages", "fixed")
    folders = ",".join(str(tmp_path / name) for name in BUDGETS)
    evaluate.evaluate([f"runs=[{folders}]", f"out={tmp_path / 'out'}"])
    conditions = [f"{name}/diagnosis_offline" for name in BUDGETS]
    reports = table(tmp_path / "out", "reports")
    read = {(row["condition"], row["exchanges"], row["whole"]) for row in reports}
    assert read == {(c, str(n), str(n)) for c, n in zip(conditions, (16, 24), strict=True)}
    assert [row["condition"] for row in table(tmp_path / "out", "agreement")] == conditions
    pairs = table(tmp_path / "out", "paired")
    assert {(row["a"], row["b"]) for row in pairs} == {tuple(conditions)}
    cases = {row["endpoint"]: row["n"] for row in pairs}
    assert cases == {"decision": "3", "rank 1": "2", "coverage": "2"}  # one has no disorder
    last = {row["who"]: row["exchange"] for row in table(tmp_path / "out", "tool_exchanges")}
    assert last == {"psycidra_offline": "15", "longer": "23"}
