"""Runs in one SQLite file, by Python's own sqlite3.

The file is in WAL mode: readers never wait for the writer, and a commit is one append to the log and one sync of it.
``synchronous="NORMAL"`` leaves that sync out: what was stored last may then be lost when the machine (not the process)
fails, and an effect whose receipt is lost that way is run again. So it is an option, not the default.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote

from ..errors import DurableExecutionError, StoreUnavailableError
from . import schema
from .contract import checked_lease
from .store import RunStore
from .writer import Work, Writer

T = TypeVar("T")
_SYNCHRONOUS = ("NORMAL", "FULL", "EXTRA")


class SQLiteDurableStore(RunStore):
    """Durable runs in the SQLite file ``path``, which is created (mode 0600) when it is new; its directory must exist.

    ``lease_seconds``: how long an owner may be silent before others take a run. ``read_only`` needs an existing file
    and changes nothing. ``busy_seconds``: how long to wait for a lock that another process holds.

    FileNotFoundError for a missing directory or, read-only, a missing file; StoreCorruptError for a file that is no
    store of runs; DurableExecutionError for one that a newer protolink wrote; StoreUnavailableError for one that cannot
    be used now.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        lease_seconds: float = 300.0,
        read_only: bool = False,
        synchronous: str = "FULL",
        busy_seconds: float = 5.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        checked_lease(lease_seconds)
        if not os.fspath(path).strip():
            raise ValueError("the path of a store of runs must not be blank")
        self.path = Path(path)
        self.read_only = read_only
        self.synchronous = _checked_synchronous(synchronous)
        self._check_path()
        full = os.path.abspath(self.path)
        database = ReadOnlyFile(full, busy_seconds) if read_only else File(full, self.synchronous, busy_seconds)
        super().__init__(database, lease_seconds=lease_seconds, clock=clock, monotonic=monotonic)

    def _check_path(self) -> None:
        if str(self.path) == ":memory:":
            raise ValueError("':memory:' is no file; use InMemoryDurableStore for runs that need not last")
        if self.read_only and not self.path.is_file():
            raise FileNotFoundError(f"There is no store to read at {self.path}")
        if not self.path.absolute().parent.is_dir():
            raise FileNotFoundError(f"The directory of the store {self.path} does not exist; create it first")


class File:
    """A database file with one writing and one reading connection. A forked child gets its own pair."""

    def __init__(self, path: str, synchronous: str, busy_seconds: float) -> None:
        self._path = path
        self._synchronous = synchronous
        self._busy_seconds = busy_seconds
        self._reading = threading.Lock()
        self._inherited: list[object] = []
        self._open()

    def write(self, work: Work[T]) -> T:
        return self._present().call(work)

    def submit(self, work: Work[T]) -> Awaitable[T]:
        return self._present().submit(work)

    def read(self, work: Work[T]) -> T:
        self._present()
        with self._reading:
            return _snapshot(self._reader, work, self._path)

    def close(self) -> None:
        if self._pid != os.getpid():
            return
        self._writer.close()
        with self._reading:
            self._reader.close()

    @property
    def transactions(self) -> int:
        """How many transactions wrote something."""
        return self._writer.transactions

    def _present(self) -> Writer:
        if self._pid != os.getpid():
            # Closing what the parent still uses would drop its locks, so it is kept, unused.
            self._inherited += [self._writer, self._reader]
            self._reading = threading.Lock()
            self._open()
        return self._writer

    def _open(self) -> None:
        self._pid = os.getpid()
        try:
            _create_private(self._path)
            self._prepare()
            self._inode = _inode(self._path)
            self._writer = Writer(self._connect, lambda error: schema.translated(error, self._path), self._check_same)
            self._reader = self._connect()
        except sqlite3.Error as error:
            raise schema.translated(error, self._path) from error
        except OSError as error:
            raise StoreUnavailableError(
                f"The store {self._path} cannot be opened: {error}", store=self._path
            ) from error

    def _prepare(self) -> None:
        """Recognize the file, then make it ours. A foreign file is not even switched to WAL."""
        connection = _connect(self._path, "rw", self._busy_seconds)
        try:
            if _snapshot(connection, lambda db: schema.is_new(db, self._path), self._path):
                schema.create(connection, self._path)
            _switch_to_wal(connection, self._busy_seconds)
        finally:
            connection.close()

    def _connect(self) -> sqlite3.Connection:
        connection = _connect(self._path, "rw", self._busy_seconds)
        connection.execute(f"PRAGMA synchronous = {self._synchronous}")
        return connection

    def _check_same(self) -> None:
        """Writing into a file that was removed would look like success, and keep nothing."""
        if _inode(self._path) != self._inode:
            raise StoreUnavailableError(
                f"The store {self._path} was removed or replaced while it was open; restore it, then open it again",
                store=self._path,
            )


