"""README shows what was measured and committed, no more and no less."""

import re

import pytest
from tables import BLOCK, NO_GPU, README, RESULTS, block, names, origin, renewed, result

TEXT = README.read_text(encoding="utf-8")


def test_readme_is_as_the_committed_results_make_it() -> None:
    assert renewed(TEXT) == TEXT, "run make results"


def test_every_result_has_its_one_place_in_readme_and_no_place_is_empty() -> None:
    assert sorted(match[1] for match in BLOCK.finditer(TEXT)) == names()


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


def test_saturation_on_a_gpu_is_claimed_only_where_it_was_measured() -> None:
    on_gpu = [
        name
        for name in names()
        if result(name)["machine"]["gpu"]
        and any(figure["part"] == "saturation" for figure in result(name).get("figures", ()))
    ]
    assert (NO_GPU in TEXT) == (not on_gpu)


def test_a_changed_figure_is_found() -> None:
    name = names()[0]
    shown = block(name)
    assert renewed(shown.replace("| ", "| 9", 1)) == shown
