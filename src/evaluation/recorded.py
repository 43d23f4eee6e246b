"""The interviews of a finished run, read like anybody's recorded conversations."""

from pathlib import Path

from pydantic import ConfigDict, ValidationError

from src.errors import FolderError, InputError
from src.evaluation.conversations import Conversation
from src.evaluation.metrics import Total
from src.prompts import one_line
from src.records import Record, Truth
from src.store import RESULTS, subject_folders


class KnownTruth(Truth):
    """A truth whose total lies on the scale."""

    total: Total


class Result(Record):
    """What is read of a subject's result."""

    model_config = ConfigDict(extra="ignore")
    truth: KnownTruth | None = None


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
    """Return the truth of a subject's first result; a damaged file is a `FolderError`."""
    path = next(iter(sorted(results.glob("*.json"))), None)
    try:
        return Result.model_validate_json(path.read_bytes()).truth if path else None
    except ValidationError as error:
        raise FolderError(f"{path}: {one_line(error)}") from error
    except OSError as error:
        raise FolderError(f"{path}: cannot be read ({error.strerror})") from error
