"""Interviews by the run's own parts, with a look at what goes through the door to their models."""

import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from rich.console import Console

from src import build, config
from src.benchmark.loads import Span
from src.errors import ServerError
from src.interview.batch import Owed, StopRequest, hold_all
from src.live import Watch
from src.llm.client import Message, Model
from src.llm.ledger import Allowance, Prices
from src.llm.servers import Servers, open_servers
from src.prompts import load_yaml
from src.provenance import manifests_of
from src.records import Interview
from src.settings import RunSettings
from src.subject import SubjectRun


@dataclass(frozen=True, kw_only=True)
class Sent:
    """A request that was answered."""

    model: Model
    body: Mapping[str, object]
    options: Mapping[str, Any]
    usage: Mapping[str, Any]
    began: float
    ended: float

    @property
    def tokens(self) -> int:
        """Return how many were generated."""
        return int(self.usage.get("completion_tokens") or 0)

    @property
    def url(self) -> str:
        """Return the address of the server that was asked."""
        return self.model.settings.base_url or ""

    @property
    def voice(self) -> tuple[str, str]:
        """Return the interview and the role that asked."""
        subject, sample, _, role = str(self.options["label"]).split("/")
        return f"{subject}/{sample}", role

    async def again(self, salt: str) -> "Sent":
        """Send the same once more."""
        return (await sent(self.model, self.body, self.options, salt))[0]


async def sent(
    model: Model,
    body: Mapping[str, object],
    options: Mapping[str, Any],
    salt: str,
    sending: Callable[[], None] = lambda: None,
) -> tuple[Sent, Mapping[str, Any]]:
    """Send a request whose prompt shares the server's cache with those of the same salt alone."""
    began = time.monotonic()

    def leaving() -> None:
        nonlocal began
        sending()
        began = time.monotonic()

    answer = await model.chat({**body, "cache_salt": salt}, **options, sending=leaving)
    now, usage = time.monotonic(), answer.get("usage") or {}
    one = Sent(model=model, body=body, options=options, usage=usage, began=began, ended=now)
    return one, answer


class Tapped(Model):
    """A model that keeps what was asked of it."""

    def __init__(self, inner: Model, salt: str, through: list[Sent]) -> None:
        """Take where to keep the requests, over all models."""
        self.settings, self._inner = inner.settings, inner
        self._salt, self._through = salt, through

    async def chat(
        self,
        body: Mapping[str, object],
        *,
        seconds: float,
        tokens: int,
        label: str,
        sending: Callable[[], None] = lambda: None,
    ) -> Mapping[str, Any]:
        """Ask the model beneath."""
        options = {"seconds": seconds, "tokens": tokens, "label": label}
        one, answer = await sent(self._inner, body, options, self._salt, sending)
        self._through.append(one)
        return answer

    async def tokens_of(
        self, name: str, messages: Sequence[Message], tools: Sequence[Mapping[str, Any]] = ()
    ) -> int | None:
        return await self._inner.tokens_of(name, messages, tools)


@dataclass
class Batch:
    """What interviews sent, and how many were open."""

    through: list[Sent] = field(default_factory=list)
    open: int = 0
    spans: list[Span] = field(default_factory=list)
    """When each was open."""
    interviews: list[Interview] = field(default_factory=list)

    def counted(self, owed: Iterator[Owed]) -> Iterator[Owed]:
        """Count each interview while it is open."""
        for one in owed:
            self.open += 1
            yield replace(one, keep_end=self._closing(one.keep_end, time.monotonic()))

    def _closing(
        self, keep_end: Callable[[Interview], Awaitable[None]], began: float
    ) -> Callable[[Interview], Awaitable[None]]:
        async def close(interview: Interview) -> None:
            self.open -= 1
            self.spans.append((began, time.monotonic()))
            self.interviews.append(interview)
            await keep_end(interview)

        return close


@dataclass(frozen=True, kw_only=True)
class Place:
    """A server, whatever it serves."""

    url: str
    roles: tuple[str, ...]
    calls: int
    """How many it may have under way, over its models."""


def places_of(servers: Servers) -> list[Place]:
    """Return the servers that are asked, each once."""
    calls: dict[str, dict[str, int]] = defaultdict(dict)
    roles: dict[str, list[str]] = defaultdict(list)
    for role, service in servers.services.items():
        settings = service.model.settings
        url = settings.base_url or ""
        calls[url][service.key] = settings.calls
        roles[url].append(role)
    return [
        Place(url=url, roles=tuple(roles[url]), calls=sum(by_model.values()))
        for url, by_model in calls.items()
    ]


@asynccontextmanager
async def opened(run: RunSettings) -> AsyncIterator[Servers]:
    """Open the servers that a run asks."""
    async with open_servers(
        run.asked_models,
        run.models,
        remembered={},
        local_hosts=run.local_hosts if run.privacy == "local" else None,
        adapters=not run.of_cases,
        endpoints=config.folder(run.endpoints),
    ) as servers:
        yield servers


async def hold(run: RunSettings, servers: Servers, batch: Batch, *, salt: str) -> None:
    """Hold a run's interviews in a folder that is gone afterwards, as src.run does.

    Raises a `ServerError` where one failed.
    """
    tapped = {
        role: replace(service, model=Tapped(service.model, salt, batch.through))
        for role, service in servers.services.items()
    }
    prices = load_yaml(run.price_list, Prices)
    with tempfile.TemporaryDirectory(prefix="tacit-bench-") as name:
        root = Path(name)
        names, _ = build.subjects(run, servers, root)
        manifests, inputs = manifests_of(run, servers, names, root)
        subjects = [
            SubjectRun(
                run,
                build.Casting(run),
                servers=replace(servers, services=tapped),
                folder=root / subject,
                watch=Watch(Console(file=StringIO()), prices),
                allowance=Allowance(prices, cost=None, tokens=None),
                stop=StopRequest(),
            )
            for subject in names
        ]
        try:
            for subject in subjects:
                subject.folder.open(manifests[subject.subject], inputs)
            owed = batch.counted(chain.from_iterable(subject.owed() for subject in subjects))
            await hold_all(owed, interviews=run.interviews, deadline=None, stop=StopRequest())
        finally:
            for subject in subjects:
                subject.folder.close()
    if failed := next((i.failure for i in batch.interviews if i.failure), None):
        raise ServerError(f"an interview failed, which makes no measure: {failed.text}")


def rate(through: list[Sent]) -> float:
    """Return the generated tokens in a second, from the first request to the last answer."""
    first, last = min(one.began for one in through), max(one.ended for one in through)
    return sum(one.tokens for one in through) / (last - first)
