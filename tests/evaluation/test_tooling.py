"""What interviews and reports took: tools, tokens, seconds, counted as the paper counts them."""

from collections.abc import Sequence
from typing import Any

import pytest

from src.evaluation.tooling import (
    by_asker,
    by_exchange,
    calls_by_role,
    flagged,
    latency_of,
    replies,
    spending,
    spending_of,
    tool_counts,
    tools_of,
    total,
)
from src.records import (
    Answer,
    Call,
    Interview,
    Question,
    SafetyEvent,
    StopReason,
    ToolUse,
    Turn,
)
from src.reports import DirectReport, Findings

CAPPED = "rounds_used_up"


def use(name: str, *, ok: bool = True) -> ToolUse:
    return ToolUse(name=name, arguments="{}", ok=ok, output="")


def call(role: str, seconds: float = 1.0, **tokens: Any) -> Call:
    return Call(role=role, asked="terra", seconds=seconds, **tokens)


def reply(*tools: str, seconds: Sequence[float] = (1.0,), **more: Any) -> Question:
    calls = tuple(call("interviewer", s) for s in seconds)
    uses = tuple(map(use, tools))
    return Question(text="And then?", source="model", **{"calls": calls, "tools": uses, **more})


def interview(*questions: Question, closing: Question | None = None, **more: Any) -> Interview:
    """Return an interview whose greeting is fixed and whose later questions are given."""
    asked = [Question(text="Hello.", source="fixed"), *questions]
    turns = tuple(
        Turn(number=n, question=q, answer=Answer(text="Well.", calls=(call("patient", 2.0),)))
        for n, q in enumerate(asked, 1)
    )
    closing = closing or Question(text="Thank you.", source="fixed")
    usual = {"subject": "case-1", "sample": 1, "seed": 1, "stop": StopReason.MAX_MESSAGES}
    return Interview(**{**usual, "turns": turns, "closing": closing, **more})


def stopped(*tools: str) -> Question:
    event = SafetyEvent(source="model", kind="self_harm", reason="said so")
    uses = tuple(map(use, tools))
    return Question(
        text="Please call for help.", source="fixed", tools=uses, event=event,
        stop=StopReason.SAFETY, calls=(call("interviewer"),),
    )  # fmt: skip


def findings(*tools: str, seconds: Sequence[float] = (), **tokens: Any) -> Findings:
    return Findings(
        report=DirectReport(final_hypotheses=()),
        hypotheses=(),
        tools=tuple(map(use, tools)),
        calls=tuple(call("analyst", s, **tokens) for s in seconds),
    )


# tools --------------------------------------------------------------------------------------


def test_sixteen_turns_are_fifteen_replies_beside_greeting_and_goodbye() -> None:
    found = replies(interview(*[reply()] * 15))
    assert [exchange for exchange, _ in found] == list(range(1, 16))


def test_every_call_counts_repeated_and_failed_ones_too() -> None:
    failed = reply(tools=(use("lookup", ok=False), use("lookup"), use("read")))
    busy, idle = interview(failed, reply("lookup")), interview(reply())
    lookup, read = tool_counts([tools_of(busy), tools_of(idle)])
    assert (lookup.tool, lookup.calls, lookup.users, lookup.failed) == ("lookup", 3, 1, 1)
    assert (lookup.mean, lookup.share) == (1.5, 0.5)
    assert (read.calls, read.failed) == (1, 0)


def test_several_calls_in_one_reply_count_once_in_their_exchange() -> None:
    held = [interview(reply("read", "read"), reply("read")), interview(reply(), reply())]
    first, second = by_exchange(held)
    assert (first.exchange, first.active, first.using) == (1, 2, {"read": 1})
    assert (second.exchange, second.active, second.using) == (2, 2, {"read": 1})


def test_a_stop_by_the_model_counts_in_its_exchange_and_ends_the_active_ones() -> None:
    early = interview(reply(), closing=stopped("safety_stop"), stop=StopReason.SAFETY)
    held = [early, interview(reply(), reply(), reply())]
    rows = by_exchange(held)
    assert [(row.exchange, row.active) for row in rows] == [(1, 2), (2, 2), (3, 1)]
    assert rows[1].using == {"safety_stop": 1}


def test_an_end_that_no_model_brought_about_is_no_reply() -> None:
    by_check = Question(
        text="Please call for help.", source="fixed", stop=StopReason.SAFETY,
        event=SafetyEvent(source="check", kind="acute", reason="said so"),
    )  # fmt: skip
    held = interview(reply(), closing=by_check, stop=StopReason.SAFETY)
    assert [row.active for row in by_exchange([held])] == [1]


def test_replies_that_had_no_round_left_are_counted() -> None:
    held = interview(reply(flags=(CAPPED, "question_mark")), reply(flags=("other",)))
    assert flagged([held, held], CAPPED) == 2


# tokens and dollars -------------------------------------------------------------------------


