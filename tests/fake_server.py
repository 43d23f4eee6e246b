"""A chat-completions server on the loopback: several models, real limits, faults by plan, a log.

In a test of its own loop:      async with FakeServer(Plan(...)) as server: server.url
From `fake_process.py`:         with fake_process(Plan(...)) as server: server.url, server.log()
From a shell:                   python tests/fake_server.py port=8000 key=abc latency=[0,0.1]
Nothing here is shared with the product; `X-Tacit-Call` is the header that its client sends.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from aiohttp import web
from fake_plan import Fault, Plan, digest, names_of
from fake_refusals import Limits, Refused, checked, refusal
from fake_replies import BLOCK, PrefixCache, completed, token_ids, tokens_of
from fake_tools import refuse_tools

LABEL = "X-Tacit-Call"
LONG = 3600.0
Body = Mapping[str, Any]


@dataclass
class Entry:
    """One request, as `GET /log` shows it."""

    number: int
    path: str
    subject: str = ""
    sample: int | None = None
    turn: int | None = None
    role: str = ""
    model: str = ""
    attempt: int = 0
    """How often this label was seen, this time included."""
    bytes: int = 0
    status: int = 0
    """0: under way; 499: the other side went away."""
    fault: str | None = None
    delivered: bool = False
    """Whether all bytes of the response went out on an open connection."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    completion_tokens: int | None = None
    reasoning_tokens: int | None = None
    at: float = 0.0
    seconds: float = 0.0

    @property
    def answered(self) -> bool:
        """Whether it is a response that a ledger must hold: half a JSON tells no tokens."""
        whole = self.delivered and self.status == 200 and self.fault != "broken_json"
        return whole and self.completion_tokens is not None


