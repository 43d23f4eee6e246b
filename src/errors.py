"""Every way a command or an interview can go wrong, with the exit code it ends in.

    TacitError
    ├── InputError            2    a bad value, key or file; nothing was written
    │   └── FolderError       2    refused digest, locked folder, damaged journal
    ├── TooFewInterviews      1    fewer valid interviews than an answer needs
    ├── ServerError           3    a server or key is missing, wrong or refused
    ├── DiskError             4    disk full, file too large, no file handle left
    ├── QuotaExhausted        5    the account is empty, or a limit of the run reached; resumable
    ├── Stopped           130/143  interrupted by a signal; resumable
    └── InterviewError             ends one interview, never its siblings
        ├── ScorerFailed           the scorer failed, or gave no final assessment
        ├── PatientFailed          the patient gave no usable answer
        ├── InterviewerFailed      the interviewer gave no usable question
        ├── DeadlineExceeded       the interview took longer than it may
        └── ModelFailed            a model's call came to nothing; `kind` says how:
              transport_failed     no connection, time-out, or the server's own error, repeatedly
              rate_limited         refused for its rate, repeatedly
              context_exceeded     the prompt does not fit; found before sending, never repeated
              request_refused      the server calls the request malformed
              prompt_refused       the provider's policy refuses the prompt
              refused              the model declines in words of its own
              content_filtered     the provider withholds the answer
              budget_exhausted     every token went into reasoning, none into an answer
              empty                no answer at all
              content_in_reasoning the answer stands only in the reasoning
              whitespace_loop      blanks up to the limit
              unparseable          no JSON where JSON was due
              schema_violated      JSON, but not what was asked for

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


class ServerError(TacitError):
    """A server or key that is missing, wrong or refuses us; the text says the ways on."""

    exit_code = 3
    kind = "server_error"


class QuotaExhausted(TacitError):
    """Nothing more may be spent; what was finished is on disk."""

    exit_code = 5
    kind = "quota_exhausted"


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

    def __init__(self, text: str, *, kind: str | None = None, transport: bool = False) -> None:
        super().__init__(text)
        self.kind = kind or self.kind
        self.transport = transport


class ScorerFailed(InterviewError):
    kind = "scorer_failed"


class PatientFailed(InterviewError):
    kind = "patient_failed"


class InterviewerFailed(InterviewError):
    kind = "interviewer_failed"


class DeadlineExceeded(InterviewError):
    kind = "deadline_exceeded"


class ModelFailed(InterviewError):
    """A call to a model came to nothing after everything its rule allows."""

    kind = "model_failed"


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
