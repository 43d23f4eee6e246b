"""The parts with a served model: how full the server is, and what its prefix cache spares."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from statistics import fmean

from src import config
from src.benchmark.figures import Figure
from src.benchmark.held import Batch, Sent, hold, looking, opened, rate
from src.benchmark.loads import closed_loop, cut_off
from src.errors import ServerError
from src.llm.metrics import HITS, RUNNING, block_size, metrics_of
from src.llm.servers import Servers
from src.settings import RunSettings
from src.settings.bench import BenchSettings, SaturationSettings

Look = tuple[float, float, int]
"""When, the requests that the servers worked on, and how many it could have been."""
Found = tuple[list[Figure], tuple[str, ...]]


def _run(settings: BenchSettings, *arguments: str) -> RunSettings:
    """Return the settings of a run with the experiment's players, but no model that scores."""
    told = [f"experiment={settings.experiment}", f"endpoints={settings.endpoints}"]
    told += [f"persona={settings.persona}", *arguments]
    asked = config.read_settings("config", RunSettings, told).asked_models
    for name in dict.fromkeys(name for names in asked.values() for name in names):
        told += [f"models.{name}.calls={settings.calls}"] if settings.calls else []
        told += [f"models.{name}.base_url={settings.url}"] if settings.url else []
    run = config.read_settings("config", RunSettings, told)
    return run.model_copy(update={"scorer": run.lexicon, "scorer_when": "end"})


async def saturation(settings: BenchSettings) -> Found:
    """Return the driver's tokens in a second of a plain loop's, and how busy the server was."""
    part = settings.saturation
    many = f"samples={part.interviews}", f"limits.interviews={part.interviews}"
    one = f"samples={part.alone}", "limits.interviews=1"
    run = _run(settings, *part.arguments, *many)
    pairs: list[tuple[float, float]] = []
    busy, busy_plain = [], []
    salt = partial("bench-{}-{}-{}".format, time.time_ns())
    async with opened(run) as servers:
        workers = sum(_calls(servers).values())
        await _measured(run, servers, part, salt=salt("warm", 0))
        recorded: list[Sent] = []
        for n in range(part.pairs):
            through, ratio = await _measured(run, servers, part, salt=salt("held", n))
            recorded = recorded or through
            busy.append(ratio)
            plain, ratio = await _plain(
                recorded, servers, part, workers=workers, salt=salt("plain", n)
            )
            busy_plain.append(ratio)
            pairs.append((rate(through), rate(plain)))
        through, _ = await _measured(
            _run(settings, *part.arguments, *one), servers, part, salt=salt("alone", 0)
        )
        plain, _ = await _plain(through, servers, part, workers=1, salt=salt("alone", 1))
        alone = rate(through), rate(plain)
        models = tuple(dict.fromkeys(s.model.settings.name for s in servers.services.values()))
    count = f"{run.limits.interviews} interviews"
    gains = [(held / alone[0]) / (loop / alone[1]) for held, loop in pairs]
    figures = [
        Figure(
            part="saturation",
            name=f"generated tokens in a second, {count}, of a plain closed loop's",
            values=tuple(held / loop for held, loop in pairs),
            at_least=part.aim,
        ),
        Figure(
            part="saturation",
            name="requests that the server works on, of min(limit, open interviews)",
            values=tuple(busy),
            at_least=part.running_aim,
        ),
        Figure(
            part="saturation", name="the same in the plain closed loop", values=tuple(busy_plain)
        ),
        Figure(
            part="saturation",
            name=f"times as fast as one interview at a time, {count}",
            values=tuple(held / alone[0] for held, _ in pairs),
        ),
        Figure(
            part="saturation",
            name="that gain, of the server's own by batching",
            values=tuple(gains),
        ),
    ]
    return figures, models


async def _measured(
    run: RunSettings, servers: Servers, part: SaturationSettings, *, salt: str
) -> tuple[list[Sent], float]:
    """Hold the interviews; return what they sent, and how busy the server was of what it could."""
    batch, most = Batch(), sum(_calls(servers).values())
    holding = hold(run, servers, batch, salt=salt)
    looks = await _watched(holding, servers, part, wanted=lambda: min(most, batch.open))
    if failed := next((i.failure for i in batch.interviews if i.failure), None):
        raise ServerError(f"an interview failed, which makes no measure: {failed.text}")
    return batch.through, _busy(looks, batch.through, part)


async def _plain(
    recorded: Sequence[Sent], servers: Servers, part: SaturationSettings, *, workers: int, salt: str
) -> tuple[list[Sent], float]:
    """Send the same requests, so many at once, with nobody who waits for an answer; the same."""
    through: list[Sent] = []

    async def again(one: Sent) -> None:
        through.append(await one.again(salt))

    loop = closed_loop([partial(again, one) for one in recorded], workers)
    looks = await _watched(
        loop, servers, part, wanted=lambda: min(workers, len(recorded) - len(through))
    )
    return through, _busy(looks, through, part)


