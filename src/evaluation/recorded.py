"""The interviews of a finished run, read like anybody's recorded conversations."""

import json
from pathlib import Path

from src.errors import InputError
from src.evaluation.conversations import Conversation
from src.records import Truth
from src.store import RESULTS, subject_folders


def conversations_of_run(folder: Path) -> tuple[Conversation, ...]:
    """Return a run's valid interviews by subject and sample; the person is the subject.

    The recorded prediction is the interview's own final assessment; the truth, where the subject
    was simulated, stands in the run's results.
    """
    found: list[Conversation] = []
    for subject in subject_folders(folder):
        truth = _truth(subject.path / RESULTS)
        for _, state in sorted(subject.load().items()):
            interview = state.ended
            if not (interview and interview.valid and interview.final and interview.turns):
                continue
            found.append(
                Conversation(
                    row=len(found) + 1,
                    person=interview.subject,
                    turns=interview.turns,
                    closing=interview.closing.text if interview.closing else None,
                    k=interview.messages,
                    gold_total=truth.total if truth else None,
                    gold_symptoms=truth.key_symptoms if truth else None,
                    predicted_total=interview.final.total,
                    predicted_symptoms=interview.final.key_symptoms,
                )
            )
    if not found:
        raise InputError(f"{folder}: holds no finished interview of a run")
    return tuple(found)


def _truth(results: Path) -> Truth | None:
    path = next(iter(sorted(results.glob("*.json"))), None)
    truth = json.loads(path.read_text(encoding="utf-8")).get("truth") if path else None
    return Truth.model_validate(truth) if truth else None
