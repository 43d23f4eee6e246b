"""README shows what was measured and committed, no more and no less."""

import json
import re
import shutil
from pathlib import Path

import pytest
from tables import BLOCK, NOT_YET, README, RESULTS, block, names, origin, renewed, result

TEXT = README.read_text(encoding="utf-8")


def test_readme_is_as_the_committed_results_make_it() -> None:
    assert renewed(TEXT) == TEXT, "run make results"


def test_every_result_has_its_one_place_in_readme_before_it_is_there_or_not() -> None:
    assert sorted(match[1] for match in BLOCK.finditer(TEXT)) == sorted({*names(), *NOT_YET})


@pytest.mark.parametrize("name", names())
def test_a_result_tells_command_day_machine_and_configuration(name: str) -> None:
    found = result(name)
    assert re.fullmatch(r"[0-9a-f]{16}", found["config_digest"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", found["date"])
    assert found["machine"].keys() >= {"cores", "memory_gb", "gpu"}
    assert found["command"].startswith(("python -m src.", "python tests/"))
    assert origin(found) in block(name)


@pytest.mark.parametrize("name", names())
def test_a_result_names_no_place_on_a_machine(name: str) -> None:
    text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
    assert not re.search(r"(/(home|root|work|tmp|scratch|users?)/|https?://)", text, re.IGNORECASE)


def test_saturation_on_a_gpu_is_claimed_only_where_it_was_measured(tmp_path: Path) -> None:
    saying = "saturation on a GPU: not measured"
    if "bench_gpu" in names():
        found = result("bench_gpu")
        assert found["machine"]["gpu"]
        assert "saturation" in {figure["part"] for figure in found["figures"]}
    assert (saying in TEXT) == ("bench_gpu" not in names())
    results = copied(tmp_path)
    (results / "bench_gpu.json").unlink(missing_ok=True)
    assert renewed(TEXT, results).count(saying) == 1


def test_a_measured_gpu_comes_into_readme_by_the_command_alone(tmp_path: Path) -> None:
    results = copied(tmp_path)
    measured = result("bench_cpu")
    measured["machine"]["gpu"] = "a card with a name"
    (results / "bench_gpu.json").write_text(json.dumps(measured), encoding="utf-8")
    text = renewed(TEXT, results)
    assert "a card with a name" in text
    assert NOT_YET["bench_gpu"] not in text
    assert renewed(text) == TEXT


def test_a_table_says_which_aims_were_missed(tmp_path: Path) -> None:
    results = copied(tmp_path)
    found = result("driver")
    found["figures"] = [
        {"part": "x", "name": name, "values": [0.5], "at_least": least, "at_most": None}
        for name, least in (("missed", 0.6), ("met", 0.4), ("shown", None))
    ]
    (results / "driver.json").write_text(json.dumps(found), encoding="utf-8")
    rows = [row.split(" | ") for row in block("driver", results).splitlines() if "| x |" in row]
    assert [row[-1].strip(" |") for row in rows] == ["no", "yes", ""]


def copied(folder: Path) -> Path:
    return Path(shutil.copytree(RESULTS, folder / "results"))


def test_a_changed_figure_is_found() -> None:
    name = names()[0]
    shown = block(name)
    assert renewed(shown.replace("| ", "| 9", 1)) == shown
