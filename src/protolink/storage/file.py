"""An SQLite file that only its owner can read, opened anew for every operation."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote


class PrivateFile:
    """The database ``path``; created with mode 0600, unless ``read_only``, which needs an existing file.

    ``:memory:`` would be empty at every operation: ValueError.
    """

    def __init__(self, path: str | os.PathLike[str], *, read_only: bool = False) -> None:
        self.path = os.fspath(path)
        self.read_only = read_only
        if self.path == ":memory:":
            raise ValueError("':memory:' would be forgotten after each operation; give the path of a file")
        if not read_only:
            _create(self.path)

    @contextmanager
    def connection(self) -> Iterator[sqlite3.Connection]:
        """A connection of one transaction, committed when the block ends well."""
        mode = "ro" if self.read_only else "rw"
        connection = sqlite3.connect(f"file:{quote(os.path.abspath(self.path))}?mode={mode}", uri=True)
        try:
            connection.execute("PRAGMA synchronous = NORMAL")
            with connection:
                yield connection
        finally:
            connection.close()


def _create(path: str) -> None:
    """Before SQLite makes a file that others can read. Its journal takes over the mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        pass


def checked_identifier(name: str, value: str) -> str:
    """A name that may stand in a statement. ValueError for anything that is no identifier."""
    if not isinstance(value, str) or not value.isidentifier():
        raise ValueError(f"{name} must be an identifier such as 'protolink', not {value!r}")
    return value
