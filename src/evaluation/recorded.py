"""The interviews of a finished run, read like anybody's recorded conversations."""

import json
from collections.abc import Iterator
from pathlib import Path

from src.errors import InputError
from src.evaluation.conversations import Conversation
from src.records import Interview, Truth
from src.store import SubjectFolder, subject_folders


def conversations_of_run(folder: Path) -> tuple[Conversation, ...]:
    """Return a run's valid interviews by subject and sample; the person is the subject.

    The recorded prediction is the interview's own final assessment; the truth, where the subject
    was simulated, stands in the run's results.
    """
    found = tuple(
        _conversation(interview, row, truth)
        for row, (interview, truth) in enumerate(_interviews(folder), 1)
    )
    if not found:
        raise InputError(f"{folder}: holds no finished interview of a run")
    return found


def _interviews(folder: Path) -> Iterator[tuple[Interview, Truth | None]]:
    for subject in subject_folders(folder):
        truth = _truth(subject)
        for _, state in sorted(subject.load().items()):
            if state.ended and state.ended.valid and state.ended.turns:
                yield state.ended, truth


def _conversation(interview: Interview, row: int, truth: Truth | None) -> Conversation:
    assert interview.final is not None
    return Conversation(
        row=row,
        person=interview.subject,
        turns=interview.turns,
        closing=interview.closing.text if interview.closing else None,
        k=interview.messages,
        gold_total=truth.total if truth else None,
        gold_symptoms=truth.key_symptoms if truth else None,
        predicted_total=interview.final.total,
        predicted_symptoms=interview.final.key_symptoms,
    )


def _truth(subject: SubjectFolder) -> Truth | None:
    for path in sorted((subject.path / "results").glob("*.json")):
        truth = json.loads(path.read_text(encoding="utf-8")).get("truth")
        return Truth.model_validate(truth) if truth else None
    return None
