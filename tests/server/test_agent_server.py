"""AgentServer: what it answers, once each, and how it stops."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from network_support import Desk, address, other_loop, serving, until, work

from protolink import (
    Agent,
    AgentClient,
    AgentServer,
    Artifact,
    Part,
    RuntimeTransport,
    Task,
    TaskAlreadyRunningError,
    TaskNotFoundError,
    TaskStatusUpdateEvent,
    TransportConfig,
    TransportConnectionError,
    TransportRemoteError,
)
from protolink.testing import FakeClock
from protolink.transport import RequestSpec, RouteCall
from protolink.transport.request import AGENT_CARD, CANCEL_TASK, SUBMIT_TASK


async def submit(server: AgentServer, task: Any, key: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = await RuntimeTransport(None).send(SUBMIT_TASK, server.url, task, idempotency_key=key)
    return found


async def streamed(server: AgentServer, task: Any, key: str | None = None) -> list[dict[str, Any]]:
    async with aclosing(RuntimeTransport(None).subscribe(server.url, task, idempotency_key=key)) as events:
        return [event async for event in events]


async def cancel(server: AgentServer, body: Any, key: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = await RuntimeTransport(None).send(CANCEL_TASK, server.url, body, idempotency_key=key)
    return found


class TestAnswers:
    async def test_card_is_the_agents(self) -> None:
        desk = Desk()
        async with serving(desk) as server:
            assert await RuntimeTransport(None).send(AGENT_CARD, server.url) == desk.card.to_dict()

    async def test_task_comes_back_as_it_ended(self) -> None:
        task = work()
        async with serving(Desk()) as server:
            found = Task.from_dict(await submit(server, task))
        assert (found.id, found.state.value, found.get_output()) == (task.id, "completed", "echo")
        assert task.state.value == "submitted"

    async def test_failed_task_is_an_answer(self) -> None:
        desk = Desk()
        desk.ends = lambda task: task.fail("it broke")
        async with serving(desk) as server:
            found = await submit(server, work())
        assert (found["state"], found["metadata"]["error"]) == ("failed", "it broke")

    async def test_refusal_that_ended_the_task_is_told_by_the_task(self) -> None:
        desk = Desk()

        def refuse(task: Task) -> None:
            task.fail("policy says no")
            raise RuntimeError("policy says no")

        desk.ends = refuse
        async with serving(desk) as server:
            assert (await submit(server, work()))["metadata"]["error"] == "policy says no"
            assert (await streamed(server, work()))[-1]["metadata"]["task"]["state"] == "failed"

    async def test_error_that_left_the_task_open_is_a_fault_without_its_text(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        desk = Desk()
        desk.raises = OSError("cannot read /srv/secret")
        async with serving(desk) as server:
            with pytest.raises(TransportRemoteError) as caught:
                await submit(server, work())
        assert (caught.value.status_code, caught.value.outcome_unknown) == (500, True)
        assert "OSError" in str(caught.value)
        assert "/srv" not in str(caught.value)
        assert "cannot read /srv/secret" in caplog.text

    async def test_task_that_runs_already_is_refused(self) -> None:
        desk = Desk()
        desk.raises = TaskAlreadyRunningError("running")
        async with serving(desk) as server:
            task = work()
            with pytest.raises(TaskAlreadyRunningError, match="running"):
                await submit(server, task, "k")
            desk.raises = None
            assert (await submit(server, task, "k"))["state"] == "completed"

    async def test_agent_that_returns_no_task_is_at_fault(self) -> None:
        class Odd(Desk):
            async def run_task(self, task: Task, /) -> Any:
                return "done"

        async with serving(Odd()) as server:
            with pytest.raises(TransportRemoteError, match="returned str in place of a task") as caught:
                await submit(server, work())
        assert caught.value.status_code == 500


class TestBadTasks:
    @pytest.mark.parametrize(
        ("body", "text"),
        [
            (None, "Task must be a JSON object"),
            ({}, "Task needs the member 'id'"),
            ([], "must be a JSON object, not list"),
            ("task", "not str"),
            ({"id": "t"}, "The task is empty"),
            ({"id": "t", "messages": [{"role": "user", "parts": []}]}, "The task is empty"),
            ({"id": " ", "messages": []}, "'id' must be nonblank"),
            ({"id": 7}, "'id' must be text"),
            ({"id": "t", "messages": {}}, "'messages' must be a list"),
            ({"id": "t", "state": "sleeping"}, "sleeping"),
            (work().complete("done").to_dict(), "has ended already"),
            (work().to_dict() | {"metadata": {"run_context": 7}}, "run_context"),
            (work().to_dict() | {"metadata": {"run_context": {"budget": {"max_steps": "many"}}}}, "max_steps"),
        ],
    )
    async def test_what_is_no_work_never_reaches_the_agent(self, body: Any, text: str) -> None:
        desk = Desk()
        async with serving(desk) as server:
            with pytest.raises(TransportRemoteError, match=text) as caught:
                await submit(server, body)
            assert (caught.value.status_code, caught.value.code) == (400, "bad_request")
            if body is not None:
                with pytest.raises(TransportRemoteError, match=text):
                    await streamed(server, body)
        assert desk.begun == []

    async def test_clients_do_not_testify_to_what_happened_here(self) -> None:
        task = Task.create_tool_call("add", {"x": 1})
        task.metadata |= {"run_events": [{"type": "action.completed"}], "blockers": 7, "interruption": {}, "mine": 1}
        agent = Agent(name="adder")

        @agent.tool
        def add(x: int) -> int:
            return x

        async with serving(agent) as server:
            done = await submit(server, task)
        assert done["metadata"]["mine"] == 1
        assert {"blockers", "interruption"}.isdisjoint(done["metadata"])
        assert [event["agent_name"] for event in done["metadata"]["run_events"]] == ["adder", "adder"]

    async def test_artifact_alone_is_work(self) -> None:
        task = Task(artifacts=[Artifact(parts=[Part.text("x")])])
        async with serving(Desk()) as server:
            assert (await submit(server, task))["state"] == "completed"

    @pytest.mark.parametrize("body", [None, {}, [], {"id": ""}, {"id": 3}, {"id": "t", "metadata": []}])
    async def test_cancellation_needs_an_id(self, body: Any) -> None:
        desk = Desk()
        async with serving(desk) as server:
            with pytest.raises(TransportRemoteError) as caught:
                await cancel(server, body)
        assert caught.value.status_code == 400
        assert desk.canceled == []


class TestOnce:
    async def test_same_key_and_body_run_once(self) -> None:
        desk = Desk()
        task = work()
        async with serving(desk) as server:
            first = await submit(server, task, "k")
            assert await submit(server, task, "k") == first
        assert desk.begun == [task.id]

    async def test_key_is_known_while_the_work_goes_on(self) -> None:
        desk = Desk(open=False)
        task = work()
        async with serving(desk) as server:
            both = [asyncio.ensure_future(submit(server, task, "k")) for _ in range(2)]
            await desk.reached.wait()
            desk.gate.set()
            first, second = await asyncio.gather(*both)
        assert first == second
        assert desk.begun == [task.id]

    async def test_other_body_under_the_same_key_is_refused(self) -> None:
        desk = Desk()
        async with serving(desk) as server:
            await submit(server, work("one"), "k")
            with pytest.raises(TransportRemoteError, match="Another body was sent") as caught:
                await submit(server, work("two"), "k")
        assert (caught.value.status_code, caught.value.code) == (409, "idempotency_conflict")
        assert len(desk.begun) == 1

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_key_belongs_to_the_caller_who_uses_it(self, streamed: bool) -> None:
        """Who sends the same as somebody else gets work of its own, and never the other one's answer."""
        desk, task = Desk(), work()
        ends: list[str] = []
        desk.ends = lambda task: ends.append("secret") or task.complete(f"secret {len(ends)}")
        answers = []
        async with serving(desk) as server, serving(Desk()) as one, serving(Desk()) as two:
            anybody = RuntimeTransport(server.url)  # the address of its server is not its own
            for caller in (one.transport, two.transport, anybody, RuntimeTransport(None), one.transport):
                client = AgentClient(caller)
                if streamed:
                    told = [event async for event in client.send_task_streaming(server.url, task)]
                    answers.append(Task.from_dict(told[-1]["metadata"]["task"]).get_output())
                else:
                    answers.append((await client.send_task(server.url, task)).get_output())
        assert answers == ["secret 1", "secret 2", "secret 3", "secret 3", "secret 1"]

    async def test_caller_is_not_told_that_another_one_used_its_key(self) -> None:
        desk = Desk()
        async with serving(desk) as server, serving(Desk()) as one, serving(Desk()) as two:
            for caller, text in ((one, "mine"), (two, "other")):
                await caller.transport.send(SUBMIT_TASK, server.url, work(text), idempotency_key="k")
        assert len(desk.begun) == 2

    async def test_answer_to_a_cancellation_is_the_callers_who_asked(self) -> None:
        desk, task = Desk(open=False), work()
        async with serving(desk) as server, serving(Desk()) as first, serving(Desk()) as second:
            running = asyncio.ensure_future(submit(server, task, "k"))
            await desk.reached.wait()
            one, two = AgentClient(first.transport), AgentClient(second.transport)
            canceled = await one.cancel_task(server.url, task.id)
            await running
            assert await one.cancel_task(server.url, task.id) == canceled
            with pytest.raises(TaskNotFoundError):
                await two.cancel_task(server.url, task.id)

    async def test_spelling_of_the_body_does_not_matter(self) -> None:
        desk = Desk()
        body = work().to_dict()
        async with serving(desk) as server:
            first = await submit(server, body, "k")
            assert await submit(server, dict(reversed(body.items())), "k") == first

    async def test_failure_is_remembered_too(self) -> None:
        desk = Desk()
        desk.raises = OSError("gone")
        task = work()
        async with serving(desk) as server:
            for _ in range(2):
                with pytest.raises(TransportRemoteError, match="OSError"):
                    await submit(server, task, "k")
        assert desk.begun == [task.id]

    async def test_without_a_key_every_request_is_new(self) -> None:
        desk = Desk()
        task = work()
        async with serving(desk) as server:
            await submit(server, task)
            await submit(server, task)
        assert desk.begun == [task.id] * 2

    async def test_answer_is_forgotten_after_its_time(self) -> None:
        desk, clock, task = Desk(), FakeClock(), work()
        async with serving(desk, config=TransportConfig(idempotency_ttl=60), clock=clock) as server:
            await submit(server, task, "k")
            clock.advance(59)
            await submit(server, task, "k")
            assert len(desk.begun) == 1
            clock.advance(1)
            await submit(server, task, "k")
            assert len(desk.begun) == 2

    async def test_latest_answers_are_kept(self) -> None:
        desk = Desk()
        tasks = [work() for _ in range(3)]
        async with serving(desk, config=TransportConfig(idempotency_cache_size=2)) as server:
            for task in tasks:
                await submit(server, task, task.id)
            for task in tasks[::-1]:
                await submit(server, task, task.id)
        assert desk.begun == [*(task.id for task in tasks), tasks[0].id]

    async def test_streamed_again_tells_the_end_alone(self) -> None:
        desk = Desk()
        task = work()
        async with serving(desk) as server:
            first = await streamed(server, task, "k")
            again = await streamed(server, task, "k")
            submitted = await submit(server, task, "k")
        assert len(again) == 1
        assert again[0]["final"]
        assert again[0]["metadata"]["task"] == first[-1]["metadata"]["task"] == submitted
        assert desk.begun == [task.id]

    async def test_stream_that_was_left_is_not_begun_again(self) -> None:
        desk = Desk(open=False)
        task = work()
        async with serving(desk) as server:
            async with aclosing(RuntimeTransport(None).subscribe(server.url, task, idempotency_key="k")) as events:
                await anext(events)
            assert (await submit(server, task, "k"))["state"] == "canceled"
        assert desk.begun == [task.id]


