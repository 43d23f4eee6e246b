"""The bench on small loads: what it measures is so, and its figures can be traced to a server."""

import asyncio
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_plan import Fault, Plan, adapter, served
from fake_process import fake_process
from hypothesis import given
from hypothesis import strategies as st
from terminal import tacit

from src.benchmark.figures import Figure
from src.benchmark.loads import at_once, closed_loop, cut_off
from src.benchmark.serving import shared

Figures = dict[str, dict[str, Any]]
SLOW_SCORER = (
    "[{name: google/gemma-3-27b-it, profile: gemma, latency: [0.3, 0.3]},"
    "{name: persona-07-00000000, profile: persona, latency: [0.3, 0.3]},"
    "{name: gpt-5-nano, profile: openai, context: 400000, latency: [2.0, 2.0]}]"
)
"""Slower than in conf/bench.yaml, since other tests take the processors."""
SMALL = (
    "limits.runs=1",
    f"limits.plan.models={SLOW_SCORER}",
    (
        'limits.arguments=["samples=36","limits.interviews=36","orchestrator.max_messages=2",'
        '"models.gemma.calls=2","models.persona.calls=8","models.gpt5nano.calls=36"]'
    ),
    "overhead.rounds=2",
    "overhead.calls=64",
    (
        'overhead.arguments=["samples=60","limits.interviews=60","orchestrator.max_messages=2",'
        '"models.gemma.calls=64","models.persona.calls=64","models.gpt5nano.calls=64"]'
    ),
    "soak.seconds=60",
)
SOAKED = (
    "samples=60", "limits.interviews=60", "orchestrator.max_messages=2",
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
    assert value(driver, "overhead: memory") < 1
    assert value(driver, "overhead: files") < 1


def test_whatever_happens_every_interview_ends_and_every_answer_is_counted(driver: Figures) -> None:
    assert value(driver, "soak: interviews complete or with a typed failure") == 1
    assert value(driver, "soak: answers in the ledger") == 1
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
    assert 0.7 < value(serving, "saturation: requests that the server works on") <= 1.1
    assert 3 < value(serving, "saturation: times as fast as one interview") < 9


def test_what_can_be_cached_is_cached_and_the_server_counts_the_same(serving: Figures) -> None:
    assert value(serving, "cache: tokens from the cache") == 1
    assert value(serving, "cache: the server's own counter") == 1


def test_guidance_at_the_end_leaves_less_to_compute_than_at_the_front(serving: Figures) -> None:
    assert value(serving, "cache: new prompt tokens") < 0.95


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


# what the figures are made of ----------------------------------------------------------------

Spans = st.lists(
    st.tuples(st.floats(0, 100), st.floats(0, 100)).map(lambda pair: (min(pair), max(pair)))
)


@given(Spans)
def test_there_are_never_more_at_once_than_there_are(spans: list[tuple[float, float]]) -> None:
    assert 0 <= at_once(spans, 0, 100) <= len(spans) + 1e-9


def test_what_lasts_half_of_the_time_is_half_at_once() -> None:
    assert at_once([(0, 5), (-3, 20)], 0, 10) == 1.5


@given(st.lists(st.floats(0, 100), min_size=1), st.floats(0, 1))
def test_what_is_left_after_the_cut_is_no_more_than_the_tail(
    ends: list[float], tail: float
) -> None:
    cut = cut_off(ends, tail=tail)
    assert sum(end > cut for end in ends) <= tail * len(ends) + 1e-6


async def test_a_closed_loop_asks_everything_in_order_and_never_more_at_once() -> None:
    asked: list[int] = []
    under_way = [0, 0]

    async def ask(number: int) -> None:
        asked.append(number)
        under_way[0] += 1
        under_way[1] = max(under_way)
        await asyncio.sleep(0)
        under_way[0] -= 1

    await closed_loop([partial(ask, n) for n in range(10)], 3)
    assert asked == list(range(10))
    assert under_way[1] == 3


def test_a_common_beginning_ends_at_the_first_difference() -> None:
    assert (shared([1, 2, 3], [1, 2, 4]), shared([1, 2], [1, 2, 3]), shared([], [1])) == (2, 2, 0)


def test_the_median_decides_whether_an_aim_is_met() -> None:
    values = (0.5, 0.9, 0.95)
    assert Figure(part="x", name="y", values=values, at_least=0.9).met
    assert not Figure(part="x", name="y", values=values, at_least=0.91).met
    assert not Figure(part="x", name="y", values=values, at_least=0, at_most=0.8).met
    assert Figure(part="x", name="y", values=values).met is None
