"""The statements on the tables. Each runs inside a transaction that its caller opened; none decides what it is for.

Ownership is checked by the very statement that writes, so no write of a former owner can slip in between.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import fields
from types import NoneType
from zlib import crc32

from ..errors import DurableExecutionError, RunBusyError, StoreCorruptError
from ..models.value import dataclass
from .codec import SCHEMA_VERSION
from .lease import Lease
from .owner import Owner

FINISHED = ("completed", "failed", "canceled")

#: SQLite's own limit for one value is a little above this.
MAX_BODY = 999_000_000


@dataclass(frozen=True, slots=True)
class RunRow:
    """One row of ``protolink_runs``. Times are Unix seconds; ``owner`` is the token, None when nobody owns the run.

    ``document`` is the JSON of a run that has no facts: a pointer, or data that an application keeps here itself.
    ``next_n`` is the number of the next fact, None before the first.
    """

    number: int
    run_id: str
    agent_name: str
    status: str
    root_run_id: str | None
    schema: int
    epoch: int
    owner: str | None
    owner_identity: str | None
    lease_expires: float
    lease_seconds: float
    heartbeat: int
    created_at: float
    updated_at: float
    next_n: int | None
    document: str | None

    @property
    def lease(self) -> Lease:
        identity = Owner.from_text(self.owner_identity)
        return Lease(self.epoch, self.heartbeat, identity, self.lease_expires, self.lease_seconds)


@dataclass(frozen=True, slots=True)
class Claim:
    """What a new owner writes."""

    token: str
    identity: str
    seconds: float
    now: float


@dataclass(frozen=True, slots=True)
class Batch:
    """Encoded facts, one a line. ``n`` is the number of the first, ``count`` how many."""

    n: int
    count: int
    body: bytes


_NAMES = [field.name for field in fields(RunRow)]
_COLUMNS = ", ".join(_NAMES)
_TEXT, _MAYBE_TEXT, _NUMBER = (str,), (str, NoneType), (int, float)
#: What is read from a row; a broken identity is one that cannot be compared.
_KINDS: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("run_id", "agent_name", "status"), _TEXT),
    **dict.fromkeys(("root_run_id", "document"), _MAYBE_TEXT),
    **dict.fromkeys(("schema", "epoch", "heartbeat"), (int,)),
    **dict.fromkeys(("lease_expires", "lease_seconds"), _NUMBER),
}
#: Everything but the number, which SQLite gives.
_INSERT = f"INSERT INTO protolink_runs ({', '.join(_NAMES[1:])}) VALUES ({', '.join('?' * len(_NAMES[1:]))})"


def find(db: sqlite3.Connection, run_id: str) -> RunRow | None:
    found = db.execute(f"SELECT {_COLUMNS} FROM protolink_runs WHERE run_id = ?", (run_id,)).fetchone()
    if found is None:
        return None
    row = RunRow(*found)
    check(row)
    return row


def check(row: RunRow) -> None:
    """StoreCorruptError when a column holds what never was written there; SQLite takes any value in any column."""
    for name, kinds in _KINDS.items():
        if not isinstance(getattr(row, name), kinds):
            raise corrupt(row, f"its record ({name})", f"it is {type(getattr(row, name)).__name__}")


def roots(db: sqlite3.Connection, status: str | None, agent_name: str | None, limit: int) -> list[RunRow]:
    """Runs that are nobody's child, the newest first; unchecked."""
    wanted = ["root_run_id IS NULL"]
    if status is not None:
        # The index of states is used where the query says, word for word, that it leaves nothing out.
        wanted.append("status = :status" if status == "working" else "status = :status AND status <> 'working'")
    if agent_name is not None:
        wanted.append("agent_name = :agent_name")
    found = db.execute(
        f"SELECT {_COLUMNS} FROM protolink_runs WHERE {' AND '.join(wanted)} ORDER BY number DESC LIMIT :limit",
        {"status": status, "agent_name": agent_name, "limit": limit},
    )
    return [RunRow(*row) for row in found]


