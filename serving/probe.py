"""Ask a server what a client could ask: is it there, what does it serve, is anything under way.

Plain requests, each on a connection of its own and never through a proxy. A failed connection is
an `OSError`.
"""

import http.client
import ipaddress
import json
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from src.errors import ServerError

HERE = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104 - within a job: other nodes ask, and every server has a key
LOCAL_ENTRY = {EVERYWHERE: HERE, "::": "::1"}
"""Addresses that stand for all of a machine's, and where the machine itself then finds them."""
FINISHED = "vllm:request_success_total"
UNDER_WAY = ("vllm:num_requests_running", "vllm:num_requests_waiting")
SHORT = 5.0
"""Seconds that an answer without a model may take."""


class KeyRefused(ServerError):
    """The key of the endpoint file opens nothing: whoever answers there is another server."""


@dataclass(frozen=True, kw_only=True)
class Door:
    """Where a server answers, and with which key."""

    host: str
    port: int
    key: str


def healthy(door: Door) -> bool:
    """Return whether somebody there says that it is ready for requests; shown no key."""
    try:
        return _answer(door, "/health", seconds=SHORT)[0] == http.client.OK
    except OSError:
        return False


def prove(door: Door, served: Sequence[str], *, seconds: float) -> None:
    """Raise a `ServerError` unless exactly `served` is listed and a token can be generated."""
    if set(found := listed(door)) != set(served):
        raise ServerError(f"it serves {', '.join(found) or 'nothing'}, not {', '.join(served)}")
    for model in served[:2]:  # the model, and one of its adapters
        if not one_token(door, model, seconds=seconds):
            raise ServerError(f"{model} answers nothing to a greeting")


def dialled(door: Door, environment: Mapping[str, str], *, listening: str) -> str:
    """Return the host under which a server has answered us; none is a `ServerError`."""
    names = candidates(environment, listening=listening)
    for name in names:
        if healthy(replace(door, host=name)):
            return name
    raise ServerError(
        f"it answers under none of {', '.join(names) or 'the names of this node'}: "
        "set lifecycle.host to an address of this node that others reach"
    )


def listed(door: Door) -> tuple[str, ...]:
    """Return the names of everything that is served; a refusal is a `ServerError`."""
    found = _content(door, "/v1/models", seconds=SHORT).get("data")
    rows = found if isinstance(found, list) else []
    return tuple(str(row.get("id")) for row in rows if isinstance(row, dict))


def one_token(door: Door, model: str, *, seconds: float) -> str:
    """Return the first token that a model says to a greeting; a refusal is a `ServerError`."""
    asked = {
        "model": model,
        "messages": [{"role": "user", "content": "Hello!"}],
        "max_tokens": 1,
        "temperature": 0,
    }
    found = _content(door, "/v1/chat/completions", asked, seconds=seconds)
    match found:
        case {"choices": [{"message": {"content": str(text)}}, *_]}:
            return text
        case _:
            return ""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """What a server has done so far, and what it is doing."""

    finished: float
    under_way: float


def traffic(door: Door) -> Traffic | None:
    """Return a server's counters; None where it does not keep them."""
    status, body = _answer(door, "/metrics", seconds=SHORT)
    text = body.decode(errors="replace")
    if status != http.client.OK or FINISHED not in text:
        return None
    return Traffic(
        finished=_sum(text, FINISHED), under_way=sum(_sum(text, name) for name in UNDER_WAY)
    )


def _sum(text: str, name: str) -> float:
    """Return the sum of a metric's lines over all their labels."""
    return sum(
        float(value) for value in re.findall(rf"^{name}(?:\{{.*\}})? (\S+)", text, re.MULTILINE)
    )


def candidates(environment: Mapping[str, str], *, listening: str) -> tuple[str, ...]:
    """Return the hosts under which a server may be reached, the best first.

    A server that listens everywhere is known by its node's name, else by an address that leaves
    this machine; link-local ones are of no use elsewhere.
    """
    if listening not in LOCAL_ENTRY:
        return (listening,)
    name, whole = socket.gethostname(), socket.getfqdn()
    names = dict.fromkeys((environment.get("SLURMD_NODENAME", ""), name, whole))
    usable = [known for known in names if known and useful(addresses(known))]
    return tuple(dict.fromkeys([*usable, *useful(addresses(name), loopback=False)]))


def addresses(name: str) -> tuple[str, ...]:
    """Return what a host's name stands for, nothing where nobody knows it."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(str(entry[4][0]) for entry in found)


def useful(found: Sequence[str], *, loopback: bool = True) -> list[str]:
    """Return addresses that are not link-local, nor of this machine alone unless allowed."""
    parsed = [(text, ipaddress.ip_address(text.partition("%")[0])) for text in found]
    return [
        text for text, ip in parsed if not ip.is_link_local and (loopback or not ip.is_loopback)
    ]


def _content(
    door: Door, path: str, asked: Mapping[str, object] | None = None, *, seconds: float
) -> dict[str, object]:
    status, body = _answer(door, path, asked, key=door.key, seconds=seconds)
    text = body.decode(errors="replace")
    if status == http.client.UNAUTHORIZED:
        raise KeyRefused(f"{door.host}:{door.port} refuses the key: another server answers there")
    if status != http.client.OK:
        raise ServerError(f"{path} answers {status}: {' '.join(text.split())[:200]}")
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ServerError(f"{path} answers with something that is no JSON") from error
    return found if isinstance(found, dict) else {}


def _answer(
    door: Door,
    path: str,
    asked: Mapping[str, object] | None = None,
    *,
    key: str = "",
    seconds: float,
) -> tuple[int, bytes]:
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Bearer {key}"
    body = None if asked is None else json.dumps(asked)
    connection = http.client.HTTPConnection(door.host, door.port, timeout=seconds)
    try:
        connection.request("GET" if body is None else "POST", path, body, headers)
        response = connection.getresponse()
        return response.status, response.read()
    except http.client.HTTPException as error:
        raise OSError(f"no HTTP answer ({type(error).__name__})") from error
    finally:
        connection.close()
