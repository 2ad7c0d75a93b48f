"""Groups of agents that others can reach: readiness, registration, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest
from agent_support import FakeClock, Gate, call, script, until

from protolink import Agent, AgentCard, AgentGroup, GroupLimits, Task
from protolink.client import AgentClient
from protolink.discovery import Registry, RegistryClient
from protolink.errors import AgentNotFoundError, TransportConnectionError
from protolink.transport import RuntimeTransport


def served(name: str, *responses: Any, registry: Any = None, **options: Any) -> Agent:
    llm = script(*responses) if responses else None
    return Agent(
        AgentCard(name, name, f"runtime://{name}", "runtime", capabilities={"streaming": True}),
        llm=llm,
        transport="runtime",
        registry=registry,
        verbosity=0,
        **options,
    )


@pytest.fixture
def registry() -> Registry:
    return Registry("runtime", "runtime://registry")


@pytest.mark.claim("GRP-009")
async def test_the_group_is_entered_when_cards_answer_and_all_are_registered(registry: Registry) -> None:
    agents = [served("a", registry=registry), served("b", registry=registry)]
    async with AgentGroup(agents, registry=registry, own_registry=True) as group:
        client = AgentClient("runtime")
        assert [(await client.get_agent_card(f"runtime://{n}")).name for n in ("a", "b")] == ["a", "b"]
        assert sorted(registry.list_urls()) == ["runtime://a", "runtime://b"]
        assert all(member["ready"] for member in group.snapshot()["agents"])


@pytest.mark.claim("GRP-009", "GRP-010")
async def test_a_registration_that_fails_keeps_the_group_closed_and_takes_everything_back() -> None:
    class Closed(Registry):
        async def register(self, card: Any) -> Any:
            raise AgentNotFoundError("not taken")

    registry = Closed("runtime", "runtime://registry")
    agents = [served("a"), served("b", registry=registry)]
    with pytest.raises(AgentNotFoundError):
        async with AgentGroup(agents):
            raise AssertionError("entered")
    for name in ("a", "b"):
        with pytest.raises(TransportConnectionError):
            await AgentClient("runtime").get_agent_card(f"runtime://{name}")


@pytest.mark.claim("GRP-009")
async def test_two_agents_at_one_address_do_not_both_start() -> None:
    first, second = served("same"), Agent(AgentCard("other", "", "runtime://same"), transport="runtime", verbosity=0)
    with pytest.raises(TransportConnectionError):
        async with AgentGroup([first, second]):
            raise AssertionError("entered")
    with pytest.raises(TransportConnectionError):
        await AgentClient("runtime").get_agent_card("runtime://same")


@pytest.mark.claim("GRP-013")
async def test_external_agents_client_and_registry_go_on_after_the_group(registry: Registry) -> None:
    client = AgentClient("runtime")
    await registry.start()
    external = served("outside", "still here", registry=registry)
    await external.start()
    async with AgentGroup([served("inside")], external_agents=[external], registry=registry, client=client):
        pass
    assert (await client.get_agent_card("runtime://outside")).name == "outside"
    assert [card.name for card in await registry.discover()] == ["outside"]
    assert registry.list_urls() == ["runtime://outside"]
    with pytest.raises(TransportConnectionError):
        await client.get_agent_card("runtime://inside")
    await external.stop()
    await registry.stop()


@pytest.mark.claim("GRP-014")
async def test_an_owned_registry_is_up_with_the_group_and_down_after_it(registry: Registry) -> None:
    remote = RegistryClient(RuntimeTransport("runtime://registry"))
    with pytest.raises(TransportConnectionError):
        await remote.discover()
    async with AgentGroup([served("a", registry=remote)], registry=registry, own_registry=True):
        assert [card.name for card in await remote.discover()] == ["a"]
    with pytest.raises(TransportConnectionError):
        await remote.discover()
    assert registry.list_urls() == [], "the agent did not leave before the registry stopped"


@pytest.mark.claim("GRP-015")
async def test_an_owned_agents_server_comes_and_goes_with_it() -> None:
    client = AgentClient("runtime")
    agent = served("a", "hello")
    async with AgentGroup([agent]):
        assert (await client.get_agent_card("runtime://a")).name == "a"
    with pytest.raises(TransportConnectionError):
        await client.get_agent_card("runtime://a")


async def test_a_group_with_a_client_runs_tasks_at_addresses_under_its_limits() -> None:
    gate = Gate()
    external = served("far", call("wait"), "one", "two", tools=[gate.wait])
    await external.start()
    async with AgentGroup([], client=AgentClient("runtime"), limits=GroupLimits(max_concurrent_runs=1)) as group:
        first = group.run("runtime://far", "go", request_id="r1")
        assert group.run("runtime://far", "go", request_id="r1") is first
        second = group.run("runtime://far", "go on")
        await gate.reached.wait()
        assert second.queued
        gate.opened.set()
        assert [(await first.result()).output, (await second.result()).output] == ["one", "two"]
    await external.stop()


async def test_addresses_need_the_groups_client() -> None:
    async with AgentGroup([served("a")]) as group:
        with pytest.raises(ValueError, match="no agent 'runtime://a'"):
            group.run("runtime://a", "go")


async def test_starting_and_stopping_again_is_harmless() -> None:
    agent = served("a")
    await agent.start()
    await agent.start()
    assert (await AgentClient("runtime").get_agent_card("runtime://a")).name == "a"
    await agent.stop()
    await agent.stop()
    await agent.start()
    assert (await AgentClient("runtime").get_agent_card("runtime://a")).name == "a"
    await agent.stop()


async def test_an_agent_without_a_transport_starts_nothing() -> None:
    agent = Agent(name="alone", verbosity=0)
    await agent.start()
    with pytest.raises(TransportConnectionError):
        await AgentClient("runtime").get_agent_card("runtime://alone")
    await agent.stop()


def test_outside_a_loop_an_agent_starts_and_stops_by_itself() -> None:
    agent = served("sync", "hello from afar")
    agent.start()
    try:
        done = AgentClient("runtime").sync.send_task("runtime://sync", Task.create_infer(prompt="go"))
        assert done.get_output() == "hello from afar"
    finally:
        agent.stop()


async def test_a_registry_that_forgot_an_agent_is_told_its_card_again(registry: Registry) -> None:
    clock = FakeClock()
    agent = served("a", registry=registry, registry_heartbeat_interval=10, clock=clock)
    await agent.start()
    registry.clear()
    await until(lambda: registry.list_urls() == ["runtime://a"])
    await agent.stop()
    assert registry.list_urls() == []


@pytest.mark.claim("GRP-009")
async def test_an_agent_whose_card_cannot_be_had_keeps_the_group_closed() -> None:
    class Deaf(RuntimeTransport):
        async def send(self, *args: Any, **options: Any) -> Any:
            raise TransportConnectionError("nobody answers")

    deaf = Agent(AgentCard("deaf", "", "runtime://deaf"), transport=Deaf("runtime://deaf"), verbosity=0)
    with pytest.raises(TransportConnectionError, match="nobody answers"):
        async with AgentGroup([served("a"), deaf]):
            raise AssertionError("entered")
    with pytest.raises(TransportConnectionError):
        await AgentClient("runtime").get_agent_card("runtime://a")
