"""The bench on small loads: what it measures is so, and its figures can be traced to a server."""

import json
import shlex
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from fake_plan import Fault, Plan, adapter, served
from fake_process import fake_process
from terminal import tacit

from src.benchmark.figures import Results
from src.llm.endpoints import Endpoint, publish

Figures = dict[str, dict[str, Any]]
SLOW_SCORER = (
    "[{name: google/gemma-3-27b-it, profile: gemma, latency: [0.3, 0.3]},"
    "{name: persona-07-00000000, profile: persona, latency: [0.3, 0.3]},"
    "{name: gpt-5-nano, profile: openai, context: 400000, latency: [2.0, 2.0]}]"
)
"""Slower than in conf/bench.yaml, since other tests take the processors."""
SMALL = (
    *(f"{part}.runs=1" for part in ("limits", "overhead", "soak")),
    f"limits.plan.models={SLOW_SCORER}",
    (
        'limits.arguments=["samples=36","interviews=36","orchestrator.max_messages=2",'
        '"models.gemma.calls=2","models.persona.calls=8","models.gpt5nano.calls=36"]'
    ),
    "overhead.rounds=2",
    "overhead.calls=64",
    (
        'overhead.arguments=["samples=60","interviews=60","orchestrator.max_messages=2",'
        '"models.gemma.calls=64","models.persona.calls=64","models.gpt5nano.calls=64"]'
    ),
    "soak.seconds=60",
)
SOAKED = (
    "samples=60", "interviews=60", "orchestrator.max_messages=2",
    "interviewer.call.timeout=3", "patient.call.timeout=3", "scorer.call.timeout=3",
    *(f"models.{m}.retry.{key}" for m in ("gemma", "persona", "gpt5nano")
      for key in ("tries=2", "first_wait=0.05", "longest_wait=0.2")),
)  # fmt: skip


def bench(out: Path, *arguments: str) -> Figures:
    """Run the command; return its figures by part and the first words of their names."""
    done = tacit("src.bench", f"out={out}", *arguments)
    assert done.returncode == 0, done.stderr
    found = json.loads(out.read_text(encoding="utf-8"))
    assert found["machine"]["gpu"] is None
    return {f"{one['part']}: {one['name']}": one for one in found["figures"]}


def value(figures: Figures, start: str) -> float:
    (found,) = [one for name, one in figures.items() if name.startswith(start)]
    values: list[float] = found["values"]
    return sorted(values)[len(values) // 2]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Figures:
    soaked = ",".join(f'"{one}"' for one in SOAKED)
    return bench(
        tmp_path_factory.mktemp("bench") / "driver.json", *SMALL, f"soak.arguments=[{soaked}]"
    )


def test_a_slow_scorer_leaves_the_interviewers_server_full(driver: Figures) -> None:
    assert value(driver, "limits: mean calls") > 0.8  # the full size is held to 0.9 by make bench


def test_a_call_takes_well_below_the_packages_own_processor_time(driver: Figures) -> None:
    assert value(driver, "overhead: processor time") <= 0.6


def test_interviews_at_once_take_little_memory_and_few_files(driver: Figures) -> None:
    assert value(driver, "overhead: interviews under way at once") == 1
    assert 0 < value(driver, "overhead: memory") < 1
    assert 0 < value(driver, "overhead: files") < 1
    assert 0 < value(driver, "limits: time for which the driver had work and no processor") < 1


def test_whatever_happens_every_interview_ends_and_every_answer_is_counted(driver: Figures) -> None:
    assert value(driver, "soak: interviews complete or with a typed failure") == 1
    assert value(driver, "soak: answers in the ledger") == 1
    for kind in ("input", "cached", "output"):
        assert value(driver, f"soak: {kind} tokens in the ledger") == 1
    assert value(driver, "soak: time") < 1


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Figures]:
    models = (served("smollm2"), served(adapter(7)))
    with fake_process(Plan(models=models, latency=(0.1, 0.15))) as server:
        yield bench(
            tmp_path_factory.mktemp("bench") / "serving.json",
            "parts=[saturation,cache]", f"url={server.url}", "calls=6", "saturation.pairs=1",
            "saturation.interviews=6", "saturation.alone=1", "saturation.every=0.02",
        )  # fmt: skip


def test_interviews_keep_a_server_as_busy_as_a_plain_loop(serving: Figures) -> None:
    assert 0.5 < value(serving, "saturation: generated tokens") < 2
    assert 0.7 < value(serving, "saturation: requests that the server works on by its gauge") <= 1.1
    assert 0.7 < value(serving, "saturation: requests that the server works on by its clock") <= 1
    assert 3 < value(serving, "saturation: times as fast as one interview") < 9


