"""What an agent remembers, managed through a client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from protolink import Agent, AgentClient, TransportRemoteError
from protolink.llms import MockLLM
from protolink.server import AgentServer
from protolink.state import HistoryCompactionRequest, StateOperationRequest
from protolink.transport import RuntimeTransport
from protolink.transport.edge import Edge

URL = "runtime://memory"


class Up:
    """A served agent that has talked in two sessions."""

    def __init__(self, **options: Any) -> None:
        self.agent = Agent(name="memory", llm=MockLLM(default_response="yes"), verbosity=0, **options)
        self.client = AgentClient("runtime")
        self._server = AgentServer(self.agent, RuntimeTransport(URL))

    async def __aenter__(self) -> AgentClient:
        await self._server.start()
        for session in ("a", "a", "b"):
            await self.agent.invoke("hello", session_id=session)
        return self.client

    async def __aexit__(self, *failure: object) -> None:
        await self._server.stop()


async def test_a_client_describes_what_an_agent_remembers() -> None:
    async with Up(state=["conversation"]) as client:
        found = await client.describe_state(URL)
        [store] = found.stores
        assert (store.name, store.enabled, store.item_count) == ("conversation", True, 2)
        one = await client.describe_state(URL, StateOperationRequest(session_id="b", include_data=True))
        assert list(one.stores[0].data) == ["b"]


async def test_a_client_resets_one_session_and_leaves_the_others() -> None:
    async with Up(state=["conversation"]) as client:
        assert (await client.reset_state(URL, session_id="a")).cleared == ("conversation",)
        [store] = (await client.describe_state(URL, include_data=True)).stores
        assert list(store.data) == ["b"]


async def test_a_client_compacts_a_session() -> None:
    async with Up(state=["conversation"]) as client:
        compacted = await client.compact_state(URL, session_id="a", keep_turns=1)
        assert compacted.compacted == ("conversation",)
        cut = await client.compact_history(URL, HistoryCompactionRequest(keep=0, session_id="a"))
        assert cut.removed == 2
        assert cut.messages_after == 0


async def test_an_agent_without_state_says_that_it_remembers_nothing() -> None:
    async with Up() as client:
        [store] = (await client.describe_state(URL)).stores
        assert store.enabled is False
        with pytest.raises(TransportRemoteError, match="remembers no conversations") as caught:
            await client.compact_history(URL, session_id="a")
        assert caught.value.status_code == 400


@pytest.mark.parametrize(
    "body", [None, 3, [], {"session_id": " "}, {"unknown": 1}, {"keep_turns": -1}, {"modules": "x"}]
)
async def test_malformed_operations_are_the_callers_fault(body: Any) -> None:
    from protolink.transport.request import DESCRIBE_STATE

    async with Up(state=["conversation"]) as client:
        with pytest.raises(TransportRemoteError) as caught:
            await client.transport.send(DESCRIBE_STATE, URL, body)
        assert caught.value.status_code == 400
        assert caught.value.code == "bad_request"


class Networked(RuntimeTransport):
    """As a transport that others reach over a network: it knows its callers, or it does not."""

    network = True
    knows: str | None = None

    async def listen(self, url: str, edge: Edge) -> None:
        handle = edge.handle
        edge.handle = lambda request: handle(replace(request, caller=self.knows))  # type: ignore[method-assign]
        await super().listen(url, edge)


@pytest.mark.parametrize("operation", ["describe_state", "reset_state", "compact_state", "compact_history"])
async def test_over_a_network_only_known_callers_reach_what_an_agent_remembers(operation: str) -> None:
    agent = Agent(name="memory", llm=MockLLM(default_response="yes"), verbosity=0, state=["conversation"])
    await agent.invoke("hello", session_id="a")
    transport = Networked(URL)
    server = AgentServer(agent, transport)
    await server.start()
    try:
        client = AgentClient("runtime")
        ask = getattr(client, operation)
        with pytest.raises(TransportRemoteError, match="whom this server knows") as caught:
            await ask(URL, session_id="a")
        assert (caught.value.code, caught.value.status_code) == ("unauthenticated", 401)
        assert not caught.value.outcome_unknown
        [store] = (await agent.describe_state(session_id="a")).stores
        assert store.message_count == 2
        transport.knows = "mila"
        assert type((await ask(URL, session_id="a")).to_dict()) is dict
    finally:
        await server.stop()


def test_the_same_without_an_event_loop() -> None:
    agent = Agent(
        name="sync-memory",
        llm=MockLLM(default_response="yes"),
        transport="runtime",
        state=["conversation"],
        verbosity=0,
    )
    agent.start()
    try:
        agent.sync.invoke("hello", session_id="s")
        client = AgentClient("runtime").sync
        assert client.describe_state("runtime://sync-memory").stores[0].item_count == 1
        assert client.compact_state("runtime://sync-memory", keep_turns=0).compacted == ("conversation",)
        assert client.compact_history("runtime://sync-memory", session_id="s").removed == 0
        assert client.reset_state("runtime://sync-memory").operation == "reset"
    finally:
        agent.stop()


async def test_a_served_thing_without_memory_has_no_such_routes() -> None:
    class Plain:
        card = Agent(name="plain", verbosity=0).card

        async def run_task(self, task: Any, /) -> Any: ...

        def handle_task_streaming(self, task: Any, /) -> AsyncIterator[Any]: ...

        async def cancel_task(self, task_id: Any, /) -> Any: ...

    server = AgentServer(Plain(), RuntimeTransport("runtime://plain"))  # type: ignore[arg-type]
    await server.start()
    try:
        with pytest.raises(TransportRemoteError) as caught:
            await AgentClient("runtime").describe_state("runtime://plain")
        assert caught.value.status_code == 404
    finally:
        await server.stop()