class TestStreams:
    async def test_last_event_is_the_final_status_with_the_task(self) -> None:
        task = work()
        async with serving(Desk()) as server:
            *before, last = await streamed(server, task)
        assert [event["type"] for event in before] == ["task_status_update", "task_progress"]
        assert not any(event.get("final") for event in before)
        assert (last["type"], last["new_state"], last["final"]) == ("task_status_update", "completed", True)
        assert Task.from_dict(last["metadata"]["task"]).get_output() == "echo"

    async def test_final_status_is_made_when_the_agent_gives_none(self) -> None:
        class Silent(Desk):
            async def handle_task_streaming(self, task: Task, /) -> AsyncGenerator[Any, None]:
                task.complete("quietly")
                yield TaskStatusUpdateEvent("another-task", "working", "completed", True)

        task = work()
        async with serving(Silent()) as server:
            other, last = await streamed(server, task)
        assert other["task_id"] == "another-task"
        assert (last["task_id"], last["new_state"], last["final"]) == (task.id, "completed", True)
        assert last["metadata"]["task"]["id"] == task.id

    async def test_task_waiting_for_input_ends_the_stream(self) -> None:
        desk = Desk()
        desk.ends = lambda task: task.require_input("which one?")
        async with serving(desk) as server:
            last = (await streamed(server, work()))[-1]
        assert (last["new_state"], last["metadata"]["task"]["state"]) == ("input-required", "input-required")

    async def test_stream_that_leaves_its_task_open_is_a_fault(self) -> None:
        class Torn(Desk):
            async def handle_task_streaming(self, task: Task, /) -> AsyncGenerator[Any, None]:
                task.begin()
                yield TaskStatusUpdateEvent(task.id, "submitted", "working")

        async with serving(Torn()) as server:
            with pytest.raises(TransportRemoteError, match="left the task working") as caught:
                await streamed(server, work())
        assert caught.value.outcome_unknown

    async def test_event_that_is_no_json_is_a_fault_and_ends_the_work(self) -> None:
        ended: list[str] = []

        class Odd(Desk):
            async def handle_task_streaming(self, task: Task, /) -> AsyncGenerator[Any, None]:
                try:
                    yield {"type": "task_progress", "task_id": object()}
                finally:
                    ended.append(task.id)

        task = work()
        async with serving(Odd()) as server:
            with pytest.raises(TransportRemoteError, match="TypeError"):
                await streamed(server, task)
        assert ended == [task.id]


