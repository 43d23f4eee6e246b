"""Limits of a run that hold over restarts, and servers that come back."""

import signal
import socket
import time
from pathlib import Path

import pytest
from fake_plan import Plan
from fake_process import fake_process
from model_runs import IMPATIENT, MODELS, NO_SIGNALS, ended, endings, result, run, start, tagged
from test_preflight import LOCAL, PLAN, told

from src.errors import QuotaExhausted
from src.llm.ledger import Allowance, Price, Prices
from src.prompts import load_yaml
from src.records import Call

SHORT = ("orchestrator.max_messages=3", NO_SIGNALS, "persona=7")
PRICES = Prices(
    as_of="2026-11-30",
    models={"dear": Price(input=1, cached=0, written=1, output=1)},
    free=("ours",),
)


def spent(folder: Path) -> int:
    calls = [line["call"] for line in tagged(folder, "call")]
    return sum((call["input_tokens"] or 0) + (call["output_tokens"] or 0) for call in calls)


def dearest(folder: Path) -> int:
    calls = [line["call"] for line in tagged(folder, "call")]
    return max((call["input_tokens"] or 0) + (call["output_tokens"] or 0) for call in calls)


def test_a_token_limit_ends_a_run_over_restarts_and_a_higher_one_goes_on(tmp_path: Path) -> None:
    with fake_process(Plan(latency=(0.01, 0.02))) as server:
        limits = ["samples=4", *SHORT, "interviews=2", "max_tokens=12000"]
        first = run(server.url, tmp_path, *limits)
        folder = tmp_path / "hybrid" / "persona-07"
        assert first.returncode == 5, first.stderr
        assert "max_tokens" in first.stderr
        assert len(first.stderr.splitlines()) == 1
        used = spent(folder)
        assert 12000 <= used <= 12000 + 2 * dearest(folder)  # two calls may be under way
        again = run(server.url, tmp_path, *limits)
        assert again.returncode == 5
        assert spent(folder) == used, "a limit that is reached lets nothing through"
        more = run(server.url, tmp_path, *limits[:-1], "max_tokens=10000000")
        assert more.returncode == 0, more.stderr
        assert len(endings(folder)) == 4
        counted = result(folder)["ledger"]["roles"]
        assert sum(a["delivered"] for a in counted.values()) == sum(
            entry["answered"] and entry["subject"] != "preflight" for entry in server.log()
        )


def test_a_cost_limit_ends_a_run_within_the_calls_under_way_and_holds_over_restarts(
    tmp_path: Path,
) -> None:
    prices = load_yaml("conf/prices/2026-11-30.yaml", Prices)

    def costs() -> list[float]:
        calls = [Call.model_validate(line["call"]) for line in tagged(folder, "call")]
        return [prices.cost(call) or 0.0 for call in calls]

    folder, limit, under_way = tmp_path / "hybrid" / "persona-07", 0.01, 8
    with fake_process(Plan(latency=(0.01, 0.05))) as server:
        limits = ["samples=64", *SHORT, f"models.gpt5nano.calls={under_way}"]
        done = run(server.url, tmp_path, *limits, f"max_cost={limit}")
        assert done.returncode == 5, done.stderr
        assert "max_cost: $0.01" in done.stderr
        used = costs()
        assert limit <= sum(used) <= limit + under_way * max(used)
        assert run(server.url, tmp_path, *limits, f"max_cost={limit}").returncode == 5
        assert costs() == used, "a limit that is reached lets nothing through"
        again = run(server.url, tmp_path, *limits, f"max_cost={2 * limit}")
        assert again.returncode == 5
        assert 2 * limit <= sum(costs()) <= 2 * limit + under_way * max(costs())


def test_a_limit_is_the_runs_and_not_a_personas(tmp_path: Path) -> None:
    with fake_process() as server:
        limits = ["samples=1", "orchestrator.max_messages=3", NO_SIGNALS, "max_tokens=1000"]
        assert run(server.url, tmp_path, *limits, "persona=7").returncode == 5
        asked = len(server.log())
        assert run(server.url, tmp_path, *limits, "persona=8").returncode == 5
        sent = [entry for entry in server.log()[asked:] if entry["subject"] != "preflight"]
        assert [entry for entry in sent if entry["path"] == "chat"] == []


def test_a_cost_limit_needs_every_price(tmp_path: Path) -> None:
    unpriced = tmp_path / "prices.yaml"
    unpriced.write_text("as_of: 2026-11-30\nmodels: {}\nfree: []\n", encoding="utf-8")
    with fake_process() as server:
        done = run(server.url, tmp_path, *SHORT, "max_cost=1", f"price_list={unpriced}")
    assert done.returncode == 2
    assert "has no price of google/gemma-3-27b-it" in done.stderr
    assert not (tmp_path / "hybrid").exists()


def call(name: str, tokens: int | None) -> Call:
    outcome = "ok" if tokens is not None else "transport_failed"
    return Call(role="scorer", asked=name, input_tokens=tokens, output_tokens=0, outcome=outcome)


@pytest.mark.parametrize(("cost", "tokens"), [(2e-6, None), (None, 2)])
def test_a_call_whose_cost_nobody_knows_counts_as_the_dearest(
    cost: float | None, tokens: int | None
) -> None:
    allowance = Allowance(PRICES, cost=cost, tokens=tokens)
    allowance.count(call("dear", 1))
    allowance.refuse_more()
    allowance.count(call("dear", None))
    with pytest.raises(QuotaExhausted):
        allowance.refuse_more()