def test_what_can_be_cached_is_cached_and_the_server_counts_the_same(serving: Figures) -> None:
    assert value(serving, "cache: tokens from the cache") == 1
    assert value(serving, "cache: the server's own counter") == 1


def test_guidance_at_the_end_leaves_less_to_compute_than_at_the_front(serving: Figures) -> None:
    assert value(serving, "cache: new prompt tokens") < 0.95


def test_each_server_is_as_busy_as_it_could_be_by_itself(tmp_path: Path) -> None:
    llama = "meta-llama/Meta-Llama-3-8B-Instruct"
    slow = Plan(models=(served("google/gemma-3-27b-it"),), latency=(0.3, 0.3))
    fast = Plan(models=(served(llama), served(adapter(7))), latency=(0.05, 0.05))
    with fake_process(slow) as gemma, fake_process(fast) as personas:
        for name, server in (("gemma", gemma), ("personas", personas)):
            publish(tmp_path, endpoint(name, server.url))
        figures = bench(
            tmp_path / "two.json", "parts=[saturation]", "cast=local", "calls=4",
            f"endpoints={tmp_path}", "saturation.pairs=1", "saturation.interviews=12",
            "saturation.alone=1", "saturation.every=0.02",
        )  # fmt: skip
    full = "saturation: requests that the interviewer's server works on by its"
    for by in ("gauge", "clock"):
        assert value(figures, f"{full} {by}") > 0.8
        same = f"saturation: the same by its {by} at the interviewer's server"
        assert value(figures, same) > 0.8
        other = f"saturation: requests that the patient's server works on by its {by}"
        assert value(figures, other) < 0.5
    aimed = [name for name, one in figures.items() if one["at_least"] and "works on" in name]
    assert [name.partition(",")[0] for name in aimed] == [f"{full} gauge", f"{full} clock"]


def endpoint(name: str, url: str) -> Endpoint:
    """Return the file of a server that needs no key."""
    return Endpoint(
        name=name, state="ready", host="127.0.0.1", key="none", job=None, pid=1, start="one",
        port=int(url.removesuffix("/v1").rpartition(":")[2]), identity="abc", log="server.log",
        served=(), changed=datetime.now(UTC),
    )  # fmt: skip


@pytest.mark.parametrize(("strict", "code"), [("true", 1), ("false", 0)])
def test_a_missed_aim_is_an_error_only_where_that_is_asked_for(
    strict: str, code: int, tmp_path: Path
) -> None:
    models = (served("smollm2"), served(adapter(7)))
    told = (
        "parts=[saturation]", "calls=6", "saturation.pairs=1", "saturation.interviews=1",
        "saturation.alone=1", "saturation.every=0.02", f"strict={strict}",
    )  # fmt: skip
    out = tmp_path / "missed.json"
    with fake_process(Plan(models=models, latency=(0.1, 0.15))) as server:  # one never fills six
        done = tacit("src.bench", *told, f"url={server.url}", f"out={out}", "gpu=a-card")
    assert done.returncode == code, done.stderr
    missed = "tacit: missed: saturation: generated tokens in a second"
    assert done.stderr.splitlines()[-1].startswith(missed) == (code == 1)
    assert "generated tokens in a second" in done.stdout
    written = Results.model_validate_json(out.read_bytes())
    assert any(line.startswith("saturation: generated tokens") for line in written.missed)
    assert shlex.split(written.command) == ["python", "-m", "src.bench", *told]


def test_a_server_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = tacit("src.bench", "parts=[cache]", "url=http://127.0.0.1:9/v1")
    assert done.returncode == 3
    assert "127.0.0.1:9" in done.stderr
    assert "Traceback" not in done.stderr


def test_interviews_that_fail_make_no_measure(tmp_path: Path) -> None:
    models = (served("smollm2"), served(adapter(7)))
    fault = Fault(kind="bad_request", role="patient")
    with fake_process(Plan(models=models, faults=(fault,))) as server:
        done = tacit(
            "src.bench", "parts=[saturation]", f"url={server.url}", f"out={tmp_path / 'no.json'}"
        )
    assert done.returncode == 3
    assert "makes no measure" in done.stderr
    assert not (tmp_path / "no.json").exists()


@pytest.mark.parametrize(
    ("argument", "reason"),
    [("parts=[]", "each part once"), ("parts=[speed]", "parts"), ("stand_in=gone.py", "gone.py")],
)
def test_a_wrong_choice_is_one_line(argument: str, reason: str) -> None:
    done = tacit("src.bench", argument)
    assert done.returncode == 2
    assert reason in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
