"""Who listens at a port of this machine, as Linux tells it in /proc."""

import contextlib
from pathlib import Path

LISTENS = "0A"
"""A socket's state in /proc/net/tcp."""
DEAD = "Z"
"""A process's state; it holds nothing any more, and not everybody may look."""
TABLES = ("tcp", "tcp6")


def another_listens(port: int, *, below: int) -> bool:
    """Say whether a port is held, and by no process below this one; what cannot be told is none."""
    wanted = _listening(port)
    try:
        return bool(wanted) and not any(wanted & _sockets(pid) for pid in _family(below))
    except PermissionError:
        return False


def _listening(port: int) -> set[str]:
    """Return the sockets that listen at a port, as /proc names them, whatever their address."""
    found = set()
    for table in TABLES:
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text(encoding="ascii").splitlines()[1:]:
                _, local, _, state, _, _, _, _, _, inode, *_ = line.split()
                if state == LISTENS and int(local.rpartition(":")[2], 16) == port:
                    found.add(f"socket:[{inode}]")
    return found


def _sockets(pid: int) -> set[str]:
    """Return whatever a process holds open; nothing of one that has ended."""
    found = set()
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        for file in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):
                found.add(str(file.readlink()))
    return found


def _family(root: int) -> set[int]:
    """Return a process and all living ones that came of it."""
    children: dict[int, list[int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
            if state != DEAD:
                children.setdefault(int(parent), []).append(int(stat.parent.name))
    found, next_ones = {root}, [root]
    while next_ones:
        next_ones = [child for pid in next_ones for child in children.get(pid, ())]
        found.update(next_ones)
    return found
