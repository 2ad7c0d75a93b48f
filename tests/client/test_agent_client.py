"""AgentClient: tasks go out once, come back as they ended, and can be canceled from anywhere."""

from __future__ import annotations

import asyncio
import threading
from contextlib import aclosing
from typing import Any

import pytest
from network_support import Desk, WatchedTransport, address, card, other_loop, serving, until, work

from protolink import (
    Agent,
    AgentClient,
    Message,
    Part,
    RetryPolicy,
    RuntimeTransport,
    Task,
    TaskAlreadyRunningError,
    TaskExecutionError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TransportConfig,
    TransportConnectionError,
    TransportProtocolError,
    TransportRemoteError,
    TransportTimeoutError,
)
from protolink.llms import MockLLM
from protolink.testing import FakeClock


class Waiting:
    """An agent whose only tool waits until somebody stops it. ``reached`` may be watched from any thread."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.agent = Agent(name="worker", tools=[self.wait])

    async def wait(self) -> str:
        self.reached.set()
        await asyncio.Event().wait()
        return "never"


def waiting_task() -> Task:
    return Task.create_tool_call("wait")


class TestCancel:
    @pytest.mark.claim("NET-001", "NET-008")
    async def test_remote_cancel_over_the_runtime_transport_returns_the_updated_task(self) -> None:
        waiting, task = Waiting(), waiting_task()
        async with serving(waiting.agent) as server:
            client = AgentClient("runtime")
            running = asyncio.ensure_future(client.send_task(server.url, task))
            await until(waiting.reached.is_set)
            canceled = await client.cancel_task(server.url, task.id, reason="Stopped from the application")
            await running
        assert isinstance(canceled, Task)
        assert (canceled.id, canceled.state.value) == (task.id, "canceled")
        assert canceled.metadata["cancel_reason"] == "Stopped from the application"
        assert task.state.value == "submitted"

    @pytest.mark.claim("NET-010")
    async def test_send_task_of_a_remotely_canceled_task_returns_it_canceled(self) -> None:
        waiting, task = Waiting(), waiting_task()
        async with serving(waiting.agent) as server:
            client = AgentClient("runtime")
            running = asyncio.ensure_future(client.send_task(server.url, task))
            await until(waiting.reached.is_set)
            await AgentClient("runtime").cancel_task(server.url, task.id, reason="enough")
            result = await running
        assert (result.id, result.state.value) == (task.id, "canceled")
        assert result.metadata["cancel_reason"] == "enough"

    @pytest.mark.claim("NET-002")
    async def test_cancel_is_one_post_to_tasks_cancel(self) -> None:
        desk, task = Desk(open=False), work()
        async with serving(desk) as server:
            running = asyncio.ensure_future(AgentClient("runtime").send_task(server.url, task))
            await desk.reached.wait()
            transport = WatchedTransport(None)
            await AgentClient(transport).cancel_task(server.url, task.id, reason="enough", metadata={"by": "me"})
            await running
        assert transport.asked == [("POST", "/tasks/cancel")]
        assert transport.sent[0].body == f'{{"id":"{task.id}","metadata":{{"by":"me","reason":"enough"}}}}'.encode()
        assert transport.sent[0].idempotency_key == task.id

    async def test_streamed_task_ends_with_its_cancellation(self) -> None:
        waiting, task = Waiting(), waiting_task()
        async with serving(waiting.agent) as server:
            client = AgentClient("runtime")
            async with aclosing(client.send_task_streaming(server.url, task)) as events:
                async for event in events:
                    if waiting.reached.is_set() and not event.get("final"):
                        await client.cancel_task(server.url, task.id, reason="enough")
                        waiting.reached.clear()
        assert (event["new_state"], event["metadata"]["task"]["state"]) == ("canceled", "canceled")

    async def test_unknown_task_is_not_found(self) -> None:
        async with serving(Agent(name="idle")) as server:
            with pytest.raises(TaskNotFoundError, match="nope") as caught:
                await AgentClient("runtime").cancel_task(server.url, "nope")
        cause = caught.value.__cause__
        assert isinstance(cause, TransportRemoteError)
        assert (cause.status_code, cause.code, cause.url) == (404, "task_not_found", server.url)

    async def test_task_that_has_ended_is_not_cancelable(self) -> None:
        desk = Desk()

        async def ended(task_id: Any) -> Task:
            raise TaskNotCancelableError("it has ended")

        desk.cancel_task = ended  # type: ignore[method-assign,assignment]
        async with serving(desk) as server:
            with pytest.raises(TaskNotCancelableError):
                await AgentClient("runtime").cancel_task(server.url, "t")

    @pytest.mark.parametrize("task_id", ["", "  ", None, 7])
    async def test_blank_id_is_not_sent(self, task_id: Any) -> None:
        transport = WatchedTransport(None)
        with pytest.raises(ValueError, match="nonblank task id"):
            await AgentClient(transport).cancel_task("runtime://x", task_id)
        assert transport.sent == []


class TestSync:
    @pytest.mark.claim("NET-011", "NET-012")
    def test_blocking_cancel_stops_work_of_another_thread_and_loop(self) -> None:
        waiting, task = Waiting(), waiting_task()
        client = AgentClient("runtime")
        with other_loop() as other:
            serving_there = serving(waiting.agent)
            server = other.run(serving_there.__aenter__())
            running = asyncio.run_coroutine_threadsafe(client.send_task(server.url, task), other.loop)
            waiting.reached.wait()
            canceled = client.sync.cancel_task(server.url, task.id, reason="from another thread")
            assert (canceled.id, canceled.state.value) == (task.id, "canceled")
            assert canceled.metadata["cancel_reason"] == "from another thread"
            assert running.result().state.value == "canceled"
            other.run(serving_there.__aexit__(None, None, None))

    @pytest.mark.claim("NET-012")
    def test_blocking_cancel_stops_a_blocking_call_of_another_thread(self) -> None:
        waiting, task = Waiting(), waiting_task()
        client = AgentClient("runtime")
        results: list[Task] = []
        with other_loop() as other:
            serving_there = serving(waiting.agent)
            server = other.run(serving_there.__aenter__())
            blocked = threading.Thread(target=lambda: results.append(client.sync.send_task(server.url, task)))
            blocked.start()
            waiting.reached.wait()
            assert blocked.is_alive()
            client.sync.cancel_task(server.url, task.id)
            blocked.join()
            other.run(serving_there.__aexit__(None, None, None))
        assert [result.state.value for result in results] == ["canceled"]

    @pytest.mark.claim("NET-012")
    async def test_blocking_cancel_from_inside_the_call_it_should_stop_is_refused(self) -> None:
        client, task = AgentClient("runtime"), Task.create_tool_call("stop_myself")
        url = address()
        refused: list[str] = []

        def stop_myself() -> str:
            try:
                client.sync.cancel_task(url, task.id)
            except RuntimeError as error:
                refused.append(str(error))
            return "went on"

        async with serving(Agent(name="worker", tools=[stop_myself]), url):
            done = await client.send_task(url, task)
        assert (done.state.value, done.get_output()) == ("completed", "went on")
        assert refused == [
            "client.sync.cancel_task() would block the running event loop; await client.cancel_task() instead"
        ]

    def test_every_call_has_a_blocking_twin(self) -> None:
        desk = Desk()
        client = AgentClient("runtime")
        with other_loop() as other:
            serving_there = serving(desk)
            url = other.run(serving_there.__aenter__()).url
            assert client.sync.get_agent_card(url).name == "desk"
            assert client.sync.send_task(url, work()).get_output() == "echo"
            assert client.sync.send_infer_task("what?", url).state.value == "completed"
            assert client.sync.send_message(url, "hello").parts[0].content == "echo"
            with pytest.raises(TaskNotFoundError):
                client.sync.cancel_task(url, "t")
            other.run(serving_there.__aexit__(None, None, None))


class TestSubmission:
    @staticmethod
    def refused(clock: FakeClock) -> WatchedTransport:
        policy = RetryPolicy(max_attempts=3, retryable_methods={"GET", "PUT", "POST", "DELETE"})  # type: ignore[arg-type]

        def busy() -> Exception:
            return TransportRemoteError("busy", code="overloaded", retryable=True, status_code=503)

        return WatchedTransport(None, config=TransportConfig(retry=policy), clock=clock, fails=busy)

    @pytest.mark.claim("GRP-050")
    async def test_task_is_sent_once_though_the_policy_retries_everything_else(self) -> None:
        clock = FakeClock()
        transport = self.refused(clock)
        client = AgentClient(transport)
        start = clock.now()
        for submitting in (client.send_task("runtime://x", work()), client.send_infer_task("go", "runtime://x")):
            with pytest.raises(TransportRemoteError, match="busy"):
                await submitting
        with pytest.raises(TransportRemoteError, match="busy"):
            await anext(client.send_task_streaming("runtime://x", work()))
        assert transport.asked == [("POST", "/tasks/"), ("POST", "/tasks/"), ("POST", "/tasks/stream")]
        assert clock.now() == start

        transport.sent.clear()
        with pytest.raises(TransportRemoteError, match="busy"):
            await client.cancel_task("runtime://x", "t")
        with pytest.raises(TransportRemoteError, match="busy"):
            await client.get_agent_card("runtime://x")
        assert transport.asked == [("POST", "/tasks/cancel")] * 3 + [("GET", "/.well-known/agent.json")] * 3

    async def test_task_nobody_takes_is_not_sent_again_either(self) -> None:
        transport = WatchedTransport(None, config=TransportConfig(retry=RetryPolicy(max_attempts=5)), clock=FakeClock())
        with pytest.raises(TransportConnectionError, match="Nobody serves") as caught:
            await AgentClient(transport).send_task(address(), work())
        assert not caught.value.outcome_unknown
        assert len(transport.sent) == 1

    async def test_same_task_again_gets_the_same_answer(self) -> None:
        desk, task = Desk(), work()
        async with serving(desk) as server:
            client = AgentClient("runtime")
            first = await client.send_task(server.url, task)
            again = await AgentClient("runtime").send_task(server.url, task)
        assert first == again
        assert desk.begun == [task.id]

    async def test_changed_task_under_the_same_id_is_refused(self) -> None:
        desk, task = Desk(), work()
        async with serving(desk) as server:
            client = AgentClient("runtime")
            await client.send_task(server.url, task)
            task.add_message(Message.user("more"))
            with pytest.raises(TransportRemoteError, match="Another body was sent"):
                await client.send_task(server.url, task)
        assert desk.begun == [task.id]

    async def test_task_that_runs_there_already_is_refused(self) -> None:
        waiting, task = Waiting(), waiting_task()
        async with serving(waiting.agent) as server:
            running = asyncio.ensure_future(waiting.agent.run_task(Task.from_dict(task.to_dict())))
            await until(waiting.reached.is_set)
            with pytest.raises(TaskAlreadyRunningError):
                await AgentClient("runtime").send_task(server.url, task)
            await waiting.agent.cancel_task(task.id)
            await running

    async def test_no_answer_in_time(self) -> None:
        desk = Desk(open=False)
        async with serving(desk, config=TransportConfig(shutdown_timeout=0)) as server:
            with pytest.raises(TransportTimeoutError) as caught:
                await AgentClient("runtime", timeout=1e-6).send_task(server.url, work())
            assert caught.value.outcome_unknown
            assert caught.value.url == server.url


class TestEvents:
    async def test_last_event_has_the_ended_task(self) -> None:
        agent = Agent(name="talker", llm=MockLLM(sequential_responses=["hello"]))
        async with serving(agent) as server:
            client = AgentClient("runtime")
            events = [event async for event in client.send_task_streaming(server.url, Task.create_infer(prompt="hi"))]
        assert [event["type"] for event in events if event.get("final") and event["type"] == "task_status_update"] == [
            "task_status_update"
        ]
        assert Task.from_dict(events[-1]["metadata"]["task"]).get_output() == "hello"
        assert any(event["type"] == "task_llm_stream" for event in events)

    async def test_leaving_early_cancels_the_task(self) -> None:
        waiting, task = Waiting(), waiting_task()
        async with serving(waiting.agent) as server:
            async with aclosing(AgentClient("runtime").send_task_streaming(server.url, task)) as events:
                async for _ in events:
                    if waiting.reached.is_set():
                        break
            assert waiting.agent.active_task_ids == ()


class TestShortcuts:
    async def test_message_is_answered_by_a_message(self) -> None:
        async with serving(Desk()) as server:
            reply = await AgentClient("runtime").send_message(server.url, Message.user("hello"))
        assert (reply.role, reply.parts[0].content) == ("agent", "echo")

    async def test_answer_without_a_message_is_an_error(self) -> None:
        async with serving(Agent(name="plain")) as server:
            with pytest.raises(RuntimeError, match="answered without a message; the task ended completed"):
                await AgentClient("runtime").send_message(server.url, "hello")

    async def test_failed_message_raises_its_task(self) -> None:
        desk = Desk()
        desk.ends = lambda task: task.fail("it broke")
        async with serving(desk) as server:
            with pytest.raises(TaskExecutionError, match="it broke"):
                await AgentClient("runtime").send_message(server.url, "hello")

    async def test_question_goes_to_the_agents_model(self) -> None:
        asked: list[Part] = []
        desk = Desk()
        desk.ends = lambda task: asked.extend(task.messages[0].parts) or task.complete("42")
        async with serving(desk) as server:
            done = await AgentClient("runtime").send_infer_task(
                "what?", server.url, user="u", output_schema={"type": "integer"}, metadata={"k": 1}
            )
        assert done.get_output() == "42"
        assert (asked[0].type, asked[0].content) == (
            "infer",
            {"prompt": "what?", "user": "u", "output_schema": {"type": "integer"}, "metadata": {"k": 1}},
        )

    async def test_card_is_read(self) -> None:
        desk = Desk()
        desk.card = card(name="front", role="gateway", tags=["a"])
        async with serving(desk) as server:
            assert await AgentClient("runtime").get_agent_card(server.url) == desk.card


class TestOddServers:
    @pytest.mark.parametrize(
        ("answer", "text"),
        [("done", "The answer is no task"), ({"id": "other"}, "another task"), ({"id": 7}, "is no task")],
    )
    async def test_answer_that_is_not_the_task_leaves_the_outcome_open(self, answer: Any, text: str) -> None:
        class Odd(RuntimeTransport):
            async def send(self, *args: Any, **options: Any) -> Any:
                return answer

        with pytest.raises(TransportProtocolError, match=text) as caught:
            await AgentClient(Odd(None)).send_task("runtime://x", work())
        assert caught.value.outcome_unknown

    async def test_card_that_is_none(self) -> None:
        class Odd(RuntimeTransport):
            async def send(self, *args: Any, **options: Any) -> Any:
                return {"name": "x"}

        with pytest.raises(TransportProtocolError, match="runtime://x cannot be read: AgentCard"):
            await AgentClient(Odd(None)).get_agent_card("runtime://x")


class TestArguments:
    @pytest.mark.parametrize(("timeout", "error"), [(0, ValueError), (-1, ValueError), ("5", TypeError)])
    def test_timeout_is_a_number_above_zero(self, timeout: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="timeout"):
            AgentClient("runtime", timeout=timeout)

    async def test_only_tasks_are_sent(self) -> None:
        with pytest.raises(TypeError, match="sends a Task, not str"):
            await AgentClient("runtime").send_task("runtime://x", "do it")  # type: ignore[arg-type]

    @pytest.mark.parametrize(("protocol", "error"), [("a2a", NotImplementedError), ("smtp", ValueError)])
    async def test_protocols_are_named(self, protocol: str, error: type[Exception]) -> None:
        client = AgentClient("runtime")
        with pytest.raises(error):
            await client.send_task("runtime://x", work(), protocol=protocol)
        with pytest.raises(error):
            await client.cancel_task("runtime://x", "t", protocol=protocol)

    def test_transport_is_kept(self) -> None:
        transport = RuntimeTransport(None)
        assert AgentClient(transport).transport is transport
