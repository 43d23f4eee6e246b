"""What a server needs of a card's memory, and how many interviews fit: every figure computed.

A card holds weights, adapter buffers, an overhead that nobody can compute (stated in conf), and
the cache of keys and values. vLLM takes a share of the card and gives the cache what is left.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from serving.settings import ArchitectureSettings, LaunchSettings, ServerSettings
from src.errors import InputError

MIB = 2**20
GIB = 2**30
WIDE = 2
"""Bytes of a bfloat16."""
GEMMA = "gemma"
"""The one server with an option of four bits."""
STEPS = 2
"""Steps that vLLM schedules ahead of the one whose results are known, itself included."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """Bytes that one server needs of each of its cards."""

    weights: float
    adapters: float
    overhead: float
    start: float
    """Cache without which vLLM refuses to start: one sequence of the whole window."""

    @property
    def fixed(self) -> float:
        """Return everything but the cache."""
        return self.weights + self.adapters + self.overhead

    @property
    def least(self) -> float:
        return self.fixed + self.start


def weight_bytes(shape: ArchitectureSettings) -> float:
    """Return the weights' bytes; norms (under 0.01 %) are left out."""
    embeddings = shape.vocabulary * shape.hidden * (1 if shape.tied else 2)
    linear = shape.layers * sum(inner * outer for inner, outer in _linear(shape))
    return embeddings * WIDE + linear * shape.linear_bits / 8


def adapter_bytes(shape: ArchitectureSettings, rank: int) -> int:
    """Return one adapter's buffers: two matrices at each of the seven linear layers."""
    return shape.layers * rank * sum(inner + outer for inner, outer in _linear(shape)) * WIDE


def kv_bytes(shape: ArchitectureSettings, tokens: int) -> int:
    """Return the cache of one sequence; behind a window, a layer keeps no more than the window.

    vLLM caches layers in groups as large as the group of full attention, so that the last group
    of windowed layers is filled up: 52 layers of Gemma take the place of 60.
    """
    full = shape.full_attention * tokens
    windowed = _windowed(shape) * min(tokens, shape.window or 0)
    return (full + windowed) * _token_bytes(shape)


def running_bytes(server: ServerSettings) -> int:
    """Return the cache of tokens that windowed layers hold only while they are computed."""
    shape = _shape(server)
    return _windowed(shape) * STEPS * server.batch_tokens * _token_bytes(shape)


def need(server: ServerSettings, rank: int) -> Need:
    """Return what a server needs of each card; `rank` is --max-lora-rank, 0 without adapters."""
    shape = _shape(server)
    held = server.lora.max_loras if server.lora else 0
    return Need(
        weights=weight_bytes(shape) / server.tensor_parallel,
        adapters=held * adapter_bytes(shape, rank),
        overhead=server.overhead * GIB,
        start=(kv_bytes(shape, server.context) + running_bytes(server)) / server.tensor_parallel,
    )


def shares(settings: LaunchSettings, ranks: Mapping[str, int]) -> dict[str, float]:
    """Return each GPU server's share of its card; a card that is too small is an `InputError`.

    Servers whose share is not given stand on one card, split so that both hold as many interviews.
    """
    given = {name: server for name, server in settings.servers.items() if server.device == "gpu"}
    needs = {name: need(server, ranks.get(name, 0)) for name, server in given.items()}
    found = {name: server.memory for name, server in given.items() if server.memory is not None}
    sharing = {name: server for name, server in given.items() if server.memory is None}
    if sharing:
        found |= _split(sharing, needs, settings)
    _refuse_crowded(given, found)
    if (memory := settings.card_memory) is not None:
        for name, share in found.items():
            _refuse_too_small(name, given[name], needs[name], share=share, memory=memory)
    return {name: found[name] for name in given}


