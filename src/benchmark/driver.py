"""The parts without a model: limits that hold nobody up, what a call costs, a soak."""

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from openai import AsyncOpenAI

from src.benchmark.figures import Figure, seen
from src.benchmark.loads import at_once, closed_loop, cut_off
from src.benchmark.stand_in import stand_in, taken
from src.errors import InterviewError, ServerError
from src.llm.caller import Caller, Request
from src.llm.client import Model
from src.llm.ledger import Ledger, Prices, ledger_of
from src.prompts import load_yaml
from src.records import Call, Interview
from src.settings import CallSettings, ModelSettings, RunSettings
from src.settings.bench import BenchSettings, OverheadSettings
from src.store import SubjectFolder

LINE = "We talked about the garden and how the weeks go by. " * 4
"""A message of usual length."""
ASKED = "interviewer"
TOKENS = (
    ("input", "input_tokens", "prompt_tokens"),
    ("cached", "cached_tokens", "cached_tokens"),
    ("output", "output_tokens", "completion_tokens"),
)
"""What is counted: in words, in the ledger, and in the stand-in's log."""


def limits(settings: BenchSettings, run: RunSettings) -> list[Figure]:
    """Return how full a slow scorer leaves the interviewer's server, by the server's own log."""
    part, full, waited = settings.limits, list[float](), list[float | None]()
    allowed = run.models[run.asked_models[ASKED][0]].calls
    for _ in range(part.runs):
        with taken(settings, part) as found:
            full.append(_under_way(found.log, tail=part.tail) / allowed)
            waited.append(found.waited)
    name = f"mean calls at the interviewer's server, of the {allowed} that may be"
    busy = "time for which the driver had work and no processor (a busy machine)"
    return [*seen("limits", name, full, least=part.aim), *seen("limits", busy, waited)]


def _under_way(log: Sequence[Mapping[str, Any]], *, tail: float) -> float:
    """Return the mean number of an interviewer's calls, all interviews being under way."""
    spans = [(entry["at"], entry["at"] + entry["seconds"]) for entry in log]
    firsts: dict[int, float] = {}
    for entry in log:
        firsts.setdefault(entry["sample"], entry["at"])
    mine = [s for s, entry in zip(spans, log, strict=True) if entry["role"] == ASKED]
    return at_once(mine, max(firsts.values()), cut_off([end for _, end in spans], tail=tail))


async def cpu(settings: BenchSettings, model: ModelSettings) -> Figure:
    """Return the driver's processor time for a call, of the package's own for the same request."""
    part = settings.overhead
    with stand_in(settings.stand_in, part.plan) as url:
        ours = Model(model.model_copy(update={"base_url": url, "calls": part.concurrent}), None)
        plain = AsyncOpenAI(api_key="none", base_url=url, max_retries=0)
        roles = [("user", "assistant")[n % 2] for n in range(part.messages - 1)]
        messages = [{"role": "system", "content": LINE * 8}]
        messages += [{"role": role, "content": LINE} for role in roles]
        call = CallSettings(temperature=0.8, top_p=0.95, top_k=None, max_tokens=100, timeout=60)
        request = Request(messages=messages, settings=call, turn=1)

        async def ask() -> None:
            caller = Caller(
                ours, NoBook(), role=ASKED, name=model.name, subject="bench", sample=1, run_seed=1
            )
            await caller.ask(request)

        async def create() -> None:
            sent: Any = messages
            await plain.chat.completions.create(
                model=model.name, messages=sent, temperature=0.8, top_p=0.95, max_tokens=100
            )

        try:
            values = [await _round(part, ask, create) for _ in range(part.rounds + 1)]
        finally:
            await ours.close()
            await plain.close()
    name = f"processor time of a call, of create(), {part.concurrent} at once"
    return Figure(part="overhead", name=name, values=tuple(values[1:]), at_most=part.cpu)


