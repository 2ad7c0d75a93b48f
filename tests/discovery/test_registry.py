"""Registries: who is there, asked directly or over a wire, and what becomes of those who fall silent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from network_support import address, card, other_loop

from protolink import (
    AgentNotFoundError,
    Registry,
    RegistryClient,
    RetryPolicy,
    RuntimeTransport,
    TransportConfig,
    TransportConnectionError,
    TransportProtocolError,
    TransportRemoteError,
)
from protolink.storage import InMemoryStorage, SQLiteStorage
from protolink.testing import FakeClock
from protolink.transport import RequestSpec
from protolink.transport.request import AGENT_HEARTBEAT, LIST_AGENTS, REGISTER_AGENT, UNREGISTER_AGENT

FRONT = card("runtime://front", "front", role="gateway", tags=["public", "fast"])
BACK = card("runtime://back", "back", tags=["fast"])
SPARE = card("runtime://spare", "back", tags=["slow"])


@pytest.fixture(params=["direct", "remote"])
def way(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@asynccontextmanager
async def registry(way: str, **options: Any) -> AsyncIterator[tuple[Registry, Any]]:
    """A started registry, and what a caller uses: the registry itself, or a client of it."""
    found = Registry(url=address("registry"), **options)
    await found.start()
    try:
        yield found, found if way == "direct" else RegistryClient("runtime", found.url)
    finally:
        await found.stop()


class TestBothWays:
    async def test_registered_agents_are_found(self, way: str) -> None:
        async with registry(way) as (found, caller):
            for agent in (FRONT, BACK, SPARE):
                await caller.register(agent)
            assert await caller.discover() == [FRONT, BACK, SPARE]
            assert found.count() == 3
            assert found.list_urls() == ["runtime://front", "runtime://back", "runtime://spare"]

    @pytest.mark.parametrize(
        ("wanted", "names"),
        [
            ({"name": "back"}, ["runtime://back", "runtime://spare"]),
            ({"name": "bac"}, []),
            ({"role": "gateway"}, ["runtime://front"]),
            ({"tags": "fast"}, ["runtime://front", "runtime://back"]),
            ({"tags": ["fast", "public"]}, ["runtime://front"]),
            ({"name": "back", "tags": ["slow"]}, ["runtime://spare"]),
            ({"name": None, "role": None, "tags": []}, ["runtime://front", "runtime://back", "runtime://spare"]),
        ],
    )
    async def test_agents_are_found_by_name_role_and_all_tags(
        self, way: str, wanted: dict[str, Any], names: list[str]
    ) -> None:
        async with registry(way) as (_, caller):
            for agent in (FRONT, BACK, SPARE):
                await caller.register(agent)
            assert [found.url for found in await caller.discover(**wanted)] == names
            assert [found.url for found in await caller.discover(wanted)] == names

    @pytest.mark.parametrize(
        ("wanted", "text"),
        [({"colour": "red"}, "not by 'colour'"), ({"name": 7}, "'name' must be text"), ({"tags": [1]}, "'tags' must")],
    )
    async def test_other_wishes_are_refused(self, way: str, wanted: dict[str, Any], text: str) -> None:
        async with registry(way) as (_, caller):
            with pytest.raises(ValueError, match=text):
                await caller.discover(wanted)
            with pytest.raises(ValueError, match="either filter_by or"):
                await caller.discover({"name": "a"}, role="worker")

    async def test_registering_again_replaces_the_card(self, way: str) -> None:
        clock = FakeClock()
        async with registry(way, clock=clock) as (found, caller):
            await caller.register(BACK)
            since = clock.now()
            clock.advance(10)
            await caller.register(card("runtime://back/", "renamed"))
            assert [agent.name for agent in await caller.discover()] == ["renamed"]
            entry = found.get_entry("runtime://back")
        assert entry is not None
        assert (entry.registered_at, entry.last_seen) == (since, since + 10)

    async def test_unregistered_agent_is_gone_and_that_twice_is_harmless(self, way: str) -> None:
        async with registry(way) as (found, caller):
            await caller.register(BACK)
            await caller.unregister("runtime://back/")
            await caller.unregister("runtime://back")
            assert found.count() == 0
            assert found.get_entry("runtime://back") is None

    async def test_only_cards_are_registered(self, way: str) -> None:
        async with registry(way) as (_, caller):
            with pytest.raises(TypeError, match="registers its AgentCard, not dict"):
                await caller.register(BACK.to_dict())

    async def test_silent_agent_is_forgotten(self, way: str) -> None:
        clock = FakeClock()
        async with registry(way, entry_ttl_seconds=60, clock=clock) as (found, caller):
            await caller.register(BACK)
            await caller.register(FRONT)
            clock.advance(59)
            await caller.heartbeat("runtime://back/")
            clock.advance(1)
            assert await caller.discover() == [BACK]
            with pytest.raises(AgentNotFoundError, match="register it again"):
                await caller.heartbeat("runtime://front")
            clock.advance(59)
            assert found.count() == 0

    async def test_without_a_lifetime_nobody_is_forgotten(self, way: str) -> None:
        clock = FakeClock()
        async with registry(way, clock=clock) as (_, caller):
            await caller.register(BACK)
            clock.advance(10**9)
            assert await caller.discover() == [BACK]

    async def test_sign_of_life_of_a_stranger_is_an_error(self, way: str) -> None:
        async with registry(way) as (_, caller):
            with pytest.raises(AgentNotFoundError, match="runtime://nobody"):
                await caller.heartbeat("runtime://nobody")

    async def test_what_is_found_is_a_copy(self, way: str) -> None:
        agent = card("runtime://x", "x", tags=["a"])
        async with registry(way) as (_, caller):
            await caller.register(agent)
            agent.tags.append("mine")
            (await caller.discover())[0].tags.append("yours")
            assert (await caller.discover())[0].tags == ["a"]


class TestStorage:
    async def test_entries_outlive_the_registry(self, tmp_path: Path) -> None:
        clock = FakeClock()
        storage = SQLiteStorage(tmp_path / "registry.db")
        options: dict[str, Any] = {"entry_ttl_seconds": 60, "clock": clock}
        first = Registry(url=address(), storage=storage, **options)
        await first.register(FRONT)
        clock.advance(30)
        await first.register(BACK)
        again = Registry(url=address(), storage=SQLiteStorage(tmp_path / "registry.db"), **options)
        assert await again.discover() == [FRONT, BACK]
        clock.advance(30)
        assert await again.discover() == [BACK]
        again.clear()
        assert Registry(url=address(), storage=storage).count() == 0

    @pytest.mark.parametrize("stored", [7, {"version": 2, "entries": []}, {"version": 1, "entries": [{}]}])
    def test_storage_of_somebody_else_is_refused(self, stored: Any) -> None:
        storage = InMemoryStorage()
        storage.save(stored)
        with pytest.raises(ValueError, match="does not hold a registry"):
            Registry(storage=storage)

    async def test_change_that_cannot_be_stored_is_no_change(self) -> None:
        class Full(InMemoryStorage):
            def save(self, data: Any) -> None:
                raise OSError("full")

        found = Registry(storage=Full())
        with pytest.raises(OSError, match="full"):
            await found.register(BACK)
        assert found.count() == 0


class TestPlaces:
    async def test_registries_know_nothing_of_each_other(self) -> None:
        one, other = Registry(url=address()), Registry(url=address())
        await one.register(BACK)
        assert other.count() == 0

    async def test_registry_has_an_address_of_its_own(self) -> None:
        assert Registry().url == "runtime://registry"
        transport = RuntimeTransport("runtime://here")
        assert Registry(transport).url == "runtime://here"

    async def test_registry_is_reached_between_start_and_stop(self) -> None:
        found = Registry(url=address())
        client = RegistryClient("runtime", found.url)
        with pytest.raises(TransportConnectionError):
            await client.discover()
        await found.start()
        await found.start()
        await client.register(BACK)
        await found.stop()
        await found.stop()
        with pytest.raises(TransportConnectionError):
            await client.discover()
        assert found.count() == 1
        await found.start()
        assert await client.discover() == [BACK]
        await found.stop()

    async def test_registry_in_another_thread(self) -> None:
        with other_loop() as other:
            found = Registry(url=address())
            other.run(found.start())
            await RegistryClient(RuntimeTransport(found.url)).register(BACK)
            assert await found.discover() == [BACK]
            await found.stop()

    def test_client_needs_the_address(self) -> None:
        with pytest.raises(ValueError, match="needs the url of the registry"):
            RegistryClient("runtime")

    @pytest.mark.parametrize(("ttl", "error"), [(0, ValueError), (float("inf"), ValueError), ("60", TypeError)])
    def test_lifetime_is_a_number_above_zero(self, ttl: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match="entry_ttl_seconds"):
            Registry(entry_ttl_seconds=ttl)


class TestWire:
    @pytest.mark.parametrize(
        ("spec", "body", "answer"),
        [
            (REGISTER_AGENT, BACK.to_dict(), {"status": "agent registered successfully"}),
            (AGENT_HEARTBEAT, {"agent_url": FRONT.url}, {"status": "heartbeat recorded"}),
            (UNREGISTER_AGENT, {"agent_url": "runtime://nobody"}, {"status": "agent unregistered successfully"}),
            (LIST_AGENTS, None, [FRONT.to_dict()]),
        ],
    )
    async def test_replies_have_their_documented_shape(self, spec: RequestSpec, body: Any, answer: Any) -> None:
        async with registry("direct") as (found, _):
            await found.register(FRONT)
            assert await RuntimeTransport(None).send(spec, found.url, body) == answer

    @pytest.mark.parametrize("spec", [REGISTER_AGENT, AGENT_HEARTBEAT, UNREGISTER_AGENT])
    @pytest.mark.parametrize("body", [None, 7, [], {}, {"name": " "}, {"agent_url": ["x"]}])
    async def test_malformed_body_is_a_bad_request(self, spec: RequestSpec, body: Any) -> None:
        async with registry("direct") as (found, _):
            with pytest.raises(TransportRemoteError) as caught:
                await RuntimeTransport(None).send(spec, found.url, body)
            assert (caught.value.status_code, caught.value.code) == (400, "bad_request")
            assert found.count() == 0

    @pytest.mark.parametrize("params", [{"tag": "x"}, {"name": ["a", "b"]}, {"role": []}])
    async def test_malformed_query_is_a_bad_request(self, params: dict[str, Any]) -> None:
        async with registry("direct") as (found, _):
            with pytest.raises(TransportRemoteError) as caught:
                await RuntimeTransport(None).send(LIST_AGENTS, found.url, params=params)
            assert caught.value.status_code == 400

    @pytest.mark.parametrize("answer", [None, {"name": "x"}, [7], [{"name": "x"}]])
    async def test_answer_that_is_no_list_of_cards(self, answer: Any) -> None:
        class Odd(RuntimeTransport):
            async def send(self, *args: Any, **options: Any) -> Any:
                return answer

        with pytest.raises(TransportProtocolError, match="registry's answer cannot be read"):
            await RegistryClient(Odd("runtime://x")).discover()

    async def test_calls_follow_the_retry_policy(self) -> None:
        config = TransportConfig(retry=RetryPolicy(max_attempts=3))
        transport = RuntimeTransport(address(), config=config, clock=FakeClock())
        client = RegistryClient(transport)
        for call in (client.register(BACK), client.heartbeat("runtime://x"), client.unregister("runtime://x")):
            with pytest.raises(TransportConnectionError):
                await call
        assert transport.metrics["retries"] == 6


@pytest.mark.parametrize("name", ["timeout", "discovery_timeout"])
@pytest.mark.parametrize(
    ("value", "error"), [(0, ValueError), (float("inf"), ValueError), ("5", TypeError), (True, TypeError)]
)
def test_times_of_a_client_are_numbers_above_zero(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=f"RegistryClient {name}"):
        RegistryClient("runtime", "runtime://registry", **{name: value})
