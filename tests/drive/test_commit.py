"""Waiting for a commit: a cancellation is told of when it is known how the commit went."""

from __future__ import annotations

import asyncio

import pytest

from protolink.drive.commit import Commit, undisturbed


async def canceled_while_waiting(commit: Commit[str], finish: object) -> str:
    """Cancels a task that waits; returns what the task knew when its cancellation reached it."""

    async def wait() -> str:
        try:
            return await commit
        except asyncio.CancelledError:
            return f"canceled, {commit.result()}"

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    finish.set_result("stored")  # type: ignore[attr-defined]
    return await task


def test_a_canceled_waiter_hears_how_it_went_first() -> None:
    async def scene() -> str:
        commit: Commit[str] = Commit()
        return await canceled_while_waiting(commit, commit)

    assert asyncio.run(scene()) == "canceled, stored"


def test_any_work_can_be_made_undisturbed() -> None:
    async def scene() -> str:
        inner: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def work() -> str:
            return await inner

        return await canceled_while_waiting(undisturbed(work()), inner)

    assert asyncio.run(scene()) == "canceled, stored"


def test_an_error_of_the_work_is_the_commits() -> None:
    async def work() -> str:
        raise OSError("the disk is full")

    async def scene() -> str:
        return await undisturbed(work())

    with pytest.raises(OSError, match="the disk is full"):
        asyncio.run(scene())


def test_a_commit_is_taken_as_it_is() -> None:
    async def scene() -> bool:
        commit: Commit[None] = Commit()
        same = undisturbed(commit) is commit
        commit.set_result(None)
        return same

    assert asyncio.run(scene())