def insert(
    db: sqlite3.Connection, run_id: str, agent_name: str, claim: Claim, document: str, root_run_id: str | None
) -> RunRow:
    """A new run, owned. Its epoch is above those of every run that was deleted, so a used id never repeats one."""
    epoch = db.execute("SELECT max(highest_deleted) FROM protolink_epochs").fetchone()[0] + 1
    values = (
        *(run_id, agent_name, "ready", root_run_id, SCHEMA_VERSION, epoch, claim.token, claim.identity),
        *(claim.now + claim.seconds, claim.seconds, 0, claim.now, claim.now, None, document),
    )
    number = db.execute(_INSERT, values).lastrowid
    assert number is not None
    return RunRow(number, *values)


def take(db: sqlite3.Connection, row: RunRow, claim: Claim) -> RunRow:
    """A new owner for a free or abandoned run."""
    db.execute(
        "UPDATE protolink_runs SET epoch = epoch + 1, owner = ?, owner_identity = ?, lease_expires = ?,"
        " lease_seconds = ?, heartbeat = heartbeat + 1 WHERE number = ?",
        (claim.token, claim.identity, claim.now + claim.seconds, claim.seconds, row.number),
    )
    taken = find(db, row.run_id)
    assert taken is not None
    return taken


def owned(db: sqlite3.Connection, run_id: str, token: str) -> RunRow:
    """The row, when the token is its owner's. Else RunBusyError."""
    row = find(db, run_id)
    if row is None or row.owner != token:
        raise lost(run_id, row)
    return row


def lost(run_id: str, row: RunRow | None) -> RunBusyError:
    """Says what became of an ownership that was presented."""
    if row is None:
        return RunBusyError(f"Lease lost: run '{run_id}' is no longer stored")
    if row.owner is None:
        return RunBusyError(f"Lease lost: run '{run_id}' was released; acquire it again")
    return RunBusyError(f"Lease lost: another worker took run '{run_id}' over", until=row.lease_expires)


def append(db: sqlite3.Connection, row: RunRow, batch: Batch, status: str, now: float) -> None:
    """Add a batch and renew the lease, as the owner in ``row``.

    Storing the same batch again succeeds, so a commit whose answer was lost can be repeated. RunBusyError when the
    ownership is gone, DurableExecutionError when the batch is not the next one.
    """
    if len(batch.body) > MAX_BODY:
        raise DurableExecutionError(
            f"Run '{row.run_id}': {len(batch.body)} bytes are too many for one commit (at most {MAX_BODY})"
        )
    updated = db.execute(
        "UPDATE protolink_runs SET status = ?1, lease_expires = ?2 + lease_seconds, heartbeat = heartbeat + 1,"
        " updated_at = ?2, next_n = ?3, document = NULL"
        " WHERE number = ?4 AND owner = ?5 AND epoch = ?6 AND (next_n IS NULL OR next_n = ?7)",
        (status, now, batch.n + batch.count, row.number, row.owner, row.epoch, batch.n),
    )
    if updated.rowcount == 1:
        values = (place(row.number, batch.n), batch.body, checksum(row.run_id, batch))
        db.execute("INSERT INTO protolink_facts VALUES (?, ?, ?)", values)
    else:
        _check_repeated(db, row, batch)


def touch(db: sqlite3.Connection, row: RunRow, status: str | None, now: float) -> None:
    """Renew the lease; ``status`` None leaves it as it is. RunBusyError when the ownership is gone."""
    updated = db.execute(
        "UPDATE protolink_runs SET status = coalesce(?1, status), lease_expires = ?2 + lease_seconds,"
        " heartbeat = heartbeat + 1, updated_at = iif(?1 IS NULL, updated_at, ?2)"
        " WHERE number = ?3 AND owner = ?4 AND epoch = ?5",
        (status, now, row.number, row.owner, row.epoch),
    )
    if updated.rowcount != 1:
        raise lost(row.run_id, find(db, row.run_id))


def put_document(db: sqlite3.Connection, row: RunRow, status: str, document: str, now: float) -> None:
    """Replace the data of a run without facts, and renew the lease."""
    touch(db, row, status, now)
    db.execute("UPDATE protolink_runs SET document = ? WHERE number = ?", (document, row.number))


