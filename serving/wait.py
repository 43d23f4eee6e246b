"""Wait for servers, or beside a driver for the end of one; nothing of a dead one is waited for.

    python -m serving.wait endpoints=[gemma,personas]          until all are ready
    python -m serving.wait endpoints=[gemma] jobs=[4711]       of this job, not of an older one
    python -m serving.wait endpoints=[gemma] until=ended       for as long as it is there

Once a server or its job has ended, the last lines of its log go to standard error and the command
ends with exit code 3. A job that is queued again is waited for.
"""

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from serving.jobs import Life, last_lines, life_of, life_of_job, log_of_job, refuse_without_slurm
from serving.probe import Door, KeyRefused, listed
from serving.served import say
from src import command, config
from src.errors import ServerError
from src.llm.endpoints import Endpoint, endpoint_path, read_endpoint
from src.prompts import shown
from src.settings.form import Positive, Seconds, Settings

QUEUE_ANSWER_LASTS = 2.0
"""Seconds for which the queue is not asked about the same job again: others ask it, too. Just after
a server's end every look asks."""
PATIENCE = 3.0
"""Seconds for which a job may go on after the end of its server before that end is final."""
CLEARS_WITHIN = 60.0
"""Seconds for which a node may be cleared, or the queue be out of reach, after a server's end: only
then the queue says whether its job is over or queued again."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
JobName = Annotated[str, Field(pattern=r"^\d+(_\d+)?$")]


class WaitSettings(Settings):
    """Everything that `serving.wait` is told."""

    endpoints: Annotated[tuple[Name, ...], Field(min_length=1)]
    until: Literal["ready", "ended"]
    jobs: tuple[Positive | JobName, ...]
    folder: Annotated[str, Field(min_length=1)]
    timeout: Seconds | None
    unreachable: Seconds
    poll: Seconds
    log_lines: Positive


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What is to be seen of one server."""

    text: str
    ready: bool = False
    ended: Path | None = None
    """Its log, once nothing more is to be expected of it."""