@pytest.mark.parametrize(("cost", "tokens"), [(1.5e-5, None), (None, 15)])
def test_a_call_that_was_cut_off_counts_as_what_it_may_have_taken(
    cost: float | None, tokens: int | None
) -> None:
    allowance = Allowance(PRICES, cost=cost, tokens=tokens)
    for _ in range(2):
        allowance.refuse_more()
        allowance.count(call("dear", None).model_copy(update={"at_most": (5, 5)}))
    with pytest.raises(QuotaExhausted):
        allowance.refuse_more()


@pytest.mark.parametrize("outcome", ["unreachable", "server_error", "rate_limited"])
def test_a_call_that_was_turned_away_takes_nothing(outcome: str) -> None:
    allowance = Allowance(PRICES, cost=2e-6, tokens=2)
    allowance.count(call("dear", 1))
    refused = Call(role="scorer", asked="dear", outcome=outcome)
    for _ in range(100):
        allowance.count(refused)
    allowance.refuse_more()
    assert PRICES.cost(refused) == 0


def test_a_model_without_a_price_still_counts_its_tokens() -> None:
    allowance = Allowance(PRICES, cost=None, tokens=100)
    allowance.count(call("unheard-of", 99))
    allowance.refuse_more()
    allowance.count(call("unheard-of", 1))
    with pytest.raises(QuotaExhausted, match="max_tokens: 100 of 100"):
        allowance.refuse_more()


def test_our_own_servers_cost_nothing() -> None:
    allowance = Allowance(PRICES, cost=1e-9, tokens=None)
    allowance.count(call("ours", 10**9))
    allowance.refuse_more()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def waiting(seconds: float) -> list[str]:
    quick = [f"models.{m}.retry={{tries: 2, first_wait: 0.05, longest_wait: 0.2}}" for m in MODELS]
    return [*quick, *(f"models.{m}.restart_wait={seconds}" for m in MODELS)]


def test_a_server_that_is_started_again_in_mid_run_is_waited_for(tmp_path: Path) -> None:
    port = free_port()
    plan = Plan(latency=(0.05, 0.1))
    with fake_process(plan, port=port) as server:
        process = start(server.url, tmp_path, "samples=3", *SHORT, *waiting(30))
        while len(server.log()) < 12:
            time.sleep(0.02)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    time.sleep(1)
    with fake_process(plan, port=port):
        done = ended(process)
    assert done.returncode == 0, done.stderr
    found = endings(tmp_path / "hybrid" / "persona-07")
    assert [found[n]["failure"] for n in (1, 2, 3)] == [None] * 3


def test_a_server_that_does_not_come_back_is_a_typed_failure_in_time(tmp_path: Path) -> None:
    with fake_process(Plan(latency=(0.05, 0.1))) as server:
        process = start(server.url, tmp_path, "samples=2", *SHORT, *waiting(1))
        while len(server.log()) < 8:
            time.sleep(0.02)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        began = time.monotonic()
    done = ended(process)
    assert done.returncode == 1
    assert 1 <= time.monotonic() - began < 8
    found = endings(tmp_path / "hybrid" / "persona-07")
    assert {found[n]["failure"]["transport"] for n in found} == {True}


def test_a_server_of_ours_is_followed_to_its_new_address_and_key(tmp_path: Path) -> None:
    folder = tmp_path / "endpoints"
    plan = PLAN.model_copy(update={"latency": (0.05, 0.1)})
    quick = [f"models.{m}.restart_wait=20" for m in ("gemma", "persona")]
    with fake_process(plan) as server:
        found = told(server.url, folder)
        process = start(
            server.url, tmp_path, *LOCAL, "samples=2", "orchestrator.max_messages=4", *quick,
            *found, *(f"models.{m}.base_url=null" for m in ("gemma", "persona")),
        )  # fmt: skip
        while sum(entry["subject"] == "persona-07" for entry in server.log()) < 4:
            time.sleep(0.02)
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    with fake_process(plan.model_copy(update={"key": "another"})) as second:
        told(second.url, folder, "two", key="another")
        done = ended(process)
        assert done.returncode == 0, done.stderr
        assert second.log()


def test_a_server_of_ours_that_has_ended_is_not_waited_for(tmp_path: Path) -> None:
    folder = tmp_path / "endpoints"
    plan = PLAN.model_copy(update={"latency": (0.05, 0.1)})
    with fake_process(plan) as server:
        found = told(server.url, folder)
        process = start(
            server.url, tmp_path, *LOCAL, "samples=2", "orchestrator.max_messages=6", *IMPATIENT,
            *(f"models.{m}.restart_wait=100" for m in ("gemma", "persona")),
            *found, *(f"models.{m}.base_url=null" for m in ("gemma", "persona")),
        )  # fmt: skip
        while sum(entry["subject"] == "persona-07" for entry in server.log()) < 4:
            time.sleep(0.02)
        told(server.url, folder, "one", state="ended")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        began = time.monotonic()
    assert ended(process).returncode == 1
    assert time.monotonic() - began < 8
