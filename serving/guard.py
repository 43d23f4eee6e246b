"""Stand between a launcher and its server, so that nothing of a server outlives either.

    python guard.py GRACE PROGRAM [ARGUMENT …]

Starts the program in a process group of its own. Once standard input ends, because the launcher
closed it or is dead, however it died, the program is told to end; after GRACE seconds, or when it
has ended by itself, what is left of all that it started is killed. Should this process be killed
itself, the program is told to end. Ends with the program's exit code. A file to be run, not
imported: it knows the standard library alone, so that it starts at once and needs no working
directory.
"""

import contextlib
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

DIE_WITH_THE_PARENT = 1
"""Linux's PR_SET_PDEATHSIG: the signal that a process gets when the one that started it is gone."""
ADOPT_ORPHANS = 36
"""Linux's PR_SET_CHILD_SUBREAPER: whoever loses its parent below this process becomes its child."""
POLL = 0.05
HEEDED_BY_THE_LAUNCHER = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1)


def main(grace: float, program: list[str]) -> int:
    """Return the program's exit code, 128 + n after signal n."""
    for number in HEEDED_BY_THE_LAUNCHER:  # a handler, since SIG_IGN would be inherited
        signal.signal(number, lambda *_: None)
    control = ctypes.CDLL(None).prctl
    control(ADOPT_ORPHANS, 1, 0, 0, 0)
    try:
        leader = _started(program, control)
    except OSError as error:
        sys.stderr.write(f"{program[0]}: cannot be started: {error.strerror}\n")
        return 127
    while leader.poll() is None and not select.select([sys.stdin], [], [], POLL)[0]:
        pass
    if leader.poll() is None:
        leader.terminate()  # it alone: its workers are still needed for what is under way
        until = time.monotonic() + grace
        while time.monotonic() < until and leader.poll() is None:
            time.sleep(POLL)
        if leader.poll() is None:
            os.killpg(leader.pid, signal.SIGKILL)
    while _kill_children(leader.pid):  # of the dead, too, whatever group they are in
        time.sleep(POLL)
    code = leader.wait()
    return code if code >= 0 else 128 - code


def _started(program: list[str], control: Callable[..., int]) -> subprocess.Popen[bytes]:
    """Start the program so that it is told to end, too, when this process is killed."""
    own = os.getpid()

    def follow() -> None:
        control(DIE_WITH_THE_PARENT, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != own:  # killed in between
            os._exit(128 + signal.SIGTERM)

    return subprocess.Popen(
        program,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        preexec_fn=follow,  # noqa: PLW1509 - this process has a single thread
    )


def _kill_children(leader: int) -> bool:
    """Kill this process's children, those adopted included; return whether there was any.

    A dead one counts, and is buried: its own children may have been looked at while they were its.
    The dead leader stays: its exit code is wanted.
    """
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and (state != "Z" or int(stat.parent.name) != leader):
                found.append((int(stat.parent.name), state))
    for pid, state in found:
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            if state == "Z":
                os.waitpid(pid, os.WNOHANG)
            else:
                os.kill(pid, signal.SIGKILL)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