def interviews(
    server: ServerSettings, rank: int, *, share: float, memory: int, roles: Collection[str]
) -> int:
    """Return how many interviews' longest sequences, in these roles, the cache holds at once.

    `memory`: what a card gives to programs, in MiB. Each replica holds as many.
    """
    cache = share * memory * MIB - need(server, rank).fixed
    rest = cache - running_bytes(server) / server.tensor_parallel
    each = _interview_bytes(server, roles) / server.tensor_parallel
    return server.replicas * max(0, int(rest // each))


def _split(
    sharing: Mapping[str, ServerSettings], needs: Mapping[str, Need], settings: LaunchSettings
) -> dict[str, float]:
    if settings.card_memory is None:
        raise InputError("card: the memory of the card that the servers share, in MiB, is needed")
    if several := [name for name, server in sharing.items() if server.cards_needed > 1]:
        raise InputError(f"servers.{several[0]}: on several cards it shares none; give its memory")
    card = settings.card_memory * MIB
    least = sum(needs[name].least for name in sharing)
    if least > card * settings.card_share:
        wanted = least / settings.card_share / MIB + settings.card_reserve
        raise InputError(
            f"{' and '.join(sharing)} need a card of {wanted:.0f} MiB together, this one has "
            f"{settings.card}; serve them on a card each{_or_four_bits(sharing)}"
        )
    cache = card * settings.card_share - sum(needs[name].fixed for name in sharing)
    parts = _caches(sharing, needs, cache)
    return {name: _up((needs[name].fixed + parts[name]) / card) for name in sharing}


def _caches(
    sharing: Mapping[str, ServerSettings], needs: Mapping[str, Need], total: float
) -> dict[str, float]:
    """Return each server's cache: as many interviews for all, but no less than a start takes."""
    parts: dict[str, float] = {}
    while len(parts) < len(sharing):
        free = {name: server for name, server in sharing.items() if name not in parts}
        rest = total - sum(parts.values()) - sum(map(running_bytes, free.values()))
        each = {name: _interview_bytes(one, one.interview) for name, one in free.items()}
        count = rest / sum(each.values())
        wanted = {name: running_bytes(free[name]) + count * each[name] for name in free}
        short = {name: needs[name].start for name in free if wanted[name] < needs[name].start}
        parts |= short or wanted
    return parts


def _refuse_crowded(servers: Mapping[str, ServerSettings], found: Mapping[str, float]) -> None:
    for place in {place for server in servers.values() for place in server.positions}:
        there = [name for name, server in servers.items() if place in server.positions]
        if sum(found[name] for name in there) >= 1:
            raise InputError(
                f"{' and '.join(there)} take all of card {place} and more: give each its cards, "
                f"such as servers.{there[-1]}.cards=[{place + 1}], or memory=null"
            )


def _refuse_too_small(
    name: str, server: ServerSettings, needed: Need, *, share: float, memory: int
) -> None:
    if needed.least > share * memory * MIB:
        raise InputError(
            f"servers.{name}: needs {needed.least / MIB:.0f} MiB "
            f"({_gib(needed.weights)} weights, {_gib(needed.adapters)} adapters, "
            f"{_gib(needed.overhead)} overhead, {_gib(needed.start)} for one sequence), but "
            f"{share:g} of {memory} MiB are {share * memory:.0f}; take a larger card, a larger "
            f"card_share, a smaller context or tensor_parallel=2{_or_four_bits({name: server})}"
        )


def _or_four_bits(servers: Mapping[str, ServerSettings]) -> str:
    """Return the way on that is left to a Gemma whose weights have sixteen bits, else nothing."""
    gemma = servers.get(GEMMA)
    whole = gemma is not None and _shape(gemma).linear_bits == 8 * WIDE
    return ", or serving=gemma_int4" if whole else ""


def _interview_bytes(server: ServerSettings, roles: Collection[str]) -> int:
    return sum(kv_bytes(_shape(server), server.interview[role]) for role in roles)


def _windowed(shape: ArchitectureSettings) -> int:
    groups = -(-(shape.layers - shape.full_attention) // shape.full_attention)
    return groups * shape.full_attention


def _token_bytes(shape: ArchitectureSettings) -> int:
    """Return the keys' and values' bytes of one token in one layer."""
    return 2 * shape.kv_heads * shape.head_dim * WIDE


def _linear(shape: ArchitectureSettings) -> Sequence[tuple[int, int]]:
    """Return inner and outer width of a layer's seven matrices."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    attention = [(shape.hidden, queries), *[(shape.hidden, keys)] * 2, (queries, shape.hidden)]
    return [
        *attention,
        *[(shape.hidden, shape.intermediate)] * 2,
        (shape.intermediate, shape.hidden),
    ]


def _shape(server: ServerSettings) -> ArchitectureSettings:
    assert server.architecture is not None  # the settings of a server on a GPU have one
    return server.architecture


def _up(share: float) -> float:
    """Return a share rounded up to four places, so that what a start takes stays within."""
    return math.ceil(share * 10_000) / 10_000


def _gib(size: float) -> str:
    return f"{size / GIB:.1f} GiB"