class Watch:
    """The servers that somebody waits for. Looks whenever it is told to."""

    def __init__(
        self, settings: WaitSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._jobs = tuple(str(job) for job in settings.jobs)
        self._folder = config.folder(settings.folder)
        self._clock = clock
        self._dials = settings.until == "ready"
        self._unreachable = settings.unreachable
        self._lives: dict[str, tuple[float, Life]] = {}
        self._answered: set[str] = set()
        """Starts that have answered."""
        self._silent_since: dict[str, float] = {}
        self._over: set[str] = set()
        """Starts whose job was queued again: the next one has not written its file yet."""
        self._ended_since: dict[str, float] = {}
        self._cleared: set[str] = set()
        """Starts that have ended and whose node was being cleared."""

    def sight(self, name: str) -> Sight:
        """Return what is to be seen of one server now."""
        endpoint = read_endpoint(self._folder, name)
        if endpoint is None or (self._jobs and endpoint.job not in self._jobs):
            return Sight(text=f"no file {shown(endpoint_path(self._folder, name))} yet")
        life = self._life_of(endpoint)
        if life is Life.CLEARED and endpoint.state == "ended":
            self._cleared.add(endpoint.start)
        anew = life is Life.RUNNING and endpoint.start in self._cleared
        if life is Life.WAITING or anew:
            self._over.add(endpoint.start)
        if endpoint.start in self._over:
            return Sight(text=f"job {endpoint.job} is queued again")
        if life is Life.GONE or (endpoint.state == "ended" and self._stays_ended(endpoint, life)):
            return Sight(text="ended", ended=Path(endpoint.log))
        return self._of_living(endpoint)

    def ended_job(self) -> str | None:
        """Return a job that was asked for and is no more."""
        return next((job for job in self._jobs if self._ask(job) is Life.GONE), None)

    def _of_living(self, endpoint: Endpoint) -> Sight:
        if endpoint.state != "ready":
            self._silent_since.pop(endpoint.start, None)
            return Sight(text=f"{endpoint.state}; its log: {shown(Path(endpoint.log))}")
        place = f"{endpoint.host}:{endpoint.port}"
        if self._dials and not self._answers(endpoint):
            return Sight(text=f"does not answer at {place}")
        return Sight(text=f"ready at {place}", ready=True)

    def _answers(self, endpoint: Endpoint) -> bool:
        """Return whether a server that says it is ready has answered from here."""
        if endpoint.start not in self._answered:
            door = Door(host=endpoint.host, port=endpoint.port, key=endpoint.key)
            reason: object = "it does not list what it serves"
            try:
                if set(endpoint.served) <= set(listed(door)):
                    self._answered.add(endpoint.start)
                    return True
            except KeyRefused as error:
                path = shown(endpoint_path(self._folder, endpoint.name))
                raise ServerError(f"{path}: {error}; start its server again") from error
            except (OSError, ServerError) as error:
                reason = error
            self._refuse_the_silent(endpoint, reason)
        return endpoint.start in self._answered

    def _refuse_the_silent(self, endpoint: Endpoint, reason: object) -> None:
        """Raise a `ServerError` once a server that says it is ready was silent for too long."""
        since = self._silent_since.setdefault(endpoint.start, self._clock())
        if self._clock() - since >= self._unreachable:
            raise ServerError(
                f"{endpoint.name}: says it is ready, but has not answered at {endpoint.host}:"
                f"{endpoint.port} for {self._unreachable:g} s: {reason}; start it with "
                "lifecycle.host=ADDRESS, one of its node that can be reached from here"
            )

    def _life_of(self, endpoint: Endpoint) -> Life:
        if endpoint.state == "ended" and endpoint.job in {None, os.environ.get("SLURM_JOB_ID")}:
            return Life.GONE  # nobody queues it again
        undecided = endpoint.state == "ended" and endpoint.start not in self._over
        lasts = 0.0 if undecided else QUEUE_ANSWER_LASTS
        return life_of(endpoint, queue=partial(self._ask, lasts=lasts))

    def _stays_ended(self, endpoint: Endpoint, life: Life) -> bool:
        since = self._ended_since.setdefault(endpoint.start, self._clock())
        return self._clock() - since >= (PATIENCE if life is Life.RUNNING else CLEARS_WITHIN)

    def _ask(self, job: str, *, lasts: float = QUEUE_ANSWER_LASTS) -> Life:
        asked, life = self._lives.get(job, (-QUEUE_ANSWER_LASTS, Life.UNKNOWN))
        if self._clock() - asked >= lasts:
            life = life_of_job(job)
            self._lives[job] = (self._clock(), life)
        return life


def wait(arguments: Sequence[str]) -> None:
    """Return once all are ready; a server that has ended is a `ServerError`."""
    settings = config.read_settings("wait", WaitSettings, arguments)
    if settings.jobs:
        refuse_without_slurm()
    watch, told = Watch(settings), ""
    deadline = math.inf if settings.timeout is None else time.monotonic() + settings.timeout
    while True:
        sights = {name: watch.sight(name) for name in settings.endpoints}
        _refuse_the_dead(sights, watch, lines=settings.log_lines)
        line = "; ".join(f"{name}: {sight.text}" for name, sight in sights.items())
        if line != told:
            say(line)
            told = line
        if settings.until == "ready" and all(sight.ready for sight in sights.values()):
            return
        if time.monotonic() >= deadline:
            raise ServerError(f"waited for {settings.timeout:g} s; {line}")
        time.sleep(settings.poll)


def _refuse_the_dead(sights: Mapping[str, Sight], watch: Watch, *, lines: int) -> None:
    """Show the log of what has ended and raise a `ServerError`."""
    for name, sight in sights.items():
        if sight.ended is not None:
            _show(sight.ended, lines)
            raise ServerError(f"{name}: the server has ended; its log: {shown(sight.ended)}")
    if (job := watch.ended_job()) is not None:
        log = log_of_job(job)
        _show(log, lines)
        place = f"its log: {shown(log)}" if log else "Slurm no longer knows its log"
        raise ServerError(f"job {job} has ended; {place}")


def _show(log: Path | None, count: int) -> None:
    lines = last_lines(log, count) if log else []
    sys.stderr.write("".join(f"{line}\n" for line in lines))
    sys.stderr.flush()


if __name__ == "__main__":
    command.main(__doc__, "wait", wait)
