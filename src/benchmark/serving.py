"""The parts with a served model: how full the server is, and what its prefix cache spares."""

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

from src import config
from src.benchmark.figures import Figure, seen
from src.benchmark.held import Batch, Place, Sent, hold, opened, places_of, rate
from src.benchmark.loads import Look, Span, closed_loop, running, watched, worked
from src.errors import ServerError
from src.llm.metrics import HITS, block_size, metrics_of
from src.llm.servers import Servers
from src.settings import RunSettings
from src.settings.bench import BenchSettings, SaturationSettings

INTERVIEWER = "interviewer"
MEASURES = ("gauge", "clock")
"""By its gauge of running requests, until the tail; by the time that it worked on all of them."""
Found = tuple[list[Figure], tuple[str, ...]]
"""Figures, and the served models that were asked."""


@dataclass(frozen=True)
class Work:
    """What was sent, and how busy each server was with it."""

    through: list[Sent]
    busy: dict[str, dict[str, float | None]]
    """Of how busy it could be, by address and by `MEASURES`."""


def run_of(settings: BenchSettings, *arguments: str) -> RunSettings:
    """Return the settings of a run with the experiment's players, but no model that scores."""
    told = [f"experiment={settings.cast}", f"endpoints={settings.endpoints}"]
    told += [f"persona={settings.persona}", *arguments]
    asked = config.read_settings("config", RunSettings, told).asked_models
    for name in dict.fromkeys(name for names in asked.values() for name in names):
        told += [f"models.{name}.calls={settings.calls}"] if settings.calls else []
        told += [f"models.{name}.base_url={settings.url}"] if settings.url else []
    run = config.read_settings("config", RunSettings, told)
    return run.model_copy(update={"scorer": run.lexicon, "scorer_when": "end"})


async def saturation(settings: BenchSettings) -> Found:
    """Return the driver's tokens in a second of a plain loop's, and how busy each server was."""
    part = settings.saturation
    of = partial(run_of, settings, *part.arguments)
    run = of(f"samples={part.interviews}", f"interviews={part.interviews}")
    warm_up = of(f"samples={part.alone}", f"interviews={part.alone}")
    run_alone = of(f"samples={part.alone}", "interviews=1")
    held, plain = list[Work](), list[Work]()
    salt = partial("bench-{}-{}-{}".format, time.time_ns())
    async with opened(run) as servers:
        places = places_of(servers)
        await hold(warm_up, servers, Batch(), salt=salt("warm", 0))
        for n in range(part.pairs):
            held.append(await _held(run, servers, part, salt=salt("held", n)))
            plain.append(await _plain(held[0].through, places, part, salt=salt("plain", n)))
        alone = Batch()
        await hold(run_alone, servers, alone, salt=salt("alone", 0))
        again = [await sent.again(salt("alone", 1)) for sent in alone.through]
        names = _names(servers)
    count = f"{run.interviews} interviews"
    pairs = [
        (rate(ours.through), rate(loop.through)) for ours, loop in zip(held, plain, strict=True)
    ]
    slow, slow_plain = rate(alone.through), rate(again)
    figures = [
        *seen(
            "saturation",
            f"generated tokens in a second, {count}, of a plain closed loop's",
            (ours / loop for ours, loop in pairs),
            least=part.aim,
        ),
        *busy_figures(places, held, plain, aim=part.running_aim),
        *seen(
            "saturation",
            f"times as fast as one interview at a time (held once), {count}",
            (ours / slow for ours, _ in pairs),
        ),
        *seen(
            "saturation",
            "that gain, of the server's own by batching (its requests one by one: once)",
            ((ours / slow) / (loop / slow_plain) for ours, loop in pairs),
        ),
    ]
    return figures, names


async def _held(run: RunSettings, servers: Servers, part: SaturationSettings, *, salt: str) -> Work:
    """Hold the interviews."""
    batch, places = Batch(), places_of(servers)
    looks = await watched(
        partial(hold, run, servers, batch, salt=salt),
        _could(places, lambda _: batch.open),
        every=part.every,
    )
    busy = {
        place.url: _busy(place, looks[place.url], batch.through, batch.spans, tail=part.tail)
        for place in places
    }
    return Work(batch.through, busy)


