"""Which cards are there, and whether they will do: what nvidia-smi prints, read."""

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from src.errors import ServerError

QUERY = (
    "nvidia-smi",
    "--query-gpu=index,uuid,name,memory.total,compute_cap",
    "--format=csv,noheader,nounits",
)
FIELDS = 5
BFLOAT16 = (8, 0)
"""The least compute capability that computes in bfloat16."""
WAIT = 60
"""Seconds for nvidia-smi; a driver that has to load takes some."""


@dataclass(frozen=True)
class Card:
    """One GPU as nvidia-smi lists it; memory in MiB."""

    index: int
    uuid: str
    name: str
    memory: int
    capability: tuple[int, int]


def ask() -> str:
    """Return what nvidia-smi prints about the cards; without it there is none: `ServerError`."""
    try:
        done = subprocess.run(QUERY, capture_output=True, text=True, timeout=WAIT, check=False)
    except FileNotFoundError:
        raise ServerError(
            "no nvidia-smi here, so no GPU: start it where one is, with print=true copy the "
            "command line, or serve a small model with serving=cpu"
        ) from None
    except subprocess.TimeoutExpired:
        raise ServerError(f"nvidia-smi does not answer within {WAIT} s") from None
    if done.returncode:
        said = " ".join((done.stdout + done.stderr).split())[:200]
        raise ServerError(f"nvidia-smi failed ({done.returncode}): {said}")
    return done.stdout


def read_cards(text: str) -> tuple[Card, ...]:
    """Return the cards in nvidia-smi's answer to `QUERY`."""
    return tuple(_card(line) for line in text.splitlines() if line.strip())


def visible(cards: Sequence[Card], named: str | None) -> tuple[Card, ...]:
    """Return the cards that CUDA_VISIBLE_DEVICES names by number or UUID; None names all."""
    if named is None:
        return tuple(cards)
    return tuple(_named(cards, entry.strip()) for entry in named.split(",") if entry.strip())


def taken(cards: Sequence[Card], positions: Sequence[int]) -> tuple[Card, ...]:
    """Return the cards at these positions; a lack, or one without bfloat16, is a `ServerError`."""
    if missing := [place for place in positions if place >= len(cards)]:
        raise ServerError(
            f"{missing[0] + 1} cards are needed, {len(cards)} visible: ask Slurm for more, or "
            "lower tensor_parallel and replicas"
        )
    chosen = tuple(cards[place] for place in positions)
    for card in chosen:
        if card.capability < BFLOAT16:
            have = ".".join(map(str, card.capability))
            raise ServerError(
                f"card {card.index} ({card.name}): compute capability {have} has no bfloat16, "
                "without which Gemma answers with nothing; take one of 8.0 or above (A100, A10, "
                "L4, L40S, H100, H200), not a V100 or T4"
            )
    return chosen


def _card(line: str) -> Card:
    fields = [field.strip() for field in line.split(",")]
    try:
        index, uuid, name, memory, capability = fields
        major, minor = capability.split(".")
        return Card(int(index), uuid, name, int(memory), (int(major), int(minor)))
    except ValueError:
        raise ServerError(f"nvidia-smi says what nobody understands: {line.strip()}") from None


def _named(cards: Sequence[Card], entry: str) -> Card:
    if entry.startswith("MIG-"):
        raise ServerError(
            f"CUDA_VISIBLE_DEVICES={entry}: a slice of a card, whose memory nvidia-smi does not "
            "say; take a whole card"
        )
    for card in cards:  # CUDA takes the beginning of a UUID for all of it
        if entry == str(card.index) or (entry.startswith("GPU-") and card.uuid.startswith(entry)):
            return card
    have = ", ".join(str(card.index) for card in cards) or "none"
    raise ServerError(f"CUDA_VISIBLE_DEVICES={entry}: no such card; nvidia-smi lists {have}")
