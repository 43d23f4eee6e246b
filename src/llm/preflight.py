"""What is proved of a server before a run relies on it; once for each start of a server of ours.

A server without an endpoint file tells nobody when it was started: of it, a run asks the schema
canary alone, and every time; who asks for the checks gets them all. On paid endpoints the first
real answer is the proof, since each is read strictly.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import Annotated, Any

from pydantic import Field

from src.errors import ModelFailed, ServerError
from src.llm.caller import Request, body_of
from src.llm.ledger import ADAPTER
from src.llm.metrics import HITS, block_size, metrics_of
from src.llm.proofs import Check
from src.llm.responses import read_response
from src.llm.servers import PERSONA_ROLE, WAYS_ON, Servers, Service
from src.llm.structured import canary_holds, canary_messages, canary_schema
from src.records import Record, sha256_of

SHORT, PATIENT = 20.0, 90.0
"""Seconds: for one short answer; for the first logprobs, which a server compiles code for."""
CANARY_TOKENS = 64
PADDING = "<pad>"
REPEATED = "again "
"""A word of which a prompt longer than a block of the cache is made."""
FIRST_TOKENS = 8
"""Tokens whose probabilities are compared."""
SAME = 1e-4
"""Log-probabilities nearer than this are the same on an idle server."""
Label = Annotated[str, Field(min_length=1)]


class Samples(Record):
    """What adapters are asked, `prompts/preflight.yaml`."""

    compared: Label
    """The prompt whose answer's probabilities are compared."""
    replies: Annotated[tuple[Label, ...], Field(min_length=1)]
    """Questions that a persona answers, to see whether it comes to an end."""


def checks(
    servers: Servers,
    *,
    schema_roles: Iterable[str],
    subjects: Sequence[str],
    samples: Samples,
    persona: Callable[[str], Request],
    truncated_max: float,
    every: bool,
) -> list[Check]:
    """Return what to prove of our own servers before a run with these subjects.

    `persona` makes the request for a reply to a question, with the settings of the interviews;
    `every`: servers without an endpoint file are asked everything as well.
    """
    ours = {role: s for role, s in servers.services.items() if s.model.settings.backend == "vllm"}
    found = [schema_check(ours[role]) for role in schema_roles if role in ours]
    asked = {role: service for role, service in ours.items() if service.endpoint or every}
    found += [
        reply_check(service, service.model.settings.name)
        for role, service in asked.items()
        if role != PERSONA_ROLE or not servers.adapters
    ]
    found += [cache_check(service) for service in asked.values()]
    if PERSONA_ROLE in asked and servers.adapters:
        service = asked[PERSONA_ROLE]
        names = [name for s in subjects if (name := servers.served(s)[PERSONA_ROLE])]
        found.append(difference_check(service, samples.compared))
        requests = [persona(question) for question in samples.replies]
        found += [ending_check(service, name, requests, truncated_max) for name in names]
        found += [prompt_check(service, name, requests[0]) for name in names]
    return list({check.what: check for check in found}.values())


def schema_check(service: Service) -> Check:
    """Ask for prose under a schema that leaves one answer: only an enforced schema gives it."""
    name = service.model.settings.name

    async def act() -> None:
        schema = {"name": "canary", "strict": True, "schema": canary_schema()}
        form = {"type": "json_schema", "json_schema": schema}
        body = _body(name, canary_messages(), tokens=CANARY_TOKENS) | {"response_format": form}
        if not canary_holds(_text(await _asked(service, body, SHORT, what="canary"))):
            raise ServerError(f"{name}: its server does not enforce JSON schemas; {WAYS_ON}")

    return Check(what=f"{name} keeps to a JSON schema", endpoint=service.endpoint, act=act)


def reply_check(service: Service, name: str) -> Check:
    """Ask for one token: nothing, or padding, is what a wrong number format gives."""

    async def act() -> None:
        body = _body(name, [{"role": "user", "content": "Hello"}], tokens=1)
        text = _text(await _asked(service, body, PATIENT, what="reply"))
        if not text.strip() or PADDING in text:
            raise ServerError(
                f"{name}: its server generates nothing; look at its log, and serve it in bfloat16"
            )

    return Check(what=f"{name} answers", endpoint=service.endpoint, act=act)


def cache_check(service: Service) -> Check:
    """Send one prompt twice: the second time the server's counter of cached tokens has to rise."""
    name, url = service.model.settings.name, service.model.settings.base_url or ""

    async def act() -> str | None:
        try:
            size, before = block_size(url), metrics_of(url)[HITS]
            prompt = [{"role": "user", "content": REPEATED * size}]  # a word is a token at least
            for _ in range(2):
                await _asked(service, _body(name, prompt, tokens=1), PATIENT, what="cache")
            if metrics_of(url)[HITS] > before:
                return None
        except ServerError as error:
            return f"{name}: whether its prefix cache works is unknown: {error}"
        return (
            f"{name}: its server keeps no prefix cache, so that every turn computes the whole "
            "conversation anew; start it with --enable-prefix-caching and look at its log"
        )

    return Check(what=f"{name} answers from its prefix cache", endpoint=service.endpoint, act=act)


