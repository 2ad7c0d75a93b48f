"""What is stored, folded into what applications read; and what they changed in it, as a fact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..engine.facts import Adopted, Record, RunStarted
from ..engine.fold import fold
from ..engine.state import Run
from ..engine.view import child_status, child_view, view
from ..errors import DurableExecutionError, StoreCorruptError
from ..models import json
from ..models.value import dataclass
from . import codec, rows
from .codec import SCHEMA_VERSION
from .contract import RunCheckpoint
from .rows import Batch, RunRow

_ACTION_REPAIRS = frozenset({"state", "result", "error"})
_REPAIRED_STATES = ("succeeded", "failed")


@dataclass(frozen=True, slots=True)
class Stored:
    """A run's row and the facts it is folded from. A child's facts are its root's; ``root`` is then the root's row."""

    row: RunRow
    batches: Sequence[Batch]
    root: RunRow | None = None

    @property
    def keeper(self) -> RunRow:
        """The row that the facts belong to."""
        return self.root or self.row


def facts(stored: Stored) -> list[Any]:
    """The encoded facts as JSON values. StoreCorruptError when one is no JSON."""
    lines = [line for batch in stored.batches for line in batch.body.split(b"\n")]
    try:
        return [json.loads(line) for line in lines]
    except ValueError as error:
        raise rows.corrupt(stored.keeper, "a fact", f"no JSON: {error}") from error


def records(stored: Stored) -> list[Record]:
    """The facts, decoded. DurableExecutionError when a newer protolink wrote the run, else StoreCorruptError."""
    return _records(stored.keeper, facts(stored))


def _records(row: RunRow, values: Sequence[Any]) -> list[Record]:
    if row.schema > SCHEMA_VERSION:
        raise DurableExecutionError(
            f"Run '{row.run_id}' was written by a newer protolink: its schema is {row.schema}, this one reads up to "
            f"{SCHEMA_VERSION}. Upgrade protolink."
        )
    try:
        found = [codec.from_value(value, schema=row.schema) for value in values]
    except StoreCorruptError as error:
        raise rows.corrupt(row, "a fact", str(error)) from error
    if found and not isinstance(found[0].fact, RunStarted):
        raise rows.corrupt(row, "its first fact", "it is not the start of a run")
    return found


def checkpoint(stored: Stored) -> RunCheckpoint:
    """The run as applications read it, detached."""
    row = stored.row
    if not stored.batches:
        return RunCheckpoint(row.run_id, row.agent_name, row.status, _document(row))
    values = facts(stored)
    run = fold(_records(stored.keeper, values))
    if stored.root is not None:
        return _child(row, run)
    # The view holds parts of the decoded facts; a change to one must not change the other.
    return RunCheckpoint(row.run_id, row.agent_name, row.status, {**json.plain(view(run)), "facts": values})


def _child(row: RunRow, run: Run) -> RunCheckpoint:
    """A child's row is a pointer. Before its first fact that is all there is; ``facts`` stay with the root."""
    shown = child_view(run, row.run_id)
    if shown is None:
        return RunCheckpoint(row.run_id, row.agent_name, row.status, _document(row))
    status = child_status(run, row.run_id)
    return RunCheckpoint(row.run_id, row.agent_name, status, {**_document(row), **shown})


def damaged(row: RunRow, error: DurableExecutionError) -> RunCheckpoint:
    """What a list shows for a run that cannot be read."""
    run_id, name, status = (
        text if isinstance(text, str) else repr(text) for text in (row.run_id, row.agent_name, row.status)
    )
    return RunCheckpoint(run_id, name, status, {"version": row.schema, "error": str(error)})


def _document(row: RunRow) -> dict[str, Any]:
    try:
        found: Any = json.loads(row.document) if row.document is not None else {}
    except ValueError as error:
        raise rows.corrupt(row, "its document", f"no JSON: {error}") from error
    if not isinstance(found, dict):
        raise rows.corrupt(row, "its document", "no JSON object")
    return found


def news(stored: Stored, data: dict[str, Any], at: float) -> list[Record]:
    """The records that saving ``data`` means: its facts beyond the stored ones, or one Adopted for edits of the view.

    DurableExecutionError naming the key for an edit that cannot be taken over.
    """
    kept, given = facts(stored), data.get("facts")
    if given is not None and given[: len(kept)] != kept:
        raise DurableExecutionError("'facts' were changed; stored facts stay as they are")
    if given is not None and len(given) > len(kept):
        return _records(stored.row, given)[len(kept) :]
    run = fold(_records(stored.row, kept))
    before = json.plain(view(run))
    after = {key: value for key, value in data.items() if key != "facts"}
    if after == before:
        return []
    return [Record(run.n, run.seq, at, _adopted(before, after))]


def _adopted(before: dict[str, Any], after: dict[str, Any]) -> Adopted:
    for key in sorted(before.keys() | after.keys() - {"actions", "usage", "task"}):
        if key not in ("actions", "usage", "task") and before.get(key) != after.get(key):
            raise _refused(key)
    return Adopted(
        actions=_repaired(before["actions"], _mapping(after, "actions")),
        usage=_mapping(after, "usage") if after.get("usage") != before["usage"] else None,
        metadata=_metadata(before["task"], _mapping(after, "task")),
    )


def _mapping(data: dict[str, Any], key: str) -> dict[str, Any]:
    found = data.get(key)
    if not isinstance(found, dict):
        raise _refused(key)
    return found


def _metadata(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any] | None:
    for key in sorted(before.keys() | after.keys()):
        if key != "metadata" and before.get(key) != after.get(key):
            raise _refused(f"task.{key}")
    return None if before["metadata"] == after.get("metadata") else _mapping(after, "metadata")


def _repaired(before: dict[str, Any], after: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Changed state, result and error by action id."""
    if before.keys() != after.keys():
        raise _refused("actions")
    found = {}
    for key, entry in before.items():
        changed = {name for name in entry.keys() | after[key].keys() if entry.get(name) != after[key].get(name)}
        if not changed:
            continue
        if changed - _ACTION_REPAIRS:
            raise _refused(f"actions.{key}.{min(changed - _ACTION_REPAIRS)}")
        if after[key].get("state") not in _REPAIRED_STATES:
            raise _refused(f"actions.{key}.state", "; it can be set to succeeded or failed")
        found[_action_id(key, entry)] = {name: after[key][name] for name in _ACTION_REPAIRS if name in after[key]}
    return found


def _action_id(key: str, entry: dict[str, Any]) -> str:
    return str(entry["action"]["action_id"])


def _refused(key: str, hint: str = "") -> DurableExecutionError:
    return DurableExecutionError(
        f"'{key}' of a stored run cannot be edited{hint}. State, result and error of its actions, usage and the task's "
        "metadata can; everything else follows from the stored facts."
    )
