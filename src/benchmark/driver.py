"""The parts without a model: limits that hold nobody up, what a call costs, a soak."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from openai import AsyncOpenAI

from src.benchmark.figures import Figure
from src.benchmark.loads import at_once, closed_loop, cut_off
from src.benchmark.stand_in import Taken, stand_in, taken
from src.llm.caller import Caller, Request
from src.llm.client import Model
from src.llm.ledger import Prices, ledger_of
from src.prompts import load_yaml
from src.records import Call
from src.settings import CallSettings, ModelSettings, RunSettings
from src.settings.bench import BenchSettings, OverheadSettings
from src.store import SubjectFolder

LINE = "We talked about the garden and how the weeks go by. " * 4
"""A message of usual length."""
ASKED = "interviewer"


def limits(settings: BenchSettings, run: RunSettings) -> list[Figure]:
    """Return how full a slow scorer leaves the interviewer's server, by the server's own log."""
    part, full, waited = settings.limits, [], []
    allowed = run.models[run.asked_models[ASKED][0]].calls
    for _ in range(part.runs):
        with taken(settings, part) as found:
            full.append(_under_way(found.log, tail=part.tail) / allowed)
            waited.append(found.waited)
    name = f"mean calls at the interviewer's server, of the {allowed} that may be"
    return [
        Figure(part="limits", name=name, values=tuple(full), at_least=part.aim),
        Figure(
            part="limits",
            name="time for which the driver had work and no processor (a busy machine)",
            values=tuple(waited),
        ),
    ]


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
    part = settings.overhead
    with taken(settings, part, files=part.files) as found:
        firsts: dict[int, float] = {}
        ends: dict[int, float] = {}
        for entry in found.log:
            firsts.setdefault(entry["sample"], entry["at"])
            ends[entry["sample"]] = entry["at"] + entry["seconds"]
    count, all_begun = run.limits.interviews, max(firsts.values())
    most_open = sum(end >= all_begun for end in ends.values())
    return [
        _one("overhead", f"interviews under way at once, of {count}", most_open / count, least=1),
        _one("overhead", f"memory, of {part.memory} MB", found.memory_mb / part.memory, most=1),
        _one("overhead", f"files open, of {part.files}", found.files / part.files, most=1),
    ]


def soak(settings: BenchSettings, run: RunSettings) -> list[Figure]:
    """Return whether every interview came to an end, and every answer into the ledger."""
    part, ended, counted, valid, seconds = settings.soak, [], [], [], []
    for _ in range(part.runs):
        with taken(settings, part) as found:
            states = SubjectFolder(found.folder).load().values()
            endings = [state.ended for state in states if state.ended]
            typed = [e for e in endings if e.valid or (e.failure and e.failure.kind)]
            ended.append(len(typed) / run.samples)
            valid.append(sum(e.valid for e in endings) / run.samples)
            counted.append(_delivered(found, run) / sum(e["answered"] for e in found.log))
            seconds.append(found.seconds / part.seconds)
    return [
        Figure(
            part="soak",
            name=f"interviews complete or with a typed failure, of {run.samples}",
            values=tuple(ended),
            at_least=1,
            at_most=1,
        ),
        Figure(part="soak", name="complete ones among them", values=tuple(valid)),
        Figure(
            part="soak",
            name="answers in the ledger, of those that the server delivered",
            values=tuple(counted),
            at_least=1,
            at_most=1,
        ),
        Figure(
            part="soak",
            name=f"time, of the {part.seconds:g} s after which something hangs",
            values=tuple(seconds),
            at_most=1,
        ),
    ]


def _delivered(found: Taken, run: RunSettings) -> int:
    calls, _ = SubjectFolder(found.folder).calls()
    ledger = ledger_of(calls, load_yaml(run.price_list, Prices))
    return sum(account.delivered for account in ledger.roles.values())


def _one(
    part: str, name: str, value: float, *, least: float | None = None, most: float | None = None
) -> Figure:
    return Figure(part=part, name=name, values=(value,), at_least=least, at_most=most)
