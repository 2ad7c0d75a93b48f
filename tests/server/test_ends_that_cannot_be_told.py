"""Results that have no JSON form are told by their text, and work that cannot be told holds up nobody."""

from __future__ import annotations

import asyncio

import pytest
from network_support import Desk, address, serving, work

from protolink import Agent, AgentClient, Task, TransportConfig, TransportRemoteError


class Thing:
    def __str__(self) -> str:
        return "a thing"

    __repr__ = __str__


def make() -> Thing:
    return Thing()


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_result_without_json_is_told_by_its_text(streamed: bool) -> None:
    async with serving(Agent(name="maker", tools=[make])) as server:
        client, task = AgentClient("runtime"), Task.create_tool_call("make")
        if streamed:
            events = [event async for event in client.send_task_streaming(server.url, task)]
            done = Task.from_dict(events[-1]["metadata"]["task"])
        else:
            done = await client.send_task(server.url, task)
    assert (done.state.value, done.get_output()) == ("completed", "a thing")


async def test_a_task_that_cannot_be_told_is_the_agents_fault_and_the_server_is_free_again() -> None:
    desk = Desk()
    desk.ends = lambda task: task.complete("echo").metadata.update(thing=Thing())
    config = TransportConfig(shutdown_timeout=1_000_000)
    async with serving(desk, address(), config=config) as server:
        task = work()
        for _ in range(2):  # the second one asks for the same work, and is told the same
            with pytest.raises(TransportRemoteError, match="TypeError") as caught:
                await AgentClient("runtime").send_task(server.url, task)
            assert caught.value.outcome_unknown
    assert desk.begun == [task.id]


@pytest.mark.parametrize("streamed", [True, False])
async def test_a_task_that_the_agent_leaves_open_is_the_agents_fault(streamed: bool) -> None:
    desk = Desk()
    desk.ends = lambda task: task.begin()
    async with serving(desk, address()) as server:
        client = AgentClient("runtime")
        with pytest.raises(TransportRemoteError, match="has left the task working") as caught:
            if streamed:
                async for _ in client.send_task_streaming(server.url, work()):
                    pass
            else:
                await client.send_task(server.url, work())
    assert caught.value.outcome_unknown


async def test_work_that_is_cut_off_with_an_end_that_cannot_be_told_leaves_nobody_waiting() -> None:
    desk = Desk(open=False)
    config = TransportConfig(shutdown_timeout=1_000_000)
    async with serving(desk, address(), config=config) as server:
        client, task = AgentClient("runtime"), work()
        task_there = asyncio.ensure_future(_leave_early(client, server.url, task, desk))
        await desk.reached.wait()
        desk._tasks[task.id][0].metadata["thing"] = Thing()
        again = asyncio.ensure_future(client.send_task(server.url, task))
        await asyncio.sleep(0)
        task_there.cancel()
        with pytest.raises(TransportRemoteError):
            await again


async def _leave_early(client: AgentClient, url: str, task: Task, desk: Desk) -> None:
    async for _ in client.send_task_streaming(url, task):
        pass