async def _plain(
    recorded: Sequence[Sent], places: Sequence[Place], part: SaturationSettings, *, salt: str
) -> Work:
    """Send each server the same requests, as many at once as it may have; nobody waits for any."""
    through: list[Sent] = []
    left = Counter(one.url for one in recorded)

    async def again(one: Sent) -> None:
        through.append(await one.again(salt))
        left[one.url] -= 1

    def loop(place: Place) -> Awaitable[None]:
        mine = [partial(again, one) for one in recorded if one.url == place.url]
        return closed_loop(mine, place.calls)

    async def work() -> None:
        await asyncio.gather(*map(loop, places))

    looks = await watched(work, _could(places, lambda place: left[place.url]), every=part.every)
    first, busy = min(one.began for one in through), {}
    for place in places:
        at_hand = [(first, one.ended) for one in through if one.url == place.url]
        busy[place.url] = _busy(place, looks[place.url], through, at_hand, tail=part.tail)
    return Work(through, busy)


def _could(
    places: Sequence[Place], at_hand: Callable[[Place], int]
) -> dict[str, Callable[[], int]]:
    """Return by address what says how many requests a server could work on at the moment."""

    def of(place: Place) -> Callable[[], int]:
        return lambda: min(place.calls, at_hand(place))

    return {place.url: of(place) for place in places}


def _busy(
    place: Place,
    looks: Sequence[Look],
    through: Sequence[Sent],
    at_hand: Sequence[Span],
    *,
    tail: float,
) -> dict[str, float | None]:
    """Return how busy a server was; None: it does not tell."""
    sent = [(one.began, one.ended) for one in through if one.url == place.url]
    gauge = running(looks, sent, tail=tail)
    if gauge is None:
        raise ServerError(f"{place.url}: over between two looks (saturation.every), so unseen")
    return {"gauge": gauge, "clock": worked(looks, at_hand, limit=place.calls)}


def busy_figures(
    places: Sequence[Place], held: Sequence[Work], plain: Sequence[Work], *, aim: float
) -> list[Figure]:
    """Return how busy each server was; what is aimed at is that the interviewer's is full."""
    figures = []
    for place in places:
        whose = "the server" if len(places) == 1 else f"the {' and '.join(place.roles)}'s server"
        where = "" if len(places) == 1 else f" at {whose}"
        aimed = len(places) == 1 or INTERVIEWER in place.roles
        for by in MEASURES:
            found, same = ([one.busy[place.url][by] for one in works] for works in (held, plain))
            name = f"requests that {whose} works on by its {by}, of min(limit, open interviews)"
            figures += seen("saturation", name, found, least=aim if aimed else None)
            name = f"the same by its {by}{where} in the plain closed loop"
            figures += seen("saturation", name, same)
    return figures


async def cache(settings: BenchSettings) -> Found:
    """Return what the prefix cache gave, of what it could, and what guidance at the end spares."""
    part, fresh, hits = settings.cache, {}, []
    given: list[float] = []
    async with opened(run_of(settings, *part.arguments)) as servers:
        urls = [place.url for place in places_of(servers)]
        for guidance in ("last", "first"):
            run = run_of(settings, *part.arguments, f"interviewer.guidance={guidance}")
            batch = Batch()
            before = sum(metrics_of(url)[HITS] for url in urls)
            await hold(run, servers, batch, salt=f"bench-{guidance}-{time.time_ns()}")
            cached = sum(_cached(one) for one in batch.through)
            hits.append((sum(metrics_of(url)[HITS] for url in urls) - before) / max(cached, 1))
            mine = [one for one in batch.through if one.voice[1] == INTERVIEWER]
            fresh[guidance] = fmean(one.usage["prompt_tokens"] - _cached(one) for one in mine)
            if guidance == "last":
                given = await _given(batch.through)
        names = _names(servers)
    told = "tokens from the cache, of those in an earlier prompt of interview and role"
    own = "the server's own counter of cached tokens, of those in its answers"
    ends = "new prompt tokens of an interviewer's call, guidance last, of guidance first"
    figures = [
        *seen("cache", told, given, least=part.aim),
        *seen("cache", own, hits),
        *seen("cache", ends, [fresh["last"] / fresh["first"]]),
    ]
    return figures, names


def _names(servers: Servers) -> tuple[str, ...]:
    return tuple(dict.fromkeys(s.model.settings.name for s in servers.services.values()))


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
        block = blocks.setdefault(one.url, 0) or block_size(one.url)
        blocks[one.url] = block
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