class TestCancel:
    async def test_canceled_task_is_the_answer(self) -> None:
        desk = Desk(open=False)
        task = work()
        async with serving(desk) as server:
            running = asyncio.ensure_future(submit(server, task))
            await desk.reached.wait()
            found = await cancel(server, {"id": task.id, "metadata": {"reason": "enough", "by": "me"}})
            assert (found["state"], found["metadata"]["cancel_reason"]) == ("canceled", "enough")
            assert (await running)["state"] == "canceled"
        assert desk.canceled[0].metadata == {"reason": "enough", "by": "me"}

    async def test_asking_again_after_a_lost_answer_gets_it_again(self) -> None:
        desk = Desk(open=False)
        task = work()
        body = {"id": task.id, "metadata": {"reason": "enough"}}
        async with serving(desk) as server:
            running = asyncio.ensure_future(submit(server, task))
            await desk.reached.wait()
            first = await cancel(server, body, task.id)
            await running
            assert await cancel(server, body, task.id) == first
            with pytest.raises(TaskNotFoundError):
                await cancel(server, {"id": task.id, "metadata": {"reason": "other"}}, task.id)

    async def test_cancellation_that_found_nothing_can_come_again(self) -> None:
        desk = Desk(open=False)
        task = work()
        async with serving(desk) as server:
            with pytest.raises(TaskNotFoundError):
                await cancel(server, {"id": task.id}, task.id)
            running = asyncio.ensure_future(submit(server, task))
            await desk.reached.wait()
            assert (await cancel(server, {"id": task.id}, task.id))["state"] == "canceled"
            await running

    async def test_earlier_answer_never_stands_for_a_task_that_runs(self) -> None:
        desk = Desk(open=False)
        task = work()
        async with serving(desk) as server:
            for _ in range(2):
                running = asyncio.ensure_future(submit(server, task))
                await until(lambda: task.id in desk._tasks)
                await cancel(server, {"id": task.id}, task.id)
                assert (await running)["state"] == "canceled"
        assert len(desk.canceled) == 2


