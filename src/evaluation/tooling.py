"""What interviews and reports took: tools, tokens, dollars, seconds.

Pure. PsyCIDRA, Figures 13 and 14, Table 20 and Appendix E.6. Exchange n is answer n and question
n + 1, so that the greeting counts nowhere; the fixed goodbye is no reply of a model either.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from statistics import fmean, median

import numpy as np

from src.llm.servers import ANALYST
from src.records import Call, Interview, Question, Record, ToolUse
from src.reports import Findings

P95 = 95
Cost = Callable[[Call], float | None]
"""What a call cost in dollars by some price list; None: nobody knows."""
Cards = Callable[[Call], int | None]
"""GPUs of the server that answered a call; 0: somebody else's, None: nobody knows."""


def replies(interview: Interview) -> list[tuple[int, Question]]:
    """Return the replies of the interviewer's model, each with its exchange.

    Texts that no model wrote are left out: the greeting, the goodbye, and the end that the check
    without a model or the person brought about.
    """
    later = [turn.question for turn in interview.turns[1:]]
    asked = [*later, *([interview.closing] if interview.closing else [])]
    return [
        (exchange, question)
        for exchange, question in enumerate(asked, 1)
        if question.source != "fixed" or question.tools or question.calls
    ]


class ToolCount(Record):
    """How one tool was used."""

    tool: str
    units: int
    """Interviews, or reports."""
    calls: int
    """Repeated and unsuccessful ones too."""
    users: int
    """Interviews or reports with at least one call."""
    failed: int

    @property
    def mean(self) -> float | None:
        return self.calls / self.units if self.units else None

    @property
    def share(self) -> float | None:
        return self.users / self.units if self.units else None


def tool_counts(units: Sequence[Sequence[ToolUse]]) -> tuple[ToolCount, ...]:
    """Return each tool that was called, given the calls of each interview or report."""
    calls = Counter(use.name for uses in units for use in uses)
    users = Counter(name for uses in units for name in {use.name for use in uses})
    failed = Counter(use.name for uses in units for use in uses if not use.ok)
    return tuple(
        ToolCount(tool=t, units=len(units), calls=calls[t], users=users[t], failed=failed[t])
        for t in sorted(calls)
    )


def tools_of(interview: Interview) -> list[ToolUse]:
    """Return every tool call of an interview, in order."""
    return [use for _, question in replies(interview) for use in question.tools]


class ExchangeUse(Record):
    """One exchange of all interviews that reached it."""

    exchange: int
    active: int
    """Interviews in which the model replied."""
    using: dict[str, int]
    """Of these, how many used each tool; several calls in one reply count once."""


def by_exchange(interviews: Iterable[Interview]) -> tuple[ExchangeUse, ...]:
    """Return how many active interviews used each tool, exchange by exchange."""
    active: Counter[int] = Counter()
    using: dict[int, Counter[str]] = {}
    for exchange, question in chain.from_iterable(map(replies, interviews)):
        active[exchange] += 1
        using.setdefault(exchange, Counter()).update({use.name for use in question.tools})
    return tuple(
        ExchangeUse(exchange=n, active=active[n], using=dict(sorted(using[n].items())))
        for n in sorted(active)
    )


def flagged(interviews: Iterable[Interview], flag: str) -> int:
    """Return how many replies carry a flag, such as that of rounds used up."""
    return sum(flag in q.flags for interview in interviews for _, q in replies(interview))


def calls_by_role(interview: Interview) -> dict[str, list[list[Call]]]:
    """Return, by role, the calls behind each message or score of an interview."""
    questions = [turn.question for turn in interview.turns]
    closing = [interview.closing] if interview.closing else []
    scores = [turn.assessment for turn in interview.turns if turn.assessment]
    final = [interview.final] if interview.final and interview.final not in scores else []
    found = {
        "interviewer": [list(q.calls) for q in (*questions, *closing)],
        "patient": [list(turn.answer.calls) for turn in interview.turns],
        "scorer": [list(score.calls) for score in (*scores, *final)],
    }
    return {role: units for role, units in found.items() if any(units)}


class Spending(Record):
    """What one role's calls took, as means over interviews or reports."""

    role: str
    units: int
    requests: float
    input_tokens: float
    cached_tokens: float
    """Of the input."""
    output_tokens: float
    """Reasoning included, where the provider counts it so."""
    cost: float | None
    """US dollars; None as soon as one call's price is not known."""

    @property
    def total_tokens(self) -> float:
        return self.input_tokens + self.output_tokens