def rates(one: Call) -> float | None:
    """Price a call at the rates of the paper's study."""
    if one.input_tokens is None:
        return None
    cached = one.cached_tokens or 0
    fresh = one.input_tokens - cached
    return (2 * fresh + 0.2 * cached + 12 * (one.output_tokens or 0)) / 1e6


def test_table_20_means_cached_share_and_cost_of_an_interview() -> None:
    def unit(more: int) -> list[Call]:
        tokens = {"input_tokens": 258_600 + more, "cached_tokens": 242_700, "output_tokens": 2_700}
        return [call("interviewer", **tokens)]

    found = spending("interviewer", [unit(-100), unit(100)], rates)
    assert (found.input_tokens, found.cached_tokens, found.output_tokens) == (258600, 242700, 2700)
    assert found.total_tokens == 261_300  # the paper's 261.4 is of unrounded figures
    assert round(100 * found.cached_tokens / found.input_tokens, 1) in (93.8, 93.9)
    assert found.cost == pytest.approx(0.113, abs=5e-4)


def test_roles_are_apart_and_reports_have_lines_of_their_own() -> None:
    tokens = {"input_tokens": 100, "output_tokens": 10}
    one = interview(reply(calls=(call("interviewer", **tokens), call("interviewer", **tokens))))
    reports = {"run/direct": [findings(seconds=(1.0,), **tokens)], "run/rules": [findings()]}
    found = {row.role: row for row in spending_of([one, interview()], reports, rates)}
    assert list(found) == ["interviewer", "patient", "run/direct"]
    assert (found["interviewer"].units, found["interviewer"].requests) == (2, 1.0)
    assert found["interviewer"].total_tokens == 110
    assert found["run/direct"].total_tokens == 110


def test_a_cost_is_unknown_as_soon_as_one_price_is() -> None:
    known, unknown = call("interviewer", input_tokens=1, output_tokens=1), call("interviewer")
    assert spending("interviewer", [[known]], rates).cost is not None
    assert spending("interviewer", [[known], [known, unknown]], rates).cost is None


def test_a_role_without_a_model_has_no_line() -> None:
    scripted = interview(Question(text="Hm?", source="tree:sleep"))
    assert list(calls_by_role(scripted)) == ["patient"]


def test_two_diagnosers_of_one_role_are_told_apart_by_their_reports() -> None:
    first, second = findings(seconds=(1.0, 2.0)), findings(seconds=(4.0,))
    broken = call("analyst", 8.0)
    kept = [call("interviewer"), *second.calls, broken, *first.calls, call("patient")]
    found = by_asker(kept, {"run/diagnosis": [first], "run/direct": [second], "run/rules": []})
    seconds = {asker: [one.seconds for one in calls] for asker, calls in found.items()}
    assert seconds == {
        "analyst": [8.0], "interviewer": [1.0], "patient": [1.0], "run/diagnosis": [1.0, 2.0],
        "run/direct": [4.0],
    }  # fmt: skip


def test_a_total_is_a_sum_and_unknown_where_one_part_is() -> None:
    tokens = {"input_tokens": 1000, "cached_tokens": 400, "output_tokens": 10}
    calls = [call("patient", 2.0, **tokens), call("interviewer", 3.0, **tokens)]
    cards = {"patient": 2, "interviewer": 0}
    found = total(calls, rates, lambda one: cards[one.role])
    assert (found.input_tokens, found.cached_tokens, found.output_tokens) == (2000, 800, 20)
    assert (found.total_tokens, found.requests, found.unpriced) == (2020, 2, 0)
    assert found.cost == pytest.approx(2 * (600 * 2 + 400 * 0.2 + 10 * 12) / 1e6)
    assert (found.seconds, found.gpu_seconds) == (5.0, 4.0)
    dark = total([*calls, call("analyst")], rates, lambda one: cards.get(one.role))
    assert (dark.cost, dark.unpriced, dark.gpu_seconds, dark.seconds) == (None, 1, None, 6.0)


# seconds ------------------------------------------------------------------------------------


def test_a_reply_takes_all_its_rounds_and_means_are_those_of_interviews() -> None:
    slow = interview(reply(seconds=(2.0, 4.0)), reply(seconds=(8.0,)))
    quick = interview(reply(seconds=(1.0,)))
    asked, told = latency_of([slow, quick], {})
    assert (asked.role, asked.n, asked.maximum) == ("interviewer", 3, 8.0)
    assert asked.median_of_means == 4.0  # of 7 and 1
    assert asked.median == 6.0
    assert asked.p95 == pytest.approx(7.8)
    assert (told.role, told.n, told.median) == ("patient", 5, 2.0)


def test_reports_are_timed_without_groups_and_those_of_rules_not_at_all() -> None:
    taken = [findings(seconds=(1.0, 2.0)), findings(seconds=(5.0,)), findings()]
    scripted = interview(Question(text="Hm?", source="tree:sleep"))
    rows = [row for row in latency_of([scripted], {"run/direct": taken}) if row.role != "patient"]
    (row,) = rows
    assert (row.role, row.n, row.median, row.median_of_means) == ("run/direct", 2, 4.0, None)
