"""A preflight and experiment=cpu against the real server, by the commands that a user gives."""

from pathlib import Path
from typing import Any

import pytest
from model_runs import endings, result, tagged, turns
from real_server import RealServer, tacit_within

CPU = ("experiment=cpu", "persona=[7,8]")
SUBJECTS = ("persona-07", "persona-08")
SAMPLES, MESSAGES = 2, 4
PROVED, HELD = 170.0, 420.0


@pytest.fixture
def proved(server: RealServer) -> str:
    """Return what a preflight prints that has held, whoever made it first."""
    done = tacit_within(PROVED, "serving.preflight", *CPU, f"endpoints={server.endpoints}")
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout


def test_what_a_preflight_has_proved_is_not_asked_again(proved: str, server: RealServer) -> None:
    assert "FAILED" not in proved
    for name in ("keeps to a JSON schema", "differ from smollm2", "fits into the window"):
        assert name in proved
    assert proved.count("brings its replies to an end") == 2
    before = server.finished
    again = tacit_within(PROVED, "serving.preflight", *CPU, f"endpoints={server.endpoints}")
    assert again.returncode == 0
    assert again.stdout.count("held before, at this start of the server") >= 5
    assert server.finished == before


def test_an_adapter_that_changes_nothing_is_found_out(without_effect: RealServer) -> None:
    told = ("experiment=cpu", "persona=9", f"endpoints={without_effect.endpoints}")
    done = tacit_within(PROVED, "serving.preflight", *told)
    assert done.returncode == 3
    assert f"{without_effect.served(9)}: answers exactly as smollm2" in done.stdout


def test_the_experiment_ends_with_answers_and_its_ledger_is_the_servers(
    proved: str, server: RealServer, tmp_path: Path
) -> None:
    """The scorer reads each interview once, at its end: a whole sheet takes half a minute."""
    before = server.counters()
    told = (*CPU, "scorer_when=end", f"endpoints={server.endpoints}", f"outputs={tmp_path}")
    done = tacit_within(HELD, "src.run", *told)
    after = server.counters()
    assert done.returncode in {0, 1}, f"{done.stdout}{done.stderr}"
    calls: list[dict[str, Any]] = []
    valid = 0
    for folder in (tmp_path / "cpu" / subject for subject in SUBJECTS):
        ended, held = endings(folder), turns(folder)
        assert sorted(ended) == [*range(1, SAMPLES + 1)]
        failed = [one["failure"] for one in ended.values() if one["failure"]]
        assert all(failure["kind"] == "scorer_failed" for failure in failed), failed
        assert len(held) == len({(turn["sample"], turn["number"]) for turn in held})
        assert {turn["number"] for turn in held} <= {*range(1, MESSAGES + 1)}
        valid += SAMPLES - len(failed)
        calls += [line["call"] for line in tagged(folder, "call")]
        if len(failed) < SAMPLES:
            found = result(folder)
            assert found["n_valid"] == SAMPLES - len(failed)
            assert found["served"]["patient"] == server.served(int(folder.name[-2:]))
            assert delivered(found) == len(tagged(folder, "call"))
    assert valid, "not one sheet could be read"
    assert {call["role"] for call in calls} == {"interviewer", "patient", "scorer"}
    assert spent(calls) == gained(before, after)


def delivered(found: dict[str, Any]) -> int:
    """Return how many responses a result's ledger counts."""
    return sum(account["delivered"] for account in found["ledger"]["roles"].values())


def spent(calls: list[dict[str, Any]]) -> dict[str, int]:
    """Return what calls took in all."""
    keys = ("input_tokens", "cached_tokens", "output_tokens")
    return {"delivered": len(calls)} | {key: sum(call[key] for call in calls) for key in keys}


def gained(before: dict[str, float], after: dict[str, float]) -> dict[str, int]:
    """Return what the server says it has done meanwhile, by the ledger's names."""
    names = {
        "delivered": "vllm:request_success_total",
        "input_tokens": "vllm:prompt_tokens_total",
        "cached_tokens": "vllm:prefix_cache_hits_total",
        "output_tokens": "vllm:generation_tokens_total",
    }
    return {key: int(after[name] - before.get(name, 0.0)) for key, name in names.items()}
