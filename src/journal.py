"""The journal: one line after the other, locked, on disk before anybody goes on."""

import asyncio
import fcntl
import json
import os
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from src.errors import FolderError, boundary


class Journal:
    """One file of JSON lines; written by one process at a time."""

    def __init__(self, path: Path, *, way_on: str = "give run=NAME") -> None:
        """Take what one can do instead where the file is no use."""
        self._path, self._way_on = path, way_on
        self._file: int | None = None
        self._in_use = threading.Lock()
        """Held during an fsync, which must not meet another file under the same number."""
        self._commit: asyncio.Future[None] | None = None
        """What waits for the next fsync."""
        self._syncing: asyncio.Task[None] | None = None

    def each(self, take: Callable[[Mapping[str, Any]], None]) -> None:
        """Hand over each whole line; one of another form is a `FolderError`."""
        for number, entry in enumerate(self._entries()[0], 1):
            try:
                take(entry)
            except (KeyError, ValueError, TypeError, AttributeError) as error:
                raise self._damaged(number) from error

    def open(self) -> None:
        """Lock the file, made where there is none; raise a `FolderError` if another holds it."""
        with boundary(str(self._path)):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            file = os.open(self._path, flags, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(file)
            told = f"{self._path.parent} is in use by another run; wait, or {self._way_on}"
            raise FolderError(told) from error
        self._file = file

    def mend(self) -> None:
        """Cut off a torn last line."""
        assert self._file is not None, "the journal is not open"
        with boundary(str(self._path)):
            os.ftruncate(self._file, self._entries()[1])

    def close(self) -> None:
        """Release the lock."""
        with self._in_use:
            if self._file is not None:
                os.close(self._file)
                self._file = None

    async def append(self, entry: Mapping[str, object]) -> None:
        """Write a line now; return when the fsync that covers it is done.

        The disk works beside the event loop, so that others are not kept from their models. One
        fsync serves every line written since the one before began, and the order of lines depends
        on nothing but the order of events.
        """
        self.write(entry)
        if self._commit is None:
            self._commit = asyncio.get_running_loop().create_future()
        commit = self._commit
        if self._syncing is None:
            self._syncing = asyncio.create_task(self._sync())
        await asyncio.shield(commit)

    def write(self, entry: Mapping[str, object]) -> None:
        """Write a line whole or not at all."""
        assert self._file is not None, "the journal is not open"
        line = {**entry, "at": datetime.now(UTC).isoformat(timespec="milliseconds")}
        left = memoryview(json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n")
        with boundary(str(self._path)):
            whole = os.fstat(self._file).st_size
            try:
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError:
                os.ftruncate(self._file, whole)  # nothing may be glued onto half a line
                raise

    async def _sync(self) -> None:
        """Bring to the disk what was written, until nothing is left."""
        while (commit := self._commit) is not None:
            self._commit = None
            try:
                with boundary(str(self._path)):
                    await asyncio.to_thread(self._fsync)
            except Exception as error:  # noqa: BLE001 - handed to everyone who waits for this commit
                commit.set_exception(error)
            else:
                commit.set_result(None)
        self._syncing = None

    def _fsync(self) -> None:
        with self._in_use:
            if self._file is not None:
                os.fsync(self._file)

    def _damaged(self, number: int) -> FolderError:
        return FolderError(f"{self._path} line {number}: damaged; {self._way_on}")

    def _entries(self) -> tuple[list[dict[str, Any]], int]:
        """Return the whole lines and how many bytes they take."""
        try:
            raw = self._path.read_bytes() if self._path.exists() else b""
        except OSError as error:
            raise FolderError(f"{self._path}: cannot be read; {self._way_on}") from error
        entries, size = [], 0
        lines = raw.splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            try:
                if not line.endswith(b"\n"):
                    break
                entries.append(json.loads(line))
            except ValueError as error:
                if number == len(lines):
                    break
                raise self._damaged(number) from error
            size += len(line)
        return entries, size