async def _round(part: OverheadSettings, *asks: Callable[[], Awaitable[None]]) -> float:
    """Return the processor time of the first way to ask, of that of the second."""
    spent = []
    for ask in asks:
        began = time.process_time()
        await closed_loop([ask] * part.calls, part.concurrent)
        spent.append(time.process_time() - began)
    return spent[0] / spent[1]


class NoBook:
    """Writes nothing down."""

    def asked(self, role: str, turn: int) -> None:
        pass

    async def delivered(self, turn: int, call: Call) -> None:
        pass


def room(settings: BenchSettings, run: RunSettings) -> list[Figure]:
    """Return what many interviews at once take of memory and files."""
    part, count = settings.overhead, run.interviews
    opened, memory, files = list[float](), list[float | None](), list[float | None]()
    for _ in range(part.runs):
        with taken(settings, part, files=part.files) as found:
            opened.append(_open_at_once(found.log) / count)
            memory.append(_share(found.memory_mb, part.memory))
            files.append(_share(found.files, part.files))
    return [
        *seen("overhead", f"interviews under way at once, of {count}", opened, least=1),
        *seen("overhead", f"memory, of {part.memory} MB", memory, most=1),
        *seen("overhead", f"files open, of {part.files}", files, most=1),
    ]


def _share(value: float | None, whole: float) -> float | None:
    return None if value is None else value / whole


def _open_at_once(log: Sequence[Mapping[str, Any]]) -> int:
    """Return how many interviews had not ended when the last one began."""
    firsts: dict[int, float] = {}
    ends: dict[int, float] = {}
    for entry in log:
        firsts.setdefault(entry["sample"], entry["at"])
        ends[entry["sample"]] = entry["at"] + entry["seconds"]
    all_begun = max(firsts.values())
    return sum(end >= all_begun for end in ends.values())


def soak(settings: BenchSettings, run: RunSettings) -> list[Figure]:
    """Return whether every interview came to an end, and every answer into the ledger."""
    part, ended, valid, seconds = settings.soak, list[float](), list[float](), list[float]()
    counts: list[Mapping[str, float]] = []
    prices = load_yaml(run.price_list, Prices)
    for _ in range(part.runs):
        with taken(settings, part) as found:
            folder = SubjectFolder(found.folder)
            endings = [state.ended for state in folder.load().values() if state.ended]
            ended.append(sum(map(foreseen, endings)) / run.samples)
            valid.append(sum(e.valid for e in endings) / run.samples)
            counts.append(counted(ledger_of(folder.calls()[0], prices), found.log))
            seconds.append(found.seconds / part.seconds)
    typed = f"interviews complete or with a typed failure, of {run.samples}"
    hangs = f"time, of the {part.seconds:g} s after which something hangs"
    in_ledger = (
        seen("soak", name, (one[name] for one in counts), least=1, most=1) for name in counts[0]
    )
    return [
        *seen("soak", typed, ended, least=1, most=1),
        *seen("soak", "complete ones among them", valid),
        *chain.from_iterable(in_ledger),
        *seen("soak", hangs, seconds, most=1),
    ]


def foreseen(interview: Interview) -> bool:
    """Whether it is complete, or failed in a way that has a name: a defect of ours has none."""
    failure = interview.failure
    return interview.valid or (failure is not None and failure.kind != InterviewError.kind)


def counted(ledger: Ledger, log: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return what stands in the ledger, of what the server counted itself; by name."""
    answers = [entry for entry in log if entry["answered"]]
    if not answers:
        raise ServerError("the server delivered no answer, which makes no measure")
    accounts = ledger.roles.values()
    delivered = sum(account.delivered for account in accounts)
    found = {"answers in the ledger, of those that the server delivered": delivered / len(answers)}
    for name, field, theirs in TOKENS:
        ours = sum(getattr(account, field) for account in accounts)
        told = sum(entry[theirs] or 0 for entry in answers)
        found[f"{name} tokens in the ledger, of those that the server counted"] = (
            ours / told if told else float(ours == told)
        )
    return found