def difference_check(service: Service, prompt: str) -> Check:
    """Compare all adapters by an answer's probabilities: one without effect has its base's.

    The base is asked twice: what it differs from itself on a busy server is no difference.
    """
    base = service.model.settings.name
    names = [name for name in service.listed if name.startswith(ADAPTER)]

    async def told(name: str) -> list[tuple[str, float]]:
        body = _body(name, [{"role": "user", "content": prompt}], tokens=FIRST_TOKENS)
        body |= {"logprobs": True, "top_logprobs": 1}
        return _probabilities(await _asked(service, body, PATIENT, what="compare"), name)

    async def act() -> None:
        first, again = await told(base), await told(base)
        noise = max(SAME, 2 * _distance(first, again))
        found = {base: first} | {name: await told(name) for name in names}
        for one, other in combinations(found, 2):
            if _distance(found[one], found[other]) <= noise:
                raise ServerError(
                    f"{other}: answers exactly as {one}: its adapter has no effect; check its "
                    "target modules and weights, then start the server again"
                )

    return Check(
        what=f"{', '.join(sorted(names))} differ from {base} and each other",
        endpoint=service.endpoint,
        act=act,
    )


def ending_check(
    service: Service, name: str, requests: Sequence[Request], truncated_max: float
) -> Check:
    """Ask for whole replies: a persona that never comes to an end was trained without one."""

    async def act() -> None:
        cut = 0
        for number, request in enumerate(requests):
            budget, settings = request.settings.max_tokens, service.model.settings
            body = body_of(request, name, settings, budget=budget, seed=number)
            answer = await _asked(service, body, PATIENT, what="ending", tokens=budget)
            cut += read_response(answer, whole=False).truncated
        if cut > truncated_max * len(requests):
            raise ServerError(
                f"{name}: {cut} of {len(requests)} replies were cut off at their token limit; "
                "check its stop tokens, or raise patient.call.max_tokens"
            )

    what = f"{name} brings its replies to an end"
    if requests:
        what += f" ({1 - truncated_max:.0%} within {requests[0].settings.max_tokens} tokens)"
    return Check(what=what, endpoint=service.endpoint, act=act)


def prompt_check(service: Service, name: str, request: Request) -> Check:
    """Have a persona's prompt made into tokens, and keep their hash on the service.

    Holds however it comes out; asked at every run, whose manifest keeps it: an unsolicited system
    prompt or another template shows as another hash.
    """

    async def act() -> None:
        with suppress(ModelFailed):
            if tokens := await service.model.token_ids(name, request.messages):
                service.rendered[name] = sha256_of(" ".join(map(str, tokens)))

    return Check(what=f"{name} has its prompt rendered", endpoint=None, act=act)


def _body(name: str, messages: Sequence[Mapping[str, str]], *, tokens: int) -> dict[str, Any]:
    return {"model": name, "messages": messages, "max_tokens": tokens, "temperature": 0.0}


async def _asked(
    service: Service, body: Mapping[str, Any], seconds: float, *, what: str, tokens: int = 0
) -> Mapping[str, Any]:
    label = f"preflight/0/0/{what}"
    weight = tokens or int(body["max_tokens"])
    try:
        return await service.model.chat(body, seconds=seconds, tokens=weight, label=label)
    except ModelFailed as error:
        raise ServerError(f"{body['model']}: {error}; {WAYS_ON}") from error


def _text(answer: Mapping[str, Any]) -> str:
    try:
        return read_response(answer, whole=False).text
    except ModelFailed as error:
        raise ServerError(f"{error}; {WAYS_ON}") from error


def _probabilities(answer: Mapping[str, Any], name: str) -> list[tuple[str, float]]:
    try:
        tokens = answer["choices"][0]["logprobs"]["content"]
        found = [(str(one["token"]), float(one["logprob"])) for one in tokens]
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ServerError(f"{name}: its server tells no logprobs; {WAYS_ON}") from error
    if not found:
        raise ServerError(f"{name}: its server generates nothing; look at its log")
    return found


def _distance(one: list[tuple[str, float]], other: list[tuple[str, float]]) -> float:
    """Return how far two answers lie apart: endlessly with other words, else by log-probability."""
    if [token for token, _ in one] != [token for token, _ in other]:
        return math.inf
    return max(abs(x - y) for (_, x), (_, y) in zip(one, other, strict=True))