class TestLifecycle:
    async def test_starting_and_stopping_twice_is_harmless(self) -> None:
        server = AgentServer(Desk(), RuntimeTransport(address()))
        await server.stop()
        await server.start()
        await server.start()
        assert server.running
        await server.stop()
        await server.stop()
        assert not server.running

    async def test_server_that_could_not_start_is_not_running(self) -> None:
        async with serving(Desk()) as first:
            second = AgentServer(Desk(), RuntimeTransport(first.url))
            with pytest.raises(TransportConnectionError):
                await second.start()
            assert not second.running
        await second.start()
        assert (await submit(second, work()))["state"] == "completed"
        await second.stop()

    async def test_server_can_start_again_elsewhere(self) -> None:
        desk = Desk(open=False)
        server = AgentServer(desk, RuntimeTransport(address(), config=TransportConfig(shutdown_timeout=0)))
        await server.start()
        running = asyncio.ensure_future(submit(server, work()))
        await desk.reached.wait()
        await server.stop()
        await running
        desk.gate = asyncio.Event()
        desk.gate.set()
        with other_loop() as other:
            other.run(server.start())
            assert (await submit(server, work()))["state"] == "completed"
            await server.stop()
            assert not server.running

    async def test_server_of_a_loop_that_has_ended_can_be_stopped(self) -> None:
        server = AgentServer(Desk(), RuntimeTransport(address()))
        with other_loop() as other:
            other.run(server.start())
        await server.stop()
        await server.start()
        assert (await submit(server, work()))["state"] == "completed"
        await server.stop()

    async def test_running_tasks_may_end_before_the_stop(self) -> None:
        desk = Desk(open=False)
        async with serving(desk, config=TransportConfig(shutdown_timeout=3600)) as server:
            running = asyncio.ensure_future(submit(server, work()))
            await desk.reached.wait()
            stopping = asyncio.ensure_future(server.stop())
            await asyncio.sleep(0)
            with pytest.raises(TransportRemoteError, match="is stopping") as caught:
                await submit(server, work())
            assert caught.value.retryable
            desk.gate.set()
            assert (await running)["state"] == "completed"
            await stopping
        assert desk.canceled == []

    async def test_task_can_be_canceled_while_the_server_stops(self) -> None:
        desk = Desk(open=False)
        task = work()
        async with serving(desk, config=TransportConfig(shutdown_timeout=3600)) as server:
            running = asyncio.ensure_future(submit(server, task))
            await desk.reached.wait()
            stopping = asyncio.ensure_future(server.stop())
            await asyncio.sleep(0)
            await cancel(server, {"id": task.id})
            assert (await running)["state"] == "canceled"
            await stopping

    @pytest.mark.parametrize("live", [False, True], ids=["submitted", "streamed"])
    async def test_tasks_that_do_not_end_come_back_canceled(self, live: bool) -> None:
        desk = Desk(open=False)
        task = work()
        async with serving(desk, config=TransportConfig(shutdown_timeout=0)) as server:
            running = asyncio.ensure_future(streamed(server, task) if live else submit(server, task))
            await desk.reached.wait()
            await server.stop()
            found: Any = await running
        ended = found[-1]["metadata"]["task"] if live else found
        assert (ended["state"], ended["metadata"]["cancel_reason"]) == ("canceled", "The server is stopping")

    async def test_agent_that_cannot_cancel_is_cut_off(self) -> None:
        class Stubborn(Desk):
            async def cancel_task(self, task_id: Any, /) -> Task:
                raise TaskNotFoundError("never heard of it")

        desk = Stubborn(open=False)
        server = AgentServer(desk, RuntimeTransport(address(), config=TransportConfig(shutdown_timeout=0)))
        server._tasks._settle_seconds = 0.0
        await server.start()
        running = asyncio.ensure_future(submit(server, work()))
        await desk.reached.wait()
        await server.stop()
        with pytest.raises(TransportRemoteError, match="stopped in the middle") as caught:
            await running
        assert caught.value.outcome_unknown
        assert desk._tasks == {}

    @pytest.mark.parametrize("transport", ["runtime", None, RuntimeTransport])
    def test_transport_is_an_object(self, transport: Any) -> None:
        with pytest.raises(TypeError, match="needs a Transport"):
            AgentServer(Desk(), transport)

    def test_transport_needs_an_address(self) -> None:
        with pytest.raises(ValueError, match="needs a transport with a url"):
            AgentServer(Desk(), RuntimeTransport(None))


