"""The ledger: tokens by role and kind, dollars by request, and honest blanks."""

import pytest

from src.errors import InputError
from src.llm.ledger import Prices, ledger_of
from src.prompts import load_yaml
from src.records import Call

PRICES = load_yaml("conf/prices/2026-11-30.yaml", Prices)


def call(
    model: str = "gpt-5-nano", *, given: int | None = 1_000_000, cached: int = 0, written: int = 0,
    out: int = 0, role: str = "scorer", outcome: str = "ok",
) -> Call:  # fmt: skip
    return Call(
        role=role, asked=model, reported=model if given is not None else None, outcome=outcome,
        input_tokens=given, cached_tokens=cached, written_tokens=written, output_tokens=out,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("made", "dollars"),
    [
        (call(out=1_000_000), 0.45),
        (call(cached=1_000_000), 0.005),
        (call(cached=600_000), 0.4 * 0.05 + 0.6 * 0.005),
        (call("gpt-5-nano-2025-08-07"), 0.05),
        (call("gpt-6-luna", given=200_000, written=100_000), 0.01 + 0.0125),
        (call("gpt-6-luna", given=272_000), 0.0272),
        (call("gpt-6-luna", given=272_001, out=1_000_000), 0.0544002 + 0.75),
        (call("google/gemma-3-27b-it"), 0.0),
        (call("persona-07-1a2b3c4d"), 0.0),
        (call("gpt-6-luna-mini"), None),
        (call("unheard-of"), None),
        (call(given=None, outcome="rate_limited"), 0.0),
        (call(given=None, outcome="cancelled"), None),
        (call(given=None, outcome="transport_failed"), None),
        (call(given=None), None),
        (call("persona-07-1a2b3c4d", given=None, outcome="cancelled"), 0.0),
    ],
)
def test_a_request_costs_what_the_list_says_or_nobody_knows(
    made: Call, dollars: float | None
) -> None:
    assert PRICES.cost(made) == (None if dollars is None else pytest.approx(dollars))


def test_many_small_requests_are_never_priced_as_one_large_one() -> None:
    calls = [call("gpt-6-luna", given=100_000)] * 10
    assert ledger_of(calls, PRICES).cost == pytest.approx(0.1)


def test_failed_attempts_are_in_the_sums_by_role() -> None:
    calls = [
        call(given=100, cached=60, out=40),
        call(given=None, outcome="rate_limited"),
        call(given=50, out=0, outcome="refused"),
        call("google/gemma-3-27b-it", given=10, out=5, role="interviewer"),
    ]
    ledger = ledger_of(calls, PRICES, unknown=2)
    scorer = ledger.roles["scorer"]
    assert (scorer.delivered, scorer.failed) == (2, 1)
    assert (scorer.input_tokens, scorer.cached_tokens, scorer.output_tokens) == (150, 60, 40)
    assert ledger.roles["interviewer"].cost == 0
    assert ledger.unknown == 2
    assert scorer.outcomes == {"ok": 1, "rate_limited": 1, "refused": 1}
    assert str(ledger.priced) == "2026-11-30"


def test_one_unknown_price_makes_the_sum_unknown_not_smaller() -> None:
    assert ledger_of([call(), call("unheard-of", role="interviewer")], PRICES).cost is None


def test_a_malformed_price_list_is_one_line() -> None:
    with pytest.raises(InputError, match="as_of"):
        load_yaml("conf/models/gemma.yaml", Prices)