def release(db: sqlite3.Connection, run_id: str, token: str) -> None:
    db.execute(
        "UPDATE protolink_runs SET owner = NULL, owner_identity = NULL, lease_expires = 0"
        " WHERE run_id = ? AND owner = ?",
        (run_id, token),
    )


def batches(db: sqlite3.Connection, row: RunRow) -> list[Batch]:
    """All facts of the run, still encoded. StoreCorruptError when one is missing or is not what was written."""
    found = list(_batches(db, row))
    end = found[-1].n + found[-1].count if found else None
    if end != row.next_n:
        raise corrupt(row, f"fact {end}", f"stored facts end before {end}, and {row.next_n} were written")
    return found


def _batches(db: sqlite3.Connection, row: RunRow) -> Iterator[Batch]:
    expected: int | None = None
    stored = db.execute(
        "SELECT place, body, checksum FROM protolink_facts WHERE place BETWEEN ? AND ? ORDER BY place",
        (place(row.number, 0), place(row.number + 1, 0) - 1),
    )
    # All at once: a cursor that an error's traceback keeps alive would keep the connection in this old snapshot.
    for key, body, written in stored.fetchall():
        n = key - place(row.number, 0)
        body = body if isinstance(body, bytes) else str(body).encode()
        batch = Batch(n, body.count(b"\n") + 1, body)
        if checksum(row.run_id, batch) != written:
            raise corrupt(row, f"fact {n}", "its checksum does not fit")
        if expected is not None and n != expected:
            raise corrupt(row, f"fact {expected}", "it is missing")
        expected = n + batch.count
        yield batch


def corrupt(row: RunRow, where: str, reason: str) -> StoreCorruptError:
    text = f"Run '{row.run_id}' is damaged at {where}: {reason}. Other runs of the store can still be read."
    return StoreCorruptError(text, run_id=row.run_id, place=where)


def place(number: int, n: int) -> int:
    """The key of a batch: all of a run lie side by side, in order."""
    return (number << 32) | n


def checksum(run_id: str, batch: Batch) -> int:
    """Covers where the batch belongs, too: a batch in another's place is as wrong as a changed one."""
    return crc32(batch.body, crc32(f"{run_id}\n{batch.n}\n".encode()))


def delete(db: sqlite3.Connection, selected: Sequence[RunRow]) -> None:
    """Forget runs with their facts and the pointers of their children."""
    for row in selected:
        pointers = db.execute("SELECT number FROM protolink_runs WHERE root_run_id = ?", (row.run_id,)).fetchall()
        for (number,) in [*pointers, (row.number,)]:
            db.execute(
                "UPDATE protolink_epochs SET highest_deleted ="
                " max(highest_deleted, (SELECT epoch FROM protolink_runs WHERE number = ?))",
                (number,),
            )
            bounds = (place(number, 0), place(number + 1, 0) - 1)
            db.execute("DELETE FROM protolink_facts WHERE place BETWEEN ? AND ?", bounds)
            db.execute("DELETE FROM protolink_runs WHERE number = ?", (number,))


def finished_before(db: sqlite3.Connection, before: float) -> list[RunRow]:
    """Finished roots that nobody owns and nothing was written to since ``before`` (Unix seconds)."""
    marks = ", ".join("?" * len(FINISHED))
    found = db.execute(
        f"SELECT {_COLUMNS} FROM protolink_runs WHERE root_run_id IS NULL AND owner IS NULL"
        f" AND updated_at < ? AND status IN ({marks})",
        (before, *FINISHED),
    )
    return [RunRow(*row) for row in found]


def _check_repeated(db: sqlite3.Connection, row: RunRow, batch: Batch) -> None:
    """Nothing was updated: refused, out of place, or stored before."""
    stored = find(db, row.run_id)
    if stored is None or (stored.owner, stored.epoch) != (row.owner, row.epoch):
        raise lost(row.run_id, stored)
    key = (place(row.number, batch.n),)
    found = db.execute("SELECT body FROM protolink_facts WHERE place = ?", key).fetchone()
    if found is None or found[0] != batch.body:
        raise DurableExecutionError(
            f"Run '{row.run_id}': fact {batch.n} was to be appended, and {stored.next_n} is the next one"
        )
