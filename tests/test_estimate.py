"""The estimate: hand-computed sums, rehearsals, and whole commands beside what they took."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from fake_process import ServerProcess, fake_process
from hypothesis import given
from hypothesis import strategies as st
from model_runs import NO_SIGNALS, at, run, tagged

from src import config
from src import run as main
from src.errors import FolderError, InputError
from src.estimate import Estimate, beside_line, estimated
from src.forecast import Forecast
from src.llm.ledger import Price, Prices
from src.llm.structured import closed_object
from src.prompts import load_yaml
from src.rehearsal import Assumptions, Cache, Sent, Slurm, Speed, filled
from src.settings import BDISettings, RunSettings
from src.steering.sheet import assessment_schema, parse_assessment

Told = Callable[..., str]
PRICES = Prices(
    as_of="2026-11-30",
    models={"gpt-5-nano": Price(input=1, cached=0.1, written=2, output=10)},
    free=("google/gemma-3-27b-it", "meta-llama/Meta-Llama-3-8B-Instruct"),
)
ASSUMED = Assumptions(
    messages={"coverage": 12, "budget": None},
    characters={"interviewer": 200, "patient": 200, "scorer": 50},
    bytes_per_token=4,
    reasoning={"none": 0, "minimal": 10, "high": 500},
    cache={
        "vllm": Cache(block=16, least=0),
        "openai": Cache(block=128, least=1024),
        "compatible": Cache(block=64, least=0),
    },
    speed={
        "gemma": Speed(first=1, tokens=50, cards=2),
        "vllm": Speed(first=0, tokens=50, cards=1),
        "openai": Speed(first=2, tokens=100, cards=0),
        "compatible": Speed(first=2, tokens=100, cards=0),
    },
    slurm=Slurm(margin=2, start=60, step=600),
)
CHOSEN = {"interviewer": "gemma", "patient": "persona", "scorer": "gpt5nano"}
TWO_TURNS = [
    Sent("patient", 1, prompt=100, cached=0, output=50, budget=256),
    Sent("scorer", 1, prompt=2000, cached=1024, output=300, budget=3000),
    Sent("interviewer", 2, prompt=500, cached=160, output=100, budget=220),
    Sent("patient", 2, prompt=200, cached=96, output=50, budget=256),
    Sent("scorer", 2, prompt=2100, cached=1920, output=300, budget=3000),
]
"""The tree asked first."""
FAKE_LENGTHS = """
messages: {coverage: 12, budget: null}
characters: {interviewer: 75, patient: 55, scorer: 30}
bytes_per_token: 4
reasoning: {none: 0, minimal: 16}
cache:
  vllm: {block: 16, least: 0}
  openai: {block: 128, least: 1024}
  compatible: {block: 64, least: 0}
speed:
  vllm: {first: 0, tokens: 100, cards: 1}
  openai: {first: 0, tokens: 100, cards: 0}
  compatible: {first: 0, tokens: 100, cards: 0}