class ReadOnlyFile:
    """A database file that is only looked at. Each read has its own connection, and creates no file beside it.

    A file whose log is empty is opened as immutable, since SQLite would create the log's index otherwise. A writer that
    starts during such a read is noticed by what it changes, and the read is done again.
    """

    def __init__(self, path: str, busy_seconds: float) -> None:
        self._path = path
        self._busy_seconds = busy_seconds
        self.read(lambda db: _check_ours(db, path))

    def write(self, work: Work[T]) -> T:
        raise DurableExecutionError(
            f"The store {self._path} was opened read-only; open it without read_only to change runs"
        )

    def submit(self, work: Work[T]) -> Awaitable[T] | None:
        self.write(work)
        return None

    def read(self, work: Work[T]) -> T:
        for _ in range(8):
            before = self._marks()
            idle = not before[1]
            found, error = self._attempt(work, idle)
            if not idle or before == self._marks():
                break
        if error is not None:
            raise error
        assert found is not None
        return found[0]

    def close(self) -> None:
        """Nothing is kept open."""

    def _attempt(self, work: Work[T], idle: bool) -> tuple[tuple[T] | None, Exception | None]:
        try:
            connection = _connect(self._path, "ro&immutable=1" if idle else self._logged(), self._busy_seconds)
            try:
                return (_snapshot(connection, work, self._path),), None
            finally:
                connection.close()
        except sqlite3.Error as error:
            return None, schema.translated(error, self._path)
        except DurableExecutionError as error:
            return None, error

    def _marks(self) -> tuple[tuple[int, ...], int]:
        """What a writer changes: the file's identity, size and time, and whether there is a log."""
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise StoreUnavailableError(f"The store {self._path} cannot be read: {error}", store=self._path) from error
        return (found.st_ino, found.st_size, found.st_mtime_ns), _size(self._path + "-wal")

    def _logged(self) -> str:
        if not os.path.exists(self._path + "-shm"):
            raise StoreUnavailableError(
                f"The store {self._path} has a -wal file without its -shm file, as a copy has; open it once without "
                "read_only",
                store=self._path,
            )
        return "ro"


def _connect(path: str, mode: str, busy_seconds: float) -> sqlite3.Connection:
    uri = f"file:{quote(path)}?mode={mode}"
    found = sqlite3.connect(uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    found.text_factory = _text
    return found


def _text(raw: bytes) -> str | bytes:
    """What is no text stays bytes: one damaged row must not hide the others of a list."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _snapshot(connection: sqlite3.Connection, work: Work[T], path: str) -> T:
    try:
        connection.execute("BEGIN")
        try:
            return work(connection)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
    except sqlite3.Error as error:
        raise schema.translated(error, path) from error


def _check_ours(connection: sqlite3.Connection, path: str) -> None:
    if schema.is_new(connection, path):
        raise DurableExecutionError(f"The store {path} is empty; no run was ever stored in it")


def _create_private(path: str) -> None:
    """A new file that only its owner can read, before SQLite makes one that others can. Its log takes over the mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass


def _switch_to_wal(connection: sqlite3.Connection, patience: float) -> None:
    """SQLite does not wait by itself here when another process opens the file at the same moment.

    A file system without shared memory keeps another mode; commits are then slower and as safe.
    """
    end = time.monotonic() + patience
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if (error.sqlite_errorcode & 0xFF) != sqlite3.SQLITE_BUSY or time.monotonic() > end:
                raise
        time.sleep(0.01)


def _checked_synchronous(value: str) -> str:
    if value not in _SYNCHRONOUS:
        raise ValueError(f"synchronous must be one of {', '.join(_SYNCHRONOUS)}")
    return value


def _inode(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
