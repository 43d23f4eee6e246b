"""What the bench's figures are made of, and what a result says of itself."""

import asyncio
from datetime import date
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from src import config
from src.bench import as_given, digest, runs_of
from src.benchmark.driver import counted, foreseen
from src.benchmark.figures import Figure, seen
from src.benchmark.loads import Look, at_once, closed_loop, cut_off, running, worked
from src.benchmark.serving import shared
from src.benchmark.stand_in import looked
from src.errors import ServerError
from src.llm.ledger import Prices, ledger_of
from src.records import Call, Failure, Interview
from src.settings.bench import BenchSettings

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


def test_how_busy_a_server_was_is_counted_from_its_first_request_to_the_tail() -> None:
    spans = [(float(n), n + 1.0) for n in range(1, 11)]
    idle, full = Look(at=0.5, running=0, could=4), Look(at=5, running=3, could=4)
    closed, late = Look(at=6, running=1, could=0), Look(at=10.9, running=0, could=4)
    assert running([idle, full, closed, late], spans, tail=0.2) == 0.75
    assert running([idle, late], spans, tail=0.2) is None
    assert running([full], [], tail=0.2) is None


def test_a_server_could_work_on_what_was_at_hand_up_to_the_limit() -> None:
    looks = [
        Look(at=0, running=0, could=2, worked=100.0),
        Look(at=10, running=0, could=0, worked=109),
    ]
    spans = [(0.0, 4.0), (0.0, 10.0), (2.0, 4.0)]  # 2, for two seconds 3, then 1
    assert worked(looks, spans, limit=3) == 9 / (4 + 6 + 6)
    assert worked(looks, spans, limit=2) == 9 / (4 + 4 + 6)
    assert worked(looks, [*spans, (12.0, 12.5)], limit=1) == 9 / 10.5
    silent = Look(at=11, running=0, could=0)
    assert worked([silent, silent], spans, limit=2) is None


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


def test_what_was_never_seen_has_no_figure_and_meets_no_aim() -> None:
    assert seen("x", "memory", [None, None], most=1) == []
    (half,) = seen("x", "memory", [None, 0.5], most=1)
    assert half.values == (0.5,)


def test_each_source_of_what_a_process_takes_is_read_by_itself(tmp_path: Path) -> None:
    assert looked(tmp_path) == {}
    (tmp_path / "fd").mkdir()
    assert looked(tmp_path) == {}  # nothing open: it has ended
    (tmp_path / "fd" / "0").touch()
    assert looked(tmp_path) == {"files": 1}
    (tmp_path / "status").write_text("Name:\tx\nVmHWM:\t  250000 kB\n", encoding="utf-8")
    assert looked(tmp_path) == {"memory_mb": 256, "files": 1}
    (tmp_path / "schedstat").write_text("9 2000000000 7\n", encoding="utf-8")
    assert looked(tmp_path) == {"memory_mb": 256, "files": 1, "waited": 2}


def test_a_token_that_one_side_alone_counted_shows() -> None:
    call = Call(role="x", asked="y", reported="y", input_tokens=9, cached_tokens=4, output_tokens=2)
    prices = Prices(as_of=date(2026, 1, 1), models={}, free=("y",))
    told = {"answered": True, "prompt_tokens": 9, "cached_tokens": 4, "completion_tokens": 2}
    refused = told | {"answered": False}
    ledger = ledger_of([call, call], prices)
    assert set(counted(ledger, [told, told, refused]).values()) == {1.0}
    for key, name in (("prompt", "input"), ("cached", "cached"), ("completion", "output")):
        more = told | {f"{key}_tokens": told[f"{key}_tokens"] + 1}
        found = counted(ledger, [told, more])
        assert [shown.split()[0] for shown, share in found.items() if share != 1] == [name]
    with pytest.raises(ServerError, match="no measure"):
        counted(ledger, [refused])


def test_a_failure_that_nobody_foresaw_is_no_proper_ending() -> None:
    def ended(kind: str) -> Interview:
        failure = Failure(kind=kind, text="KeyError: 'x'")
        return Interview(subject="persona-07", sample=1, seed=1, failure=failure)

    assert foreseen(ended("scorer_failed"))
    assert not foreseen(ended("interview_failed"))


# what a result says of itself ----------------------------------------------------------------


def digest_of(*arguments: str) -> str:
    settings = read(*arguments)
    return digest(settings, runs_of(settings))


def read(*arguments: str) -> BenchSettings:
    return config.read_settings("bench", BenchSettings, ["parts=[cache]", *arguments])


def test_where_a_server_is_and_where_a_result_goes_is_no_part_of_its_digest() -> None:
    elsewhere = ("url=http://10.0.0.1/v1", "endpoints=there", "out=x", "gpu=y", "strict=true")
    assert digest_of(*elsewhere) == digest_of()


def test_other_interviews_have_another_digest() -> None:
    settings = read()
    runs = runs_of(settings)
    held = runs["cache"]
    fewer = runs.copy()
    fewer["cache"] = held.model_copy(update={"interviews": 1})
    other = runs_of(read("cast=hybrid"))
    assert len({digest(settings, one) for one in (runs, fewer, other)}) == 3
    budget = 'cache.arguments=["samples=4","interviewer.call.max_tokens=47"]'
    assert digest_of(budget) != digest(settings, runs)


def test_every_key_can_be_chosen_since_none_is_a_group() -> None:
    groups = {path.name for path in config.CONF.iterdir() if path.is_dir()}
    assert BenchSettings.model_fields.keys() & groups == set()


def test_a_command_is_shown_as_it_was_typed_without_places() -> None:
    typed = ("parts=[soak]", "out=/a/b.json", "soak.runs=3", "gpu=x", "url=http://h/v1")
    assert as_given(typed) == "python -m src.bench 'parts=[soak]' soak.runs=3"


def test_the_median_decides_whether_an_aim_is_met() -> None:
    values = (0.5, 0.9, 0.95)
    assert Figure(part="x", name="y", values=values, at_least=0.9).met
    assert not Figure(part="x", name="y", values=values, at_least=0.91).met
    assert not Figure(part="x", name="y", values=values, at_least=0, at_most=0.8).met
    assert Figure(part="x", name="y", values=values).met is None


def test_one_wrong_value_misses_an_aim_that_is_a_single_number() -> None:
    exact = Figure(part="x", name="y", values=(1, 1, 1), at_least=1, at_most=1)
    assert exact.met
    assert exact.aim == "= 1"
    assert not Figure(part="x", name="y", values=(1, 0.9, 1), at_least=1, at_most=1).met