slurm: {margin: 1, start: 0, step: 60}
"""
"""How much the fake server says, about."""
FACTOR = 1.25
"""Between estimated and taken tokens, where lengths are assumed rightly."""


@cache
def settings_of(*overrides: str) -> RunSettings:
    return config.read_settings("config", RunSettings, overrides)


def forecast(tmp_path: Path, *overrides: str) -> Forecast:
    return Forecast(settings_of(*overrides), tmp_path)


def files(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


# sums ---------------------------------------------------------------------------------------


def two_turns(owed: dict[int, int], *overrides: str) -> Estimate:
    return estimated(
        TWO_TURNS,
        owed,
        settings=settings_of(*overrides),
        chosen=CHOSEN,
        prices=PRICES,
        assumed=ASSUMED,
    )


def test_calls_tokens_and_dollars_are_those_of_one_interview_times_their_number() -> None:
    found = estimated(
        TWO_TURNS, {0: 3}, settings=settings_of(), chosen=CHOSEN, prices=PRICES, assumed=ASSUMED
    )
    asks, answers, rates = (found.roles[role] for role in CHOSEN)
    assert (asks.calls, answers.calls, rates.calls) == (3, 6, 6)
    assert (asks.input_tokens, answers.input_tokens, rates.input_tokens) == (1500, 900, 12300)
    assert (asks.cached_tokens, answers.cached_tokens, rates.cached_tokens) == (480, 288, 8832)
    assert (asks.output_tokens, answers.output_tokens, rates.output_tokens) == (300, 300, 1800)
    # new tokens count as written to the cache: 3468 at $2, 8832 at $0.1, 1800 at $10 a million
    assert rates.cost == pytest.approx((3468 * 2 + 8832 * 0.1 + 1800 * 10) / 1e6)
    assert asks.cost == answers.cost == 0.0
    assert found.cost == rates.cost
    assert rates.effort == "minimal"


def test_wall_time_gpu_hours_and_time_limit_follow_from_the_latencies() -> None:
    found = two_turns({0: 3}, "models.gpt5nano.rate.tokens=null")
    # interviewer 1 + 100/50 = 3 s once, patient 50/50 = 1 s twice, scorer 2 + 300/100 = 5 s twice
    assert found.wall_seconds == pytest.approx(3 + 2 + 10)
    assert found.bound == "the length of an interview"
    assert found.gpu_hours == pytest.approx((2 + 1) * 15 / 3600)
    assert found.slurm_seconds == 600  # 2 * 15 + 60, rounded up
    rounds = two_turns({0: 5}, "models.gpt5nano.rate.tokens=null", "interviews=2")
    assert rounds.wall_seconds == pytest.approx(3 * 15)
    assert rounds.bound == "interviews"


def test_the_time_taken_is_that_in_which_any_call_was_under_way() -> None:
    found = two_turns({0: 3}, "models.gpt5nano.rate.tokens=null")
    hour = 3600.0
    overlapping = [(0.0, hour), (0.5 * hour, 2 * hour), (0.6 * hour, 0.7 * hour)]
    later = [(10 * hour, 11 * hour)]  # the run was stopped in between
    line = beside_line(found, [*later, *overlapping])
    assert line.startswith("0:00:15 on the wall and 0.01 GPU-hours were estimated")
    assert line.endswith("calls were under way for 3:00:00, which makes 9.00 GPU-hours")


def test_a_rate_limit_bounds_the_wall_time_by_what_the_api_reckons_with() -> None:
    found = two_turns({0: 100}, "interviews=100")
    # 200 calls weigh the 3000 tokens that each may answer, of which 200000 pass in a minute
    assert found.wall_seconds == pytest.approx(200 * 3000 / 200_000 * 60)
    assert found.bound == "models.gpt5nano.rate.tokens"


def test_the_rule_names_so_many_interviews_as_hide_the_other_latencies() -> None:
    found = two_turns({0: 3})
    assert found.turn_seconds == pytest.approx(3 + 1 + 5)
    assert found.interviews_needed == 64 * 9 / 3
    assert two_turns({0: 3}, "scorer_when=end").interviews_needed == -(-64 * 4 // 3)


def test_an_interview_that_was_interrupted_counts_from_the_turn_where_it_stands() -> None:
    found = two_turns({0: 1, 1: 2})
    assert {role: one.calls for role, one in found.roles.items()} == {
        "interviewer": 3, "patient": 1 + 3, "scorer": 1 + 3,
    }  # fmt: skip
    assert two_turns({9: 1}).roles["scorer"].calls == 1, "one that went on for longer: a last turn"


def test_a_price_that_is_not_known_makes_the_sum_unknown() -> None:
    unknown = PRICES.model_copy(update={"models": {}})
    found = estimated(
        TWO_TURNS, {0: 1}, settings=settings_of(), chosen=CHOSEN, prices=unknown, assumed=ASSUMED
    )
    assert found.roles["scorer"].cost is None
    assert found.roles["patient"].cost == 0.0
    assert found.cost is None


@given(st.integers(1, 500), st.integers(1, 500))
def test_two_lots_of_interviews_cost_what_they_cost_together(one: int, other: int) -> None:
    parts, whole = (two_turns({0: one}), two_turns({0: other})), two_turns({0: one + other})
    for role in CHOSEN:
        assert whole.roles[role].calls == sum(part.roles[role].calls for part in parts)
    assert whole.cost == pytest.approx(sum(part.cost or 0 for part in parts))


# rehearsals ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("experiment", "asked", "answered", "scored"),
    [
        ("hybrid", 12 - 3, 12, 12),  # the tree asks three times
        ("baseline", 12, 12, 12),
        ("local", 12 - 3, 12, 12),
        ("monolithic", 18, 18, 1),
        ("baseline_as_printed", 12, 11, 11),  # the twelfth message is a goodbye
    ],
)
def test_an_interview_has_the_calls_that_its_experiment_asks_for(
    experiment: str, asked: int, answered: int, scored: int, tmp_path: Path
) -> None:
    found = forecast(tmp_path, f"experiment={experiment}").of({0: 1})
    calls = {role: one.calls for role, one in found.roles.items()}
    assert calls == {"interviewer": asked, "patient": answered, "scorer": scored}


def test_guidance_behind_the_history_leaves_more_in_the_cache_than_before_it(
    tmp_path: Path,
) -> None:
    last, first = (
        forecast(tmp_path, f"interviewer.guidance={place}").of({0: 1}).roles["interviewer"]
        for place in ("last", "first")
    )
    assert last.input_tokens == pytest.approx(first.input_tokens, rel=0.01)
    assert last.cached_tokens > 0.8 * last.input_tokens
    fresh, fresh_first = (one.input_tokens - one.cached_tokens for one in (last, first))
    assert fresh < 0.5 * fresh_first


def test_a_short_prompt_of_a_paid_api_is_not_cached_and_a_long_one_is(tmp_path: Path) -> None:
    found = forecast(tmp_path, "experiment=baseline").of({0: 1})
    sent = forecast(tmp_path, "experiment=baseline")
    sent.of({0: 1})
    (one,) = sent._sent.values()
    short = [s for s in one if s.role == "interviewer" and s.prompt < 1024]
    assert short
    assert not any(s.cached for s in short)
    assert all(s.cached >= 1024 for s in one if s.role == "scorer")
    assert found.roles["scorer"].cached_tokens > 0.9 * found.roles["scorer"].input_tokens


def test_a_greater_effort_costs_more_and_no_answer_is_longer_than_it_may_be(
    tmp_path: Path,
) -> None:
    few, many = (
        forecast(tmp_path, "scorer=gpt5nano", f"models.gpt5nano.effort={effort}").of({0: 1})
        for effort in ("minimal", "high")
    )
    scorer = settings_of("scorer=gpt5nano").scorer
    assert isinstance(scorer, BDISettings)
    assert many.roles["scorer"].output_tokens == 12 * scorer.call.max_tokens
    assert few.roles["scorer"].output_tokens < many.roles["scorer"].output_tokens
    assert (few.cost or 0) < (many.cost or 0)


def test_the_plainest_sheet_is_one_that_the_scorer_accepts() -> None:
    sheet = filled(assessment_schema("evidence_first"), "words")
    assert parse_assessment(json.dumps(sheet)).assessed == ()


def test_no_tool_is_called_in_a_rehearsal() -> None:
    choice = {"type": "string", "enum": ["notepad", "none"]}
    asked = closed_object(
        {"tool": choice, "message": {"type": "string"}, "ready": {"type": "null"}}
    )
    assert filled(asked, "words") == {"tool": "none", "message": "words", "ready": None}


def test_assumptions_that_lack_a_key_are_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(FAKE_LENGTHS.replace("patient: 55", "doctor: 55"))
    with pytest.raises(InputError, match=r"mine\.yaml: the file: characters\.patient is missing"):
        load_yaml(path, Assumptions)


# commands -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with fake_process() as process:
        yield process


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Return what runs a command in this process and returns what it printed."""

    def printed(*arguments: str) -> str:
        main.run(arguments)
        return capsys.readouterr().out

    return printed