class TestTable:
    async def test_further_operations_can_be_added_before_the_start(self) -> None:
        describe = RequestSpec("POST", "/state/describe")

        async def answer(call: RouteCall) -> Any:
            return {"modules": call.body}

        server = AgentServer(Desk(), RuntimeTransport(address()))
        server.routes.add(describe, answer)
        await server.start()
        assert await RuntimeTransport(None).send(describe, server.url, ["task"]) == {"modules": ["task"]}
        await server.stop()

    def test_operation_is_answered_once(self) -> None:
        server = AgentServer(Desk(), RuntimeTransport(address()))
        with pytest.raises(ValueError, match="POST /tasks/ is answered already"):
            server.routes.add(SUBMIT_TASK, server._tasks.submit)


class TestRealAgent:
    async def test_tool_runs_over_the_wire(self) -> None:
        agent = Agent(name="adder")

        @agent.tool
        def add(x: int, y: int) -> int:
            return x + y

        async with serving(agent) as server:
            done = Task.from_dict(await submit(server, Task.create_tool_call("add", {"x": 1, "y": 2})))
            last = (await streamed(server, Task.create_tool_call("add", {"x": 3, "y": 4})))[-1]
        assert done.get_output() == 3
        assert Task.from_dict(last["metadata"]["task"]).get_output() == 7