async def _watched(
    work: Awaitable[None],
    servers: Servers,
    part: SaturationSettings,
    *,
    wanted: Callable[[], int],
) -> list[Look]:
    """Return what was seen at the servers while some work was done."""
    urls, looks = list(_calls(servers)), list[Look]()

    async def look() -> None:
        could, at = wanted(), time.monotonic()
        looks.append((at, await asyncio.to_thread(_running, urls), could))

    watching = asyncio.create_task(looking(look, part.every))
    try:
        await work
    finally:
        watching.cancel()
        ended = await asyncio.gather(watching, return_exceptions=True)
    if isinstance(error := ended[0], ServerError):
        raise error
    return looks


def _busy(looks: Sequence[Look], through: Sequence[Sent], part: SaturationSettings) -> float:
    """Return how busy the server was of what it could, from the first request to the tail."""
    begin = min(one.began for one in through)
    until = cut_off([one.ended for one in through], tail=part.tail)
    counted = [(running, could) for at, running, could in looks if begin <= at <= until and could]
    if not counted:
        raise ServerError(f"over within saturation.every={part.every:g} s: nothing could be seen")
    return fmean(running for running, _ in counted) / fmean(could for _, could in counted)


def _calls(servers: Servers) -> dict[str, int]:
    """Return how many calls each server may have under way, by its address."""
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for service in servers.services.values():
        settings = service.model.settings
        found[settings.base_url or ""][service.key] = settings.calls
    return {url: sum(keys.values()) for url, keys in found.items()}


def _running(urls: Sequence[str]) -> float:
    return sum(metrics_of(url)[RUNNING] for url in urls)


async def cache(settings: BenchSettings) -> Found:
    """Return what the prefix cache gave, of what it could, and what guidance at the end spares."""
    part, fresh, hits = settings.cache, {}, []
    given: list[float] = []
    async with opened(_run(settings, *part.arguments)) as servers:
        urls = list(_calls(servers))
        for guidance in ("last", "first"):
            run, batch = (
                _run(settings, *part.arguments, f"interviewer.guidance={guidance}"),
                Batch(),
            )
            before = sum(metrics_of(url)[HITS] for url in urls)
            await hold(run, servers, batch, salt=f"bench-{guidance}-{time.time_ns()}")
            cached = sum(_cached(one) for one in batch.through)
            hits.append((sum(metrics_of(url)[HITS] for url in urls) - before) / max(cached, 1))
            mine = [one for one in batch.through if one.voice[1] == "interviewer"]
            fresh[guidance] = fmean(one.usage["prompt_tokens"] - _cached(one) for one in mine)
            if guidance == "last":
                given = await _given(batch.through)
        models = tuple(dict.fromkeys(s.model.settings.name for s in servers.services.values()))
    figures = [
        Figure(
            part="cache",
            name="tokens from the cache, of those in an earlier prompt of interview and role",
            values=tuple(given),
            at_least=part.aim,
        ),
        Figure(
            part="cache",
            name="the server's own counter of cached tokens, of those in its answers",
            values=tuple(hits),
        ),
        Figure(
            part="cache",
            name="new prompt tokens of an interviewer's call, guidance last, of guidance first",
            values=(fresh["last"] / fresh["first"],),
        ),
    ]
    return figures, models


def _cached(one: Sent) -> int:
    details = one.usage.get("prompt_tokens_details") or {}
    return int(details.get("cached_tokens") or 0)


async def _given(through: Sequence[Sent]) -> list[float]:
    """Return for each interview the cached tokens of the cacheable ones, over both roles."""
    blocks: dict[str, int] = {}
    earlier: dict[tuple[str, str], list[list[int]]] = defaultdict(list)
    found: dict[str, int] = defaultdict(int)
    possible: dict[str, int] = defaultdict(int)
    for one in sorted(through, key=lambda sent: sent.began):
        url = one.model.settings.base_url or ""
        block = blocks.setdefault(url, 0) or block_size(url)
        blocks[url] = block
        messages = one.body["messages"]
        assert isinstance(messages, list)
        tokens = await one.model.token_ids(str(one.body["model"]), messages)
        seen = earlier[one.voice]
        most = max((shared(tokens, other) for other in seen), default=0) // block * block
        interview = one.voice[0]
        found[interview] += min(_cached(one), most)
        possible[interview] += most
        seen.append(tokens)
    if not any(possible.values()):
        raise ServerError("no prompt began as an earlier one: longer interviews are needed")
    return [found[name] / count for name, count in possible.items() if count]


def shared(tokens: Sequence[int], other: Sequence[int]) -> int:
    """Return the length of the common beginning."""
    pairs = zip(tokens, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(tokens), len(other)))