def spending(role: str, units: Sequence[Sequence[Call]], cost: Cost) -> Spending:
    """Return the means over units of at least one; failed tries count with what they took."""
    paid = [cost(call) for call in chain.from_iterable(units)]
    known = [one for one in paid if one is not None]

    def mean(of: Callable[[Call], int | None]) -> float:
        return fmean(sum(of(call) or 0 for call in calls) for calls in units)

    return Spending(
        role=role,
        units=len(units),
        requests=fmean(map(len, units)),
        input_tokens=mean(lambda call: call.input_tokens),
        cached_tokens=mean(lambda call: call.cached_tokens),
        output_tokens=mean(lambda call: call.output_tokens),
        cost=sum(known) / len(units) if len(known) == len(paid) else None,
    )


def spending_of(
    interviews: Sequence[Interview], reports: Mapping[str, Sequence[Findings]], cost: Cost
) -> Iterator[Spending]:
    """Yield a line for each role of the interviews, and for each diagnoser's reports by name.

    A role without a model has none.
    """
    by_role = [calls_by_role(interview) for interview in interviews]
    for role in dict.fromkeys(chain.from_iterable(by_role)):
        units = [list(chain.from_iterable(one.get(role, ()))) for one in by_role]
        yield spending(role, units, cost)
    for name, findings in reports.items():
        if any(one.calls for one in findings):
            yield spending(name, [one.calls for one in findings], cost)


class Total(Record):
    """Sums over calls."""

    requests: int
    input_tokens: int
    cached_tokens: int
    """Of the input."""
    output_tokens: int
    cost: float | None
    """US dollars; None as soon as one call's price is not known."""
    unpriced: int
    """Requests whose price is not known."""
    seconds: float
    gpu_seconds: float | None
    """Seconds of the calls times the cards of their servers: an upper bound, since a server works
    on many calls at once. None as soon as one server's cards are not known."""

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def total(calls: Sequence[Call], cost: Cost, cards: Cards) -> Total:
    """Return the sums over calls; failed tries count with what they took."""
    known = [one for call in calls if (one := cost(call)) is not None]
    busy = [call.seconds * n for call in calls if (n := cards(call)) is not None]
    return Total(
        requests=len(calls),
        input_tokens=sum(call.input_tokens or 0 for call in calls),
        cached_tokens=sum(call.cached_tokens or 0 for call in calls),
        output_tokens=sum(call.output_tokens or 0 for call in calls),
        cost=sum(known) if len(known) == len(calls) else None,
        unpriced=len(calls) - len(known),
        seconds=_seconds(calls),
        gpu_seconds=sum(busy) if len(busy) == len(calls) else None,
    )


def by_asker(
    calls: Iterable[Call], reports: Mapping[str, Sequence[Findings]]
) -> dict[str, list[Call]]:
    """Return all calls by who asked: a role, or the condition whose reports they brought.

    Every diagnoser asks as `analyst`, so that its calls are known by the reports that hold them.
    Those of no report, such as a diagnosis that failed, stay with the role.
    """
    found: dict[str, list[Call]] = {}
    held = Counter(call for findings in reports.values() for one in findings for call in one.calls)
    for call in calls:
        if call.role == ANALYST and held[call]:
            held[call] -= 1
            continue
        found.setdefault(call.role, []).append(call)
    asked = {name: [call for one in all_ for call in one.calls] for name, all_ in reports.items()}
    return dict(sorted(found.items())) | {name: told for name, told in asked.items() if told}


class Latency(Record):
    """Seconds that models took for a message or a report: all tries and tool rounds together."""

    role: str
    n: int
    """Messages, or reports."""
    median_of_means: float | None
    """Median of the interviews' means; None for reports."""
    median: float
    p95: float
    maximum: float


def latency(role: str, groups: Sequence[Sequence[float]], *, grouped: bool = True) -> Latency:
    """Return what is said of the seconds, grouped by interview; there is at least one."""
    seconds = list(chain.from_iterable(groups))
    return Latency(
        role=role,
        n=len(seconds),
        median_of_means=median(fmean(group) for group in groups if group) if grouped else None,
        median=median(seconds),
        p95=float(np.percentile(seconds, P95)),
        maximum=max(seconds),
    )


def latency_of(
    interviews: Sequence[Interview], reports: Mapping[str, Sequence[Findings]]
) -> Iterator[Latency]:
    """Yield the latency of interviewer and patient by message, and of each diagnoser by report.

    The time that a request waited in our own queue, and that tools took, is in none.
    """
    asked = [[_seconds(q.calls) for _, q in replies(one) if q.calls] for one in interviews]
    told = [[_seconds(t.answer.calls) for t in one.turns if t.answer.calls] for one in interviews]
    for role, groups in (("interviewer", asked), ("patient", told)):
        if any(groups):
            yield latency(role, groups)
    for name, findings in reports.items():
        if taken := [_seconds(one.calls) for one in findings if one.calls]:
            yield latency(name, [taken], grouped=False)


def _seconds(calls: Iterable[Call]) -> float:
    return sum(call.seconds for call in calls)