@pytest.fixture
def lengths(tmp_path: Path) -> str:
    path = tmp_path / "lengths.yaml"
    path.write_text(FAKE_LENGTHS)
    return f"estimate={path}"


def test_a_dry_run_asks_no_server_and_writes_nothing(server: ServerProcess, tmp_path: Path) -> None:
    before = len(server.log())
    ended = run(server.url, tmp_path, "dry_run=true", "persona=all")
    assert ended.returncode == 0, ended.stderr
    assert len(server.log()) == before
    assert list(tmp_path.iterdir()) == []
    for part in (
        "400 interviews of 12 messages", "cost", "on the wall", "GPU-hours", "--time=",
        "interviews >= calls x (sum of the latencies) / its own latency = 64 x ",
        "interviews=64 is below", "prices of 2026-11-30, scorer effort minimal",
        "$8 for ten", "gpt56luna $", "Not counted: retries", "Nothing was asked",
    ):  # fmt: skip
        assert part in ended.stdout, part


def test_a_dry_run_needs_neither_servers_nor_keys(tmp_path: Path, told: Told) -> None:
    assert "20 interviews" in told("dry_run=true", f"outputs={tmp_path}", f"endpoints={tmp_path}")
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_without_models_says_that_none_is_asked(tmp_path: Path, told: Told) -> None:
    out = told("experiment=offline", "dry_run=true", f"outputs={tmp_path}")
    assert out.startswith("No model is asked")
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_says_where_a_limit_will_end_it(tmp_path: Path, told: Told) -> None:
    limits = ("max_cost=0.01", "max_tokens=1000")
    out = told("dry_run=true", f"outputs={tmp_path}", *limits)
    assert "max_cost=0.01 will end the run" in out
    assert "max_tokens=1000 will end the run" in out