class FakeServer:
    """One server in the running loop."""

    def __init__(self, plan: Plan | None = None, *, port: int = 0) -> None:
        self.plan = plan or Plan()
        self.faults = list(self.plan.faults)
        self.log: list[Entry] = []
        self.bodies: dict[int, str] = {}
        self.headers: dict[int, dict[str, str]] = {}
        self.now = self.peak = 0
        self._worked = 0.0
        """Chat requests under way, and the most there ever were."""
        self._port = port
        self._models = {model.name: model for model in self.plan.models}
        self._limits = {model.name: Limits(model) for model in self.plan.models}
        self._labels: Counter[str] = Counter()
        self._hits: Counter[int] = Counter()
        self._cache = PrefixCache()
        self._began = time.monotonic()

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**26)
        app.add_routes(
            [
                web.get("/health", self._health),
                web.get("/metrics", self._show_metrics),
                web.get("/v1/models", self._list),
                web.post("/v1/chat/completions", self._chat),
                web.post("/tokenize", self._tokenize),
                web.get("/log", self._show_log),
                web.get("/log/{number}", self._show_body),
                web.get("/log/{number}/headers", self._show_headers),
                web.post("/faults", self._set_faults),
            ]
        )
        self._runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=0.1, access_log=None
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, backlog=2048)
        await site.start()
        self.port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{self.port}/v1"
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._runner.cleanup()

    @property
    def chats(self) -> list[Entry]:
        return [entry for entry in self.log if entry.path == "chat"]

    def bodies_of(self, role: str) -> list[dict[str, Any]]:
        """Return what this role sent, in order."""
        return [json.loads(self.bodies[e.number]) for e in self.chats if e.role == role]

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _list(self, request: web.Request) -> web.Response:
        entry = Entry(number=len(self.log) + 1, path="models", at=self._time())
        self.log.append(entry)
        if wrong := self._wrong_key(request):
            entry.status = 401
            return wrong
        listed = [
            {"id": model.name, "object": "model", "owned_by": "fake", "created": 1_700_000_000}
            | ({"shutdown_date": model.shutdown_date} if model.shutdown_date else {})
            | ({} if model.profile == "openai" else {"max_model_len": model.context})
            for model in self.plan.models
        ]
        entry.status, entry.delivered = 200, True
        return web.json_response({"object": "list", "data": listed})

    async def _tokenize(self, request: web.Request) -> web.Response:
        entry = Entry(number=len(self.log) + 1, path="tokenize", at=self._time())
        self.log.append(entry)
        body = json.loads(await request.read())
        entry.model = str(body.get("model"))
        model = self._models.get(entry.model)
        if not self.plan.counts or model is None or model.profile == "openai":
            entry.status = 404
            return web.json_response({"detail": "Not Found"}, status=404)
        if sum(e.path == "tokenize" for e in self.log) <= self.plan.count_failures:
            entry.status = 503
            return web.json_response({"detail": "Busy"}, status=503)
        entry.status, entry.delivered = 200, True
        tokens = token_ids(body["messages"])
        told = {"count": len(tokens), "max_model_len": model.context, "tokens": tokens}
        return web.json_response(told)

    async def _show_metrics(self, _: web.Request) -> web.Response:
        lines = [
            f'vllm:num_requests_running{{engine="0"}} {float(self.now)}',
            f'vllm:request_inference_time_seconds_sum{{engine="0"}} {self._worked}',
            f'vllm:prefix_cache_hits_total{{engine="0"}} {float(self._cache.hits)}',
            f'vllm:cache_config_info{{block_size="{BLOCK}",enable_prefix_caching="True"}} 1.0',
        ]
        return web.Response(text="\n".join(lines) + "\n")

    async def _show_log(self, _: web.Request) -> web.Response:
        entries = [asdict(entry) | {"answered": entry.answered} for entry in self.log]
        return web.json_response({"requests": entries, "now": self.now, "peak": self.peak})

    async def _show_body(self, request: web.Request) -> web.Response:
        return web.Response(text=self.bodies.get(int(request.match_info["number"]), ""))

    async def _show_headers(self, request: web.Request) -> web.Response:
        return web.json_response(self.headers.get(int(request.match_info["number"]), {}))

    async def _set_faults(self, request: web.Request) -> web.Response:
        self.faults = [Fault.model_validate(fault) for fault in json.loads(await request.read())]
        self._hits.clear()
        return web.Response()

    async def _chat(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        entry = self._entered(request.headers.get(LABEL, ""), raw)
        if self.plan.keep_bodies:
            self.headers[entry.number] = dict(request.headers)
        self.now += 1
        self.peak = max(self.peak, self.now)
        try:
            response = self._wrong_key(request) or await self._respond(request, entry, raw)
            entry.status = response.status
            await response.prepare(request)
            await response.write_eof()
            transport = request.transport
            entry.delivered = transport is not None and not transport.is_closing()
            return response
        finally:
            self.now -= 1
            entry.status = entry.status or 499
            entry.seconds = round(self._time() - entry.at, 4)
            self._worked += entry.seconds

    def _entered(self, label: str, raw: bytes) -> Entry:
        entry = Entry(len(self.log) + 1, "chat", bytes=len(raw), at=self._time())
        self.log.append(entry)
        if self.plan.keep_bodies:
            self.bodies[entry.number] = raw.decode()
        self._labels[label] += 1
        entry.attempt = self._labels[label]
        if label.count("/") == 3:
            entry.subject, sample, turn, entry.role = label.split("/")
            entry.sample, entry.turn = int(sample), int(turn)
        return entry

    async def _respond(self, request: web.Request, entry: Entry, raw: bytes) -> web.StreamResponse:
        body = json.loads(raw)
        entry.model = str(body.get("model"))
        fault = self._fault(entry)
        try:
            if fault:
                entry.fault = fault.kind
                refusal(fault)
            model = checked(body, self._models)
            refuse_tools(body)
            prompt = tokens_of(body["messages"])
            budget = int(body.get("max_completion_tokens") or body.get("max_tokens") or 1024)
            if prompt + budget > model.context:
                raise Refused.too_long(model.context, prompt, budget)
            self._limits[model.name].take(max(prompt, budget))  # as the paid API weighs them
        except Refused as refused:
            return refused.response()
        low, high = model.latency or self.plan.latency
        await asyncio.sleep(low + (high - low) * digest(self.plan.seed, raw) / 2**32)
        if fault and (early := await self._broken(fault, request, entry)):
            return early
        found, usage = completed(
            model,
            body,
            fault,
            number=entry.number,
            budget=budget,
            cache=self._cache if self.plan.caches else PrefixCache(),
            numbered=self.plan.numbered,
            tools=self.plan.tools,
            note=self.plan.note,
        )
        entry.prompt_tokens, entry.cached_tokens = usage.prompt, usage.cached
        entry.completion_tokens, entry.reasoning_tokens = usage.completion, usage.reasoning
        if fault and fault.kind == "no_usage":
            del found["usage"]
        text = json.dumps(found)
        if fault and fault.kind == "cut_body":
            await self._cut(request, text)
        if fault and fault.kind == "broken_json":
            text = text[: len(text) // 2]
        return web.Response(text=text, content_type="application/json")

    async def _broken(
        self, fault: Fault, request: web.Request, entry: Entry
    ) -> web.StreamResponse | None:
        match fault.kind:
            case "hang":
                await asyncio.sleep(LONG)
            case "trickle":
                await self._trickle(request)
            case "dropped":
                self._drop(request)
            case "html":
                return web.Response(text="<html>Please wait</html>", content_type="text/html")
            case "no_choices":
                return web.json_response({"error": {"message": fault.text or "overloaded"}})
            case _:
                pass
        return None

    async def _trickle(self, request: web.Request) -> None:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        while True:
            await response.write(b" ")
            await asyncio.sleep(0.02)

    async def _cut(self, request: web.Request, text: str) -> None:
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(text)
        await response.prepare(request)
        await response.write(text[: len(text) // 2].encode())
        self._drop(request)

    def _drop(self, request: web.Request) -> None:
        if request.transport is not None:
            request.transport.close()
        raise asyncio.CancelledError

    def _fault(self, entry: Entry) -> Fault | None:
        for place, fault in enumerate(self.faults):
            wanted = fault.model_dump(
                include={"role", "sample", "turn", "attempt", "model"}, exclude_none=True
            )
            if any(getattr(entry, key) != value for key, value in wanted.items()):
                continue
            if fault.subject is not None and entry.subject not in names_of(fault.subject):
                continue
            label = (entry.subject, entry.sample, entry.turn, entry.role, entry.attempt)
            if digest(self.plan.seed, place, *label) >= fault.share * 2**32:
                continue
            if fault.times is not None and self._hits[place] >= fault.times:
                continue
            self._hits[place] += 1
            return fault
        return None

    def _wrong_key(self, request: web.Request) -> web.Response | None:
        given = request.headers.get("Authorization", "").removeprefix("Bearer ")
        if self.plan.key is None or given == self.plan.key:
            return None
        return Refused(
            401, f"Incorrect API key provided: {given}.", code="invalid_api_key"
        ).response()

    def _time(self) -> float:
        return round(time.monotonic() - self._began, 4)


def told(arguments: list[str]) -> tuple[int, Plan]:
    """Return port and plan of `key=value` arguments; `plan=` is JSON or a file of it."""
    given: dict[str, Any] = {}
    for argument in arguments:
        name, _, value = argument.partition("=")
        if name == "plan":
            text = value if value.startswith("{") else Path(value).read_text(encoding="utf-8")
            given |= json.loads(text)
        else:
            given[name] = json.loads(value) if value[:1] in "[{0123456789tfn" else value
    port = int(given.pop("port", 0))
    return port, Plan.model_validate(given)


async def serve(port: int, plan: Plan) -> None:
    async with FakeServer(plan, port=port) as server:
        sys.stdout.write(f"{server.url}\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*told(sys.argv[1:])))
