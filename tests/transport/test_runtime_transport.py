"""The in-process wire: as far apart as on a network, in one loop or in two."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing
from contextvars import ContextVar
from typing import Any

import pytest
from network_support import Desk, OtherLoop, WatchedTransport, address, other_loop, serving, until, work

from protolink import (
    AgentServer,
    RetryPolicy,
    RuntimeTransport,
    Task,
    TaskAlreadyRunningError,
    TransportConfig,
    TransportConnectionError,
    TransportError,
    TransportLimitError,
    TransportLimits,
    TransportProtocolError,
    TransportRemoteError,
    TransportTimeoutError,
    current_request_context,
    request_context,
)
from protolink.testing import FakeClock
from protolink.transport import RequestSpec, RouteCall, Routes, edge
from protolink.transport.request import CANCEL_TASK, STREAM_TASK, SUBMIT_TASK

ASK = RequestSpec("POST", "/ask")
TELL = STREAM_TASK


class Serving:
    """A transport that answers ``/ask`` and streams by handlers of a test."""

    def __init__(self, ask: Any = None, tell: Any = None, config: TransportConfig | None = None) -> None:
        self.transport = RuntimeTransport(address(), config=config)
        routes = Routes()
        if ask is not None:
            routes.add(ASK, ask)
        if tell is not None:
            routes.add_stream(TELL, tell)
        self.transport.setup_routes(routes)

    @property
    def url(self) -> str:
        assert self.transport.url is not None
        return self.transport.url

    async def __aenter__(self) -> Serving:
        await self.transport.start()
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.transport.stop()


async def echo(call: RouteCall) -> Any:
    return {"body": call.body, "params": dict(call.params)}


async def stuck(call: RouteCall) -> Any:
    await asyncio.Event().wait()


async def two_events(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {"n": 1}, False
    yield {"n": 2}, True


async def collect(url: str, client: RuntimeTransport | None = None) -> list[Any]:
    async with aclosing((client or RuntimeTransport(None)).subscribe(url, work())) as events:
        return [event async for event in events]


class TestBoundary:
    async def test_what_arrives_is_a_copy(self) -> None:
        kept: list[Any] = []

        async def keep(call: RouteCall) -> Any:
            kept.append(call.body)
            return call.body

        sent = {"list": [1, 2], "tuple": (3, 4), "task": Task(id="t1")}
        async with Serving(keep) as server:
            found = await RuntimeTransport(None).send(ASK, server.url, sent)
        assert found["tuple"] == [3, 4]
        assert found["task"]["id"] == "t1"
        found["list"].append("mine")
        assert kept[0]["list"] == sent["list"] == [1, 2]

    async def test_what_is_no_json_is_not_sent(self) -> None:
        async with Serving(echo) as server:
            with pytest.raises(TypeError, match="object has no JSON form"):
                await RuntimeTransport(None).send(ASK, server.url, {"x": object()})
            assert server.transport.metrics["requests_served"] == 0

    async def test_context_variables_stay_with_the_client(self) -> None:
        mine: ContextVar[str] = ContextVar("mine", default="nobody's")

        async def look(call: RouteCall) -> Any:
            return [mine.get(), dict(current_request_context())]

        with request_context({"token": "the starter's"}):
            server = Serving(look)
            mine.set("server's")
            await server.transport.start()
        mine.set("client's")
        with request_context({"token": "the client's"}):
            found = await RuntimeTransport(None).send(ASK, server.url)
        await server.transport.stop()
        assert found == ["server's", {}]

    async def test_parameters_are_lists_of_texts(self) -> None:
        async with Serving(echo) as server:
            found = await RuntimeTransport(None).send(ASK, server.url, None, {"a": "x", "b": ["y", 1], "c": None})
        assert found == {"body": None, "params": {"a": ["x"], "b": ["y", "1"]}}

    async def test_slash_at_the_end_makes_no_difference(self) -> None:
        async with Serving(echo) as server:
            found = await RuntimeTransport(None).send(RequestSpec("POST", "/ask/"), server.url + "/", 1)
        assert found["body"] == 1

    @pytest.mark.parametrize(
        ("spec", "status", "code"),
        [(RequestSpec("POST", "/other"), 404, "not_found"), (RequestSpec("GET", "/ask"), 405, "method_not_allowed")],
    )
    async def test_what_is_not_served_is_told(self, spec: RequestSpec, status: int, code: str) -> None:
        async with Serving(echo) as server:
            with pytest.raises(TransportRemoteError) as caught:
                await RuntimeTransport(None).send(spec, server.url)
        error = caught.value
        assert (error.status_code, error.code, error.retryable, error.outcome_unknown) == (status, code, False, False)
        assert error.url == server.url
        assert error.request_id

    async def test_request_id_is_the_callers(self) -> None:
        async def ids(call: RouteCall) -> Any:
            return [call.request_id, call.idempotency_key]

        async with Serving(ids) as server:
            client = RuntimeTransport(None)
            assert await client.send(ASK, server.url, request_id="r1") == ["r1", "r1"]
            assert await client.send(ASK, server.url, request_id="r1", idempotency_key="k") == ["r1", "k"]
            own, key = await client.send(ASK, server.url)
            assert own == key
            assert own


class TestAddresses:
    async def test_nobody_there_is_a_connection_error_that_sent_nothing(self) -> None:
        with pytest.raises(ConnectionError, match="Nobody serves runtime://nobody") as caught:
            await RuntimeTransport(None).send(ASK, "runtime://nobody")
        assert isinstance(caught.value, TransportConnectionError)
        assert (caught.value.retryable, caught.value.outcome_unknown) == (True, False)

    async def test_other_scheme_is_refused(self) -> None:
        with pytest.raises(ValueError, match="starts with runtime://"):
            await RuntimeTransport(None).send(ASK, "http://localhost:1")

    async def test_address_is_served_once(self) -> None:
        async with Serving(echo) as first:
            second = RuntimeTransport(first.url)
            second.setup_routes(Routes())
            with pytest.raises(TransportConnectionError, match="is served already"):
                await second.start()
            await second.stop()
            assert (await RuntimeTransport(None).send(ASK, first.url, 1))["body"] == 1

    async def test_address_is_free_after_the_stop(self) -> None:
        server = Serving(echo)
        async with server:
            pass
        with pytest.raises(TransportConnectionError):
            await RuntimeTransport(None).send(ASK, server.url)
        async with server:
            assert (await RuntimeTransport(None).send(ASK, server.url, 1))["body"] == 1

    async def test_address_of_a_loop_that_has_ended_is_free(self) -> None:
        server = Serving(echo)
        with other_loop() as other:
            other.run(server.transport.start())
        with pytest.raises(TransportConnectionError, match="Nobody serves"):
            await RuntimeTransport(None).send(ASK, server.url)
        again = RuntimeTransport(server.url)
        routes = Routes()
        routes.add(ASK, echo)
        again.setup_routes(routes)
        await again.start()
        await server.transport.stop()
        assert (await RuntimeTransport(None).send(ASK, server.url, 1))["body"] == 1
        await again.stop()

    async def test_starting_and_stopping_twice_is_harmless(self) -> None:
        async with Serving(echo) as server:
            await server.transport.start()
            assert (await server.transport.health())["status"] == "serving"
            await server.transport.stop()
            await server.transport.stop()
            assert (await server.transport.health())["status"] == "stopped"

    async def test_routes_are_set_before_the_start(self) -> None:
        async with Serving(echo) as server:
            with pytest.raises(RuntimeError, match="serves already"):
                server.transport.setup_routes(Routes())
        with pytest.raises(RuntimeError, match="has no routes"):
            await RuntimeTransport(address()).start()
        with pytest.raises(ValueError, match="needs a url"):
            await RuntimeTransport(None).start()


class TestLimits:
    async def test_too_large_a_request_is_not_sent(self) -> None:
        client = RuntimeTransport(None, config=TransportConfig(limits=TransportLimits(max_request_bytes=10)))
        async with Serving(echo) as server:
            with pytest.raises(TransportLimitError, match="it was not sent") as caught:
                await client.send(ASK, server.url, "x" * 10)
            assert not caught.value.outcome_unknown
            assert (await client.send(ASK, server.url, "x" * 8))["body"] == "x" * 8
            assert server.transport.metrics["requests_served"] == 1

    async def test_server_refuses_what_is_too_large_for_it(self) -> None:
        config = TransportConfig(limits=TransportLimits(max_request_bytes=10))
        async with Serving(echo, config=config) as server:
            with pytest.raises(TransportLimitError, match="this server takes 10") as caught:
                await RuntimeTransport(None).send(ASK, server.url, "x" * 10)
        assert (caught.value.status_code, caught.value.outcome_unknown) == (413, False)

    async def test_answer_that_is_too_large_leaves_the_outcome_open(self) -> None:
        config = TransportConfig(limits=TransportLimits(max_response_bytes=10))
        async with Serving(echo, config=config) as server:
            with pytest.raises(TransportLimitError, match="sends at most 10") as caught:
                await RuntimeTransport(None).send(ASK, server.url, "x")
        assert caught.value.outcome_unknown

    async def test_event_that_is_too_large_ends_the_stream(self) -> None:
        async def large(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            yield {"small": 1}, False
            yield {"large": "x" * 100}, False
            raise AssertionError("not reached")

        config = TransportConfig(limits=TransportLimits(max_event_bytes=50))
        async with Serving(tell=large, config=config) as server:
            events = RuntimeTransport(None).subscribe(server.url, work())
            assert await anext(events) == {"small": 1}
            with pytest.raises(TransportLimitError, match="event"):
                await anext(events)

    async def test_busy_server_refuses_and_can_be_asked_again(self) -> None:
        gate = asyncio.Event()

        async def wait(call: RouteCall) -> Any:
            await gate.wait()
            return "done"

        config = TransportConfig(limits=TransportLimits(max_concurrent_requests=1))
        async with Serving(wait, config=config) as server:
            client = RuntimeTransport(None)
            first = asyncio.ensure_future(client.send(ASK, server.url))
            await until(lambda: server.transport._edge.active_requests == 1)  # type: ignore[union-attr]
            with pytest.raises(TransportRemoteError, match="busy with 1 requests") as caught:
                await client.send(ASK, server.url)
            assert (caught.value.status_code, caught.value.retryable) == (503, True)
            assert not caught.value.outcome_unknown
            gate.set()
            assert await first == "done"
            assert await client.send(ASK, server.url) == "done"

    async def test_streams_have_places_of_their_own(self) -> None:
        async def wait(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            yield {}, False
            await asyncio.Event().wait()

        limits = TransportLimits(max_concurrent_requests=1, max_concurrent_streams=1)
        async with Serving(echo, wait, TransportConfig(limits=limits)) as server:
            client = RuntimeTransport(None)
            async with aclosing(client.subscribe(server.url, work())) as first:
                await anext(first)
                assert (await client.send(ASK, server.url, 1))["body"] == 1
                with pytest.raises(TransportRemoteError, match="busy with 1 streams"):
                    await collect(server.url)
            assert (await server.transport.health())["active_streams"] == 0

    async def test_control_requests_need_no_place(self) -> None:
        desk = Desk(open=False)
        config = TransportConfig(limits=TransportLimits(max_concurrent_requests=1))
        async with serving(desk, config=config) as server:
            client = RuntimeTransport(None)
            task = work()
            running = asyncio.ensure_future(client.send(SUBMIT_TASK, server.url, task))
            await desk.reached.wait()
            await client.send(CANCEL_TASK, server.url, {"id": task.id})
            assert (await running)["state"] == "canceled"


class TestRetries:
    @staticmethod
    def refusing(clock: FakeClock, **policy: Any) -> WatchedTransport:
        retry = RetryPolicy(**{"max_attempts": 3, "initial_backoff": 1.0, "max_backoff": 8.0, "jitter": 0.5} | policy)

        def busy() -> Exception:
            return TransportRemoteError("busy", code="overloaded", retryable=True, status_code=503)

        config = TransportConfig(retry=retry)
        return WatchedTransport(None, config=config, clock=clock, chance=lambda: 0.5, fails=busy)

    async def test_refused_requests_are_sent_again_after_growing_waits(self) -> None:
        clock = FakeClock()
        start = clock.now()
        client = self.refusing(clock)
        with pytest.raises(TransportRemoteError, match="busy"):
            await client.send(ASK, "runtime://x")
        assert len(client.sent) == 3
        assert clock.now() - start == pytest.approx(1.25 + 2.5)
        assert client.metrics["retries"] == 2

    async def test_every_attempt_is_the_same_request(self) -> None:
        client = self.refusing(FakeClock())
        with pytest.raises(TransportRemoteError):
            await client.send(ASK, "runtime://x", {"a": 1})
        assert client.sent == [client.sent[0]] * 3

    async def test_one_success_is_enough(self) -> None:
        async with Serving(echo) as server:
            client = self.refusing(FakeClock())
            fails = client.fails

            def once() -> Exception:
                client.fails = None
                assert fails is not None
                return fails()

            client.fails = once
            assert (await client.send(ASK, server.url, 1))["body"] == 1
            assert len(client.sent) == 2

    @pytest.mark.parametrize(
        ("spec", "policy"),
        [
            (ASK, {"retryable_methods": {"GET"}}),
            (ASK, {"max_attempts": 1}),
            (RequestSpec("POST", "/ask", retryable=False), {}),
        ],
    )
    async def test_only_what_policy_and_request_allow(self, spec: RequestSpec, policy: dict[str, Any]) -> None:
        client = self.refusing(FakeClock(), **policy)
        with pytest.raises(TransportRemoteError):
            await client.send(spec, "runtime://x")
        assert len(client.sent) == 1

    async def test_what_may_have_been_done_is_not_sent_again(self) -> None:
        client = self.refusing(FakeClock())
        client.fails = lambda: TransportConnectionError("broken off", outcome_unknown=True)
        with pytest.raises(TransportConnectionError) as caught:
            await client.send(ASK, "runtime://x")
        assert len(client.sent) == 1
        assert caught.value.url == "runtime://x"


class TestWaiting:
    async def test_no_answer_in_time_leaves_the_work_going(self) -> None:
        done = asyncio.Event()
        gate = asyncio.Event()

        async def slow(call: RouteCall) -> Any:
            await gate.wait()
            done.set()

        async with Serving(slow) as server:
            with pytest.raises(TimeoutError, match="may still be going on") as caught:
                await RuntimeTransport(None).send(ASK, server.url, timeout=1e-6)
            assert isinstance(caught.value, TransportTimeoutError)
            assert caught.value.outcome_unknown
            gate.set()
            await done.wait()

    async def test_client_that_goes_away_leaves_the_work_going(self) -> None:
        reached, gate, done = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slow(call: RouteCall) -> Any:
            reached.set()
            await gate.wait()
            done.set()

        async with Serving(slow) as server:
            asking = asyncio.ensure_future(RuntimeTransport(None).send(ASK, server.url))
            await reached.wait()
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
            gate.set()
            await done.wait()

    async def test_stream_that_does_not_begin_in_time(self) -> None:
        ended = asyncio.Event()

        async def silent(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            try:
                await asyncio.Event().wait()
                yield {}, True
            finally:
                ended.set()

        async with Serving(tell=silent) as server:
            with pytest.raises(TransportTimeoutError):
                await anext(RuntimeTransport(None).subscribe(server.url, work(), timeout=1e-6))
            await ended.wait()


class TestStreams:
    async def test_events_come_in_order_until_the_last(self) -> None:
        async with Serving(tell=two_events) as server:
            assert await collect(server.url) == [{"n": 1}, {"n": 2}]
            assert server.transport.metrics["streams_served"] == 1

    async def test_stream_without_an_end_is_an_error(self) -> None:
        async def endless(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            yield {"n": 1}, False

        async with Serving(tell=endless) as server:
            events = RuntimeTransport(None).subscribe(server.url, work())
            assert await anext(events) == {"n": 1}
            with pytest.raises(TransportRemoteError, match="without a final status") as caught:
                await anext(events)
        assert caught.value.outcome_unknown

    async def test_wire_that_breaks_off_leaves_the_outcome_open(self) -> None:
        class Broken(RuntimeTransport):
            async def replies(self, request: Any, base_url: str) -> AsyncGenerator[Any, None]:
                async with aclosing(super().replies(request, base_url)) as answers:
                    yield await anext(answers)

        async with Serving(tell=two_events) as server:
            events = Broken(None).subscribe(server.url, work())
            await anext(events)
            with pytest.raises(TransportConnectionError, match="ended before the task did") as caught:
                await anext(events)
        assert caught.value.outcome_unknown

    async def test_event_that_is_no_object_is_a_protocol_error(self) -> None:
        async def odd(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            yield [1], False

        async with Serving(tell=odd) as server:
            with pytest.raises(TransportProtocolError):
                await collect(server.url)

    async def test_refusal_keeps_its_class(self) -> None:
        async def refuse(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            raise TaskAlreadyRunningError("running")
            yield {}, True

        async with Serving(tell=refuse) as server:
            with pytest.raises(TaskAlreadyRunningError):
                await collect(server.url)

    async def test_leaving_early_waits_until_the_work_has_settled(self) -> None:
        settled: list[str] = []

        async def slow(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            try:
                yield {"n": 1}, False
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                settled.append("settled")

        async with Serving(tell=slow) as server:
            async with aclosing(RuntimeTransport(None).subscribe(server.url, work())) as events:
                await anext(events)
            assert settled == ["settled"]

    @pytest.mark.parametrize("spec", [RequestSpec("POST", "/tasks/stream"), RequestSpec("POST", "/tasks/stream/")])
    async def test_stream_is_not_an_answer(self, spec: RequestSpec) -> None:
        async with Serving(tell=two_events) as server:
            with pytest.raises(TransportRemoteError, match="answers with a stream"):
                await RuntimeTransport(None).send(spec, server.url)

    async def test_transport_that_does_not_stream_says_so(self) -> None:
        class Plain(RuntimeTransport):
            supports_streaming = False

        plain = Plain(address())
        assert not plain.capabilities.streaming
        with pytest.raises(NotImplementedError, match="does not stream"):
            await anext(plain.subscribe("runtime://x", work()))
        assert ("POST", "/tasks/stream") not in [
            (route.spec.method, route.spec.path) for route in AgentServer(Desk(), plain).routes
        ]


IMPATIENT = TransportConfig(stream_idle_timeout=0.01)


async def falls_silent(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {"n": 1}, False
    await asyncio.Event().wait()


class TestSilence:
    async def test_stream_that_falls_silent_leaves_the_outcome_open(self) -> None:
        client = RuntimeTransport(None, config=IMPATIENT)
        async with Serving(tell=falls_silent) as server:
            events = client.subscribe(server.url, work(), request_id="r-1")
            assert await anext(events) == {"n": 1}
            with pytest.raises(TransportTimeoutError, match=r"within 0\.01 seconds") as caught:
                await anext(events)
            assert server.transport.metrics["faults_served"] == 0
        found = caught.value
        assert (found.outcome_unknown, found.retryable, found.url, found.request_id) == (True, False, server.url, "r-1")
        assert client.metrics["errors"] == 1

    async def test_stream_of_another_loop_that_falls_silent_does_too(self) -> None:
        with other_loop() as other:
            server = Serving(tell=falls_silent)
            other.run(server.transport.start())
            with pytest.raises(TransportTimeoutError) as caught:
                await collect(server.url, RuntimeTransport(None, config=IMPATIENT))
            await server.transport.stop()
        assert caught.value.outcome_unknown

    async def test_reader_does_not_wait_for_work_that_will_not_stop(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(edge, "LEAVE_SECONDS", 0)
        go = asyncio.Event()

        async def stubborn(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            yield {"n": 1}, False
            while not go.is_set():
                try:
                    await go.wait()
                except asyncio.CancelledError:
                    pass

        async with Serving(tell=stubborn) as server:
            with pytest.raises(TransportTimeoutError):
                await collect(server.url, RuntimeTransport(None, config=IMPATIENT))
            assert (await server.transport.health())["active_streams"] == 1
            go.set()
            await settles(server)

    async def test_the_readers_own_pauses_are_no_silence(self) -> None:
        async with Serving(tell=two_events) as server:
            events = RuntimeTransport(None, config=IMPATIENT).subscribe(server.url, work())
            await anext(events)
            await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 0.02)
            assert await anext(events) == {"n": 2}


async def settles(server: Serving) -> None:
    for _ in range(1000):
        if (await server.transport.health())["active_streams"] == 0:
            return
        await asyncio.sleep(0)
    raise AssertionError("the work goes on")


class TestRoom:
    """A reader that is slow makes the work's events wait; none is dropped and none is kept in between."""

    MANY = 20 * edge.AHEAD

    def counted(self, made: list[int]) -> Any:
        async def tell(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            for number in range(self.MANY):
                made.append(number)
                yield {"n": number}, number == self.MANY - 1

        return tell

    async def test_events_wait_for_their_reader(self) -> None:
        made: list[int] = []
        async with Serving(tell=self.counted(made)) as server:
            events = RuntimeTransport(None).subscribe(server.url, work())
            await anext(events)
            await turns()
            assert len(made) <= edge.AHEAD + 2
            assert [event["n"] async for event in events] == list(range(1, self.MANY))

    async def test_events_wait_for_their_reader_in_another_loop(self) -> None:
        made: list[int] = []
        with other_loop() as other:
            server = Serving(tell=self.counted(made))
            other.run(server.transport.start())
            events = RuntimeTransport(None).subscribe(server.url, work())
            await anext(events)
            other.run(turns())
            assert len(made) <= edge.AHEAD + 2
            assert [event["n"] async for event in events] == list(range(1, self.MANY))
            await server.transport.stop()

    @pytest.mark.parametrize("elsewhere", [False, True])
    async def test_work_that_waits_for_its_reader_ends_with_it(self, elsewhere: bool) -> None:
        closed: list[str] = []

        async def endless(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            try:
                for _ in range(10 * self.MANY):
                    yield {"n": 0}, False
            finally:
                closed.append("closed")

        with other_loop() as other:
            server = Serving(tell=endless)
            await (other.there(server.transport.start()) if elsewhere else server.transport.start())
            async with aclosing(RuntimeTransport(None).subscribe(server.url, work())) as events:
                await anext(events)
            await (other.there(until(lambda: closed == ["closed"])) if elsewhere else turns())
            assert closed == ["closed"]
            await server.transport.stop()

    async def test_server_that_stops_still_tells_a_reader_that_is_behind(self) -> None:
        made: list[int] = []
        async with Serving(tell=self.counted(made), config=TransportConfig(shutdown_timeout=0)) as server:
            events = RuntimeTransport(None).subscribe(server.url, work())
            await anext(events)
        with pytest.raises(TransportRemoteError, match="stopped in the middle"):
            async for _ in events:
                pass


async def turns() -> None:
    """Let everything run that can."""
    for _ in range(2000):
        await asyncio.sleep(0)


class TestOtherLoops:
    async def test_server_in_another_thread_answers_in_its_own_loop(self) -> None:
        async def where(call: RouteCall) -> Any:
            return id(asyncio.get_running_loop())

        with other_loop() as other:
            server = Serving(where)
            other.run(server.transport.start())
            assert await RuntimeTransport(None).send(ASK, server.url) == id(other.loop)
            await server.transport.stop()
            assert (await server.transport.health())["status"] == "stopped"
            with pytest.raises(TransportConnectionError):
                await RuntimeTransport(None).send(ASK, server.url)

    async def test_events_cross_over_in_order(self) -> None:
        async def many(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            for number in range(200):
                yield {"n": number}, number == 199

        with other_loop() as other:
            server = Serving(tell=many)
            other.run(server.transport.start())
            assert [event["n"] for event in await collect(server.url)] == list(range(200))
            await server.transport.stop()

    async def test_leaving_early_cancels_the_work_over_there(self) -> None:
        with other_loop() as other:
            desk = Desk(open=False)
            server = AgentServer(desk, RuntimeTransport(address()))
            other.run(server.start())
            async with aclosing(RuntimeTransport(None).subscribe(server.url, work())) as events:
                assert (await anext(events))["new_state"] == "working"
            other.run(until(lambda: desk._tasks == {}))
            await server.stop()

    async def test_reader_that_dies_takes_its_stream_along(self) -> None:
        desk = Desk(open=False)
        async with serving(desk) as server:

            async def read_and_end(other: OtherLoop) -> None:
                events = RuntimeTransport(None).subscribe(server.url, work())
                await anext(events)
                kept.append(events)

            kept: list[Any] = []
            with other_loop() as other:
                reading = asyncio.get_running_loop().run_in_executor(None, other.run, read_and_end(other))
                await reading
            assert desk._tasks != {}
            desk.gate.set()  # the next event finds nobody
            await until(lambda: desk._tasks == {})

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_server_loop_that_ends_leaves_the_outcome_open(self, streamed: bool) -> None:
        with other_loop() as other:
            desk = Desk(open=False)
            server = AgentServer(desk, RuntimeTransport(address()))
            other.run(server.start())
            client = RuntimeTransport(None)
            asking = asyncio.ensure_future(
                collect(server.url) if streamed else client.send(SUBMIT_TASK, server.url, work())
            )
            await other.there(desk.reached.wait())
            await asyncio.get_running_loop().run_in_executor(None, other.end)
            with pytest.raises(TransportError) as caught:
                await asking
            assert caught.value.outcome_unknown
            await server.stop()

    async def test_waiter_may_leave_a_server_of_another_loop(self) -> None:
        with other_loop() as other:
            desk = Desk(open=False)
            server = AgentServer(desk, RuntimeTransport(address(), config=TransportConfig(shutdown_timeout=0)))
            other.run(server.start())
            asking = asyncio.ensure_future(RuntimeTransport(None).send(SUBMIT_TASK, server.url, work()))
            await other.there(desk.reached.wait())
            asking.cancel()
            await asyncio.wait([asking])
            assert asking.cancelled()
            assert len(desk._tasks) == 1
            await server.stop()


class TestStopping:
    async def test_what_runs_may_end(self) -> None:
        gate = asyncio.Event()

        async def wait(call: RouteCall) -> Any:
            await gate.wait()
            return "done"

        async with Serving(wait, config=TransportConfig(shutdown_timeout=3600)) as server:
            asking = asyncio.ensure_future(RuntimeTransport(None).send(ASK, server.url))
            await until(lambda: server.transport._edge.active_requests == 1)  # type: ignore[union-attr]
            stopping = asyncio.ensure_future(server.transport.stop())
            await asyncio.sleep(0)
            with pytest.raises(TransportRemoteError, match="is stopping") as caught:
                await RuntimeTransport(None).send(ASK, server.url)
            assert (caught.value.retryable, caught.value.outcome_unknown) == (True, False)
            assert not stopping.done()
            gate.set()
            assert await asking == "done"
            await stopping

    @pytest.mark.parametrize("streamed", [False, True])
    async def test_what_does_not_end_is_cut_off(self, streamed: bool) -> None:
        async def endless(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
            yield {}, False
            await asyncio.Event().wait()

        async with Serving(stuck, endless, TransportConfig(shutdown_timeout=0)) as server:
            asking = asyncio.ensure_future(
                collect(server.url) if streamed else RuntimeTransport(None).send(ASK, server.url)
            )
            edge = server.transport._edge
            assert edge is not None
            await until(lambda: edge.active_requests + edge.active_streams == 1)
            await server.transport.stop()
            with pytest.raises(TransportRemoteError, match="stopped in the middle") as caught:
                await asking
            assert caught.value.outcome_unknown


class TestMetrics:
    async def test_both_sides_count(self) -> None:
        async with Serving(echo) as server:
            client = RuntimeTransport(None)
            await client.send(ASK, server.url, 12)
            with pytest.raises(TransportRemoteError):
                await client.send(RequestSpec("GET", "/nothing"), server.url)
            asked, served = client.metrics.to_dict(), server.transport.metrics.to_dict()
        assert (asked["requests_sent"], asked["errors"], asked["bytes_sent"]) == (2, 1, 2)
        assert (served["requests_served"], served["faults_served"]) == (1, 1)
        assert served["bytes_served"] == len('{"body":12,"params":{}}')

    async def test_counting_can_be_switched_off(self) -> None:
        client = RuntimeTransport(None, config=TransportConfig(collect_metrics=False))
        async with Serving(echo) as server:
            await client.send(ASK, server.url, 1)
        assert set(client.metrics.to_dict().values()) == {0}

    def test_capabilities_are_those_of_the_process(self) -> None:
        found = RuntimeTransport(None).capabilities
        assert (found.streaming, found.network) == (True, False)
