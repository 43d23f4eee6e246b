"""What a stand-in persona learns from: finished interviews as windows of labelled tokens.

Nothing here needs torch: tokens and labels are plain lists.
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from src.errors import InputError
from src.prompts import shown
from src.records import Turn, seed_of
from src.store import Manifest, subject_folders

UNLABELLED = -100
"""Label of a token that is read but not learnt, as PyTorch's loss has it."""
Messages = Sequence[dict[str, str]]
Render = Callable[[Messages], list[int]]
"""Tokens of a chat by the base's template; after a question, up to where the reply begins."""


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """A finished interview of one person."""

    subject: str
    sample: int
    turns: tuple[Turn, ...]

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """What was said alone: question and reply by turn."""
        return tuple((turn.question.text, turn.answer.text) for turn in self.turns)


class Example(NamedTuple):
    """One window: its tokens, and for each the token to learn, or `UNLABELLED`."""

    tokens: list[int]
    labels: list[int]


def dialogues_of(run: Path) -> dict[str, tuple[Dialogue, ...]]:
    """Return a run's finished interviews by subject, the same conversation once.

    Only an offline person may be stood in for: whoever else was interviewed is refused.
    """
    found: dict[str, tuple[Dialogue, ...]] = {}
    for folder in subject_folders(run):
        manifest = folder.manifest()
        assert manifest is not None  # its file is what makes a subject's folder
        if _patient_kind(manifest) != "offline":
            raise InputError(
                f"{shown(folder.path)}: not the interviews of an offline person; a stand-in "
                "learns from a run of experiment=offline alone"
            )
        distinct: dict[tuple[tuple[str, str], ...], Dialogue] = {}
        for sample, state in sorted(folder.load().items()):
            if state.ended and state.ended.valid and state.ended.turns:
                one = Dialogue(subject=manifest.subject, sample=sample, turns=state.ended.turns)
                distinct.setdefault(one.lines, one)
        found[manifest.subject] = tuple(distinct.values())
    if not found:
        raise InputError(
            f"{shown(run)}: holds no run; hold interviews first: python -m src.run "
            "experiment=offline persona=[7,8] samples=12"
        )
    return found


def split(
    dialogues: Sequence[Dialogue], share: float, *, seed: int
) -> tuple[tuple[Dialogue, ...], tuple[Dialogue, ...]]:
    """Return the interviews to learn from and those held out, whole ones, at least one of each."""
    if len(dialogues) < 2:  # noqa: PLR2004 - one to learn from, one to measure on
        subject = dialogues[0].subject if dialogues else "the person"
        raise InputError(f"{subject}: two different finished interviews are the least; hold more")
    order = sorted(dialogues, key=lambda one: one.sample)
    random.Random(seed_of(seed, order[0].subject, "split")).shuffle(order)  # noqa: S311 - no secret
    held = min(len(order) - 1, max(1, math.ceil(share * len(order))))
    return tuple(order[held:]), tuple(order[:held])


def windows(dialogue: Dialogue, render: Render, *, stop: int, max_length: int) -> Iterator[Example]:
    """Yield an interview as windows of whole turns, each as long as fits; none shares a turn.

    A turn that does not fit alone is refused, so that nothing is learnt without its end.
    """
    rest = list(dialogue.turns)
    while rest:
        best: Example | None = None
        for count in range(1, len(rest) + 1):
            example = labelled(rest[:count], render, stop=stop)
            if len(example.tokens) > max_length:
                break
            best, taken = example, count
        if best is None:
            raise InputError(
                f"{dialogue.subject}, sample {dialogue.sample}, turn {rest[0].number}: longer than "
                f"training.max_length={max_length} tokens"
            )
        yield best
        rest = rest[taken:]


def labelled(turns: Sequence[Turn], render: Render, *, stop: int) -> Example:
    """Return a conversation's tokens with the person's replies as labels, each with its stop.

    What the template puts around them, and all that the interviewer says, is read, not learnt.
    """
    chat = [
        message
        for turn in turns
        for message in (
            {"role": "user", "content": turn.question.text},
            {"role": "assistant", "content": turn.answer.text},
        )
    ]
    tokens = render(chat)
    labels = [UNLABELLED] * len(tokens)
    for reply in range(1, len(chat), 2):
        before, after = render(chat[:reply]), render(chat[: reply + 1])
        if tokens[: len(before)] != before or tokens[: len(after)] != after:
            raise InputError("the chat template rewrites what was said before: no label fits")
        said = tokens[len(before) : len(after)]
        if said.count(stop) != 1:
            raise InputError("the chat template does not end a reply with base.stop exactly once")
        end = len(before) + said.index(stop) + 1
        labels[len(before) : end] = tokens[len(before) : end]
    return Example(tokens, labels)


class Batch(NamedTuple):
    """Windows of one length: short ones are filled up with what is neither read nor learnt."""

    tokens: list[list[int]]
    labels: list[list[int]]
    read: list[list[int]]
    """1 for a token of the window, 0 for what fills it up."""


def padded(examples: Sequence[Example], pad: int) -> Batch:
    """Return some windows filled up to the longest."""
    longest = max(len(one.tokens) for one in examples)
    missing = [longest - len(one.tokens) for one in examples]
    return Batch(
        [one.tokens + [pad] * n for one, n in zip(examples, missing, strict=True)],
        [one.labels + [UNLABELLED] * n for one, n in zip(examples, missing, strict=True)],
        [[1] * len(one.tokens) + [0] * n for one, n in zip(examples, missing, strict=True)],
    )


def batches(examples: Sequence[Example], size: int, *, seed: int) -> Iterator[list[Example]]:
    """Yield batches without end: all windows in a new order, then all again."""
    order = list(examples)
    shuffled = random.Random(seed_of(seed, "order"))  # noqa: S311 - no secret
    waiting: list[Example] = []
    while True:
        while len(waiting) < size:
            shuffled.shuffle(order)
            waiting += order
        yield waiting[:size]
        waiting = waiting[size:]


def _patient_kind(manifest: Manifest) -> object:
    patient = manifest.config.get("patient")
    return patient.get("kind") if isinstance(patient, dict) else None
