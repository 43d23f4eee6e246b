"""Every way a command or an interview can go wrong, with the exit code it ends in.

    TacitError
    ├── InputError            2    a bad value, key or file; nothing was written
    │   └── FolderError       2    refused digest, locked folder, damaged journal
    ├── TooFewInterviews      1    fewer valid interviews than an answer needs
    ├── DiskError             4    disk full, file too large, no file handle left
    ├── Stopped           130/143  interrupted by a signal; resumable
    └── InterviewError             ends one interview, never its siblings
        ├── ScorerFailed           the scorer failed, or gave no final assessment
        ├── PatientFailed          the patient gave no usable answer
        ├── InterviewerFailed      the interviewer gave no usable question
        └── DeadlineExceeded       the interview took longer than it may

An interview's error becomes a stored `Failure`; it is never a score.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


class TacitError(Exception):
    """The root. Its text is one line that a user can act on."""

    exit_code = 1


class InputError(TacitError):
    """A value, key or file that cannot be used."""

    exit_code = 2


class FolderError(InputError):
    """A run folder that may not be written to, or cannot be read."""


class TooFewInterviews(TacitError):
    """Fewer valid interviews than the analyst needs."""

    exit_code = 1


class DiskError(TacitError):
    """The disk or the operating system's file limits refused a write."""

    exit_code = 4


class Stopped(TacitError):
    """A signal ended the run; what was finished is on disk."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"stopped by {number.name}; the same command goes on from here")
        self.exit_code = 128 + number


class InterviewError(TacitError):
    """One interview cannot go on."""

    kind = "interview_failed"
    transport = False
    """Whether the way to a server failed, so that asking again may well succeed."""


class ScorerFailed(InterviewError):
    kind = "scorer_failed"


class PatientFailed(InterviewError):
    kind = "patient_failed"


class InterviewerFailed(InterviewError):
    kind = "interviewer_failed"


class DeadlineExceeded(InterviewError):
    kind = "deadline_exceeded"


@contextmanager
def boundary(what: str) -> Iterator[None]:
    """Turn the operating system's refusals at `what` (a folder, a file) into a `DiskError`."""
    try:
        yield
    except OSError as error:
        raise DiskError(
            f"cannot write {what}: {error.strerror or error}; free space and repeat "
            "the command, it resumes"
        ) from error
