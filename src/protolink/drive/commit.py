"""A commit under way: it cannot be taken back, so waiting for it cannot be cut off either."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")


class Commit(asyncio.Future[T]):
    """Tells how a commit went. A task that waits for it and is canceled gets its CancelledError when that is known."""

    def cancel(self, msg: Any = None) -> bool:
        return False


def undisturbed(work: Awaitable[T]) -> Commit[T]:
    """The commit that ``work`` makes, whatever happens to those who wait for it."""
    if isinstance(work, Commit):
        return work
    task = asyncio.ensure_future(work)
    commit: Commit[T] = Commit(loop=task.get_loop())
    task.add_done_callback(lambda task: _settle(commit, task))
    return commit


def _settle(commit: Commit[T], task: asyncio.Future[T]) -> None:
    error = asyncio.CancelledError() if task.cancelled() else task.exception()
    if error is None:
        commit.set_result(task.result())
    else:
        commit.set_exception(error)