def test_a_dry_run_says_which_price_is_missing(tmp_path: Path, told: Told) -> None:
    out = told("dry_run=true", f"outputs={tmp_path}", "models.gpt5nano.name=gpt-99")
    assert "In all cost unknown" in out
    assert "has no price of gpt-99" in out


@pytest.mark.parametrize("experiment", ["monolithic", "baseline", "hybrid"])
def test_calls_are_exact_and_tokens_near_where_the_number_of_turns_is_fixed(
    experiment: str, server: ServerProcess, tmp_path: Path, lengths: str
) -> None:
    fixed = (f"experiment={experiment}", "samples=3", "orchestrator.max_messages=5", lengths)
    signals = () if experiment == "monolithic" else (NO_SIGNALS,)
    held = run(server.url, tmp_path, *fixed, *signals)
    assert held.returncode == 0, held.stderr
    calls = [line["call"] for line in tagged(tmp_path / experiment / "persona-07", "call")]
    found = forecast(tmp_path / experiment, *at(server.url), *fixed, *signals).of({0: 3})
    assert {role: one.calls for role, one in found.roles.items()} == Counter(
        call["role"] for call in calls
    )
    for role, one in found.roles.items():
        for kind in ("input_tokens", "output_tokens"):
            taken = sum(call[kind] for call in calls if call["role"] == role)
            assert 1 / FACTOR < getattr(one, kind) / taken < FACTOR, (role, kind, taken)
    assert "5.0 messages, 5 were estimated" in held.stdout
    rows = [line.split() for line in held.stdout.splitlines() if line.startswith(" scorer")]
    assert len(rows) == 2, "the estimate, and what was taken"
    assert "calls were under way for 0:00:" in held.stdout


def test_what_is_finished_is_not_counted_again(
    server: ServerProcess, tmp_path: Path, told: Told
) -> None:
    short = ("orchestrator.max_messages=3", "tree.turns_max=1", NO_SIGNALS)
    assert run(server.url, tmp_path, *short, "samples=2").returncode == 0
    before, requests = files(tmp_path), len(server.log())
    dry = (*at(server.url), f"outputs={tmp_path}", "dry_run=true", *short)
    more = told(*dry, "samples=3")
    assert "Owed: 1 interviews" in more
    assert "\n1 interviews of 3 messages" in more
    assert "2 interviews have ended, on average with 3.0 messages" in more
    nothing = told(*dry, "samples=2")
    assert "Owed: 0 interviews" in nothing
    assert "In all" not in nothing
    redone = told(*dry, "samples=2", "redo=[7/2]", "reason=misread")
    assert "Owed: 1 interviews" in redone
    with pytest.raises(FolderError, match="seed=2026, not 1"):  # as the run itself would
        told(*dry, "samples=3", "seed=1")
    assert "Owed: 2 interviews" in told(f"from={tmp_path / 'hybrid'}", "dry_run=true")
    assert files(tmp_path) == before
    assert len(server.log()) == requests


def test_an_interrupted_interview_is_counted_from_its_last_turn(
    server: ServerProcess, tmp_path: Path, told: Told
) -> None:
    short = ("orchestrator.max_messages=5", "samples=1", NO_SIGNALS)
    assert run(server.url, tmp_path, *short).returncode == 0
    path = tmp_path / "hybrid" / "persona-07" / "journal.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    third = next(n for n, line in enumerate(lines) if b'"tag":"turn"' in line.replace(b" ", b"")
                 and json.loads(line)["turn"]["number"] == 3)  # fmt: skip
    path.write_bytes(b"".join(lines[: third + 1]))
    out = told(*at(server.url), f"outputs={tmp_path}", "dry_run=true", *short)
    scored = next(line.split() for line in out.splitlines() if line.startswith(" scorer"))
    assert scored[3] == "2", "turns 4 and 5"
