"""What an agent accepts at construction, and that it starts nothing."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agent_support import agent, infer, outcome, script

from protolink import Agent, AgentCard, CapabilityPolicy, SQLiteDurableStore, SubagentLimits
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM

CARD = AgentCard(name="carded", description="From a card", url="http://localhost:9000")


def test_card_is_the_first_positional_argument() -> None:
    found = Agent(CARD)
    assert (found.name, found.description, found.card.url) == ("carded", "From a card", "http://localhost:9000")


def test_card_may_be_a_mapping() -> None:
    assert Agent({"name": "mapped", "description": "d", "url": "runtime://mapped"}).name == "mapped"


def test_name_alone_makes_a_runtime_card() -> None:
    card = Agent(name="two words").card
    assert (card.description, card.url, card.transport) == ("Agent two words", "runtime://two%20words", "runtime")


def test_description_and_url_go_into_the_card() -> None:
    card = Agent(name="a", description="does things", url="http://localhost:1").card
    assert (card.description, card.url) == ("does things", "http://localhost:1")


@pytest.mark.parametrize("more", [{"name": "x"}, {"description": "x"}, {"url": "http://localhost:1"}])
def test_card_and_its_single_fields_exclude_each_other(more: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="not both"):
        Agent(CARD, **more)


@pytest.mark.parametrize("name", [None, "", "   ", 5])
def test_agent_without_card_needs_a_nonblank_name(name: Any) -> None:
    with pytest.raises(ValueError, match="name"):
        Agent(name=name)


def test_card_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="int"):
        Agent(5)  # type: ignore[arg-type]


def test_llm_may_be_given_by_name() -> None:
    found = Agent(name="a", llm="mock").llm
    assert isinstance(found, MockLLM)


def test_llm_may_be_given_as_provider_and_model() -> None:
    found = Agent(name="a", llm="mock:small").llm
    assert found is not None
    assert (found.provider, found.model) == ("mock", "small")


def test_unknown_llm_name_is_refused() -> None:
    with pytest.raises(ValueError, match="no-such-provider"):
        Agent(name="a", llm="no-such-provider")


def test_llm_of_another_type_is_refused() -> None:
    with pytest.raises(TypeError, match="object"):
        Agent(name="a", llm=object())  # type: ignore[arg-type]


def test_llm_and_factory_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="llm_factory"):
        Agent(name="a", llm=script("x"), llm_factory=lambda: script("x"))


def test_llm_can_be_set_later() -> None:
    found = agent()
    assert not found.can_infer
    found.llm = script("later")
    assert found.can_infer


async def test_factory_is_called_once_for_each_run_and_not_at_construction() -> None:
    made: list[MockLLM] = []

    def factory() -> MockLLM:
        made.append(script({"type": "tool_call", "tool": "one", "args": {}}, "done"))
        return made[-1]

    def one() -> int:
        return 1

    found = Agent(name="a", llm_factory=factory, tools=[one], verbosity=0)
    assert (made, found.llm) == ([], None)
    assert await found.invoke("go") == "done"
    assert await found.invoke("go") == "done"
    assert len(made) == 2


async def test_async_factory_is_awaited() -> None:
    async def factory() -> str:
        return "mock"

    found = Agent(name="a", llm_factory=factory, verbosity=0)
    assert "mock response" in await found.invoke("go")


async def test_factory_that_returns_no_model_is_a_type_error_of_the_run() -> None:
    found = Agent(name="a", llm_factory=lambda: 5, verbosity=0)
    with pytest.raises(TypeError, match="int"):
        await found.invoke("go")


async def test_errors_of_the_factory_propagate() -> None:
    def factory() -> Any:
        raise LookupError("no credentials")

    with pytest.raises(LookupError, match="no credentials"):
        await Agent(name="a", llm_factory=factory, verbosity=0).invoke("go")


@pytest.mark.parametrize("tools", [[5], ["add"], [object()]])
def test_tools_that_are_none_are_a_type_error(tools: list[Any]) -> None:
    with pytest.raises(TypeError):
        Agent(name="a", tools=tools)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sync_execution", "process"),
        ("sync_execution", True),
        ("max_sync_workers", 0),
        ("max_sync_workers", -1),
        ("max_sync_workers", True),
        ("max_sync_workers", 1.5),
        ("skills", "some"),
        ("retrieval", "never"),
        ("verbosity", 3),
        ("verbosity", True),
        ("execution_version", ""),
        ("execution_version", "  "),
        ("execution_version", 1),
        ("system_prompt", 5),
        ("system_prompt", "\ud800"),
        ("description", 5),
        ("description", "\ud800"),
        ("max_result_bytes", 0),
        ("max_result_bytes", "64"),
        ("max_result_bytes", True),
        ("store_patience", -1),
        ("store_patience", float("nan")),
        ("store_patience", "60"),
    ],
)
def test_value_outside_its_range_is_refused_by_name(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Agent(name="a", **{name: value})


@pytest.mark.claim("SLI-044")
@pytest.mark.parametrize("value", [0, -1, True, False, 2.0, "3"])
def test_yield_after_steps_must_be_a_positive_whole_number(value: Any) -> None:
    with pytest.raises(ValueError, match="yield_after_steps"):
        Agent(name="a", yield_after_steps=value, durability=InMemoryDurableStore())


@pytest.mark.claim("SLI-043")
async def test_slices_without_durability_are_refused_before_the_model_is_asked() -> None:
    llm = script("never")
    found = Agent(name="a", llm=llm, yield_after_steps=1, verbosity=0)
    error = await outcome(found, infer())
    assert isinstance(error, ValueError)
    assert "durability" in str(error)
    assert llm._played == 0


@pytest.mark.parametrize("name", ["budget_policy", "subagent_limits"])
def test_budget_policy_and_limits_are_what_they_say(name: str) -> None:
    with pytest.raises(TypeError, match=name):
        Agent(name="a", **{name: 5})


def test_policy_must_be_able_to_evaluate() -> None:
    with pytest.raises(TypeError, match="evaluate"):
        Agent(name="a", policy=object())


def test_approval_handler_must_be_callable() -> None:
    with pytest.raises(TypeError, match="approval_handler"):
        Agent(name="a", approval_handler="yes")


@pytest.mark.parametrize("clock", [0, 5, object(), time.time])
def test_clock_must_be_one(clock: Any) -> None:
    with pytest.raises(TypeError, match="clock must have now, sleep_until, call_at"):
        Agent(name="a", clock=clock)


@pytest.mark.parametrize("name", ["override_system_prompt", "expose_tool_results", "parallel_tool_calls"])
@pytest.mark.parametrize("value", ["no", 0, None])
def test_flags_are_true_or_false(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{name} must be True or False"):
        Agent(name="a", **{name: value})


@pytest.mark.parametrize("name", ["tools", "subagents"])
@pytest.mark.parametrize("value", [0, 5, "act", object()])
def test_tools_and_subagents_are_several(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} must be a list"):
        Agent(name="a", **{name: value})


def test_durability_may_be_a_path(tmp_path: Path) -> None:
    assert isinstance(Agent(name="a", durability=tmp_path / "runs.sqlite").durability, SQLiteDurableStore)
    assert isinstance(Agent(name="a", durability=str(tmp_path / "more.sqlite")).durability, SQLiteDurableStore)


def test_durability_may_be_any_object_with_the_four_methods() -> None:
    class Store:
        def get(self) -> None: ...

        acquire = save = release = get

    store = Store()
    assert Agent(name="a", durability=store).durability is store  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [5, object(), {"path": "x"}, True])
def test_durability_of_another_type_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="durability"):
        Agent(name="a", durability=value)


def test_subagents_must_be_agents() -> None:
    with pytest.raises(TypeError, match="str"):
        Agent(name="a", subagents=["kid"])  # type: ignore[list-item]


@pytest.mark.parametrize("names", [("kid", "KID"), ("Parent",)])
def test_names_of_subagents_are_unique_ignoring_case(names: tuple[str, ...]) -> None:
    children = [Agent(name=name) for name in names]
    with pytest.raises(ValueError, match="taken"):
        Agent(name="parent", subagents=children)


def test_subagents_are_found_by_name() -> None:
    kid = Agent(name="kid")
    assert Agent(name="a", subagents=[kid]).subagents == {"kid": kid}


@pytest.mark.parametrize("name", ["max_children", "max_concurrency", "max_depth"])
@pytest.mark.parametrize("value", [0, -1, True, 1.5, None])
def test_subagent_limits_are_positive_whole_numbers(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        SubagentLimits(**{name: value})


def test_background_children_and_durability_exclude_each_other() -> None:
    with pytest.raises(ValueError, match="background"):
        Agent(name="a", durability=InMemoryDurableStore(), subagent_limits=SubagentLimits(background=True))


def test_skills_follow_the_tools_unless_they_are_fixed() -> None:
    def one() -> int:
        return 1

    auto, fixed = Agent(name="a", tools=[one]), Agent(name="a", tools=[one], skills="fixed")
    auto.add_tool(lambda: 2)
    assert [skill.id for skill in auto.card.skills] == list(auto.tools)
    assert fixed.card.skills == []


@pytest.mark.claim("POL-009")
async def test_without_a_policy_everything_is_allowed() -> None:
    found = agent()

    @found.tool(capabilities=["anything.at_all"])
    def act() -> str:
        return "acted"

    assert isinstance(found.policy, CapabilityPolicy)
    assert await found.call_tool("act") == "acted"


def test_construction_starts_nothing() -> None:
    before = threading.active_count()
    found = Agent(name="a", llm="mock", tools=[lambda: 1], sync_execution="thread", subagents=[Agent(name="kid")])
    assert threading.active_count() == before
    assert found.active_task_ids == ()
