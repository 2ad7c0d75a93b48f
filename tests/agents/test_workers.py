"""Worker tools: a child declared to the model as one typed tool."""

from __future__ import annotations

from typing import Any

import pytest
from agent_support import (
    agent,
    call,
    codes,
    infer,
    kinds,
    outcome,
    played,
    receipts,
    script,
    stream,
)

from protolink import (
    Agent,
    BudgetExceededError,
    CapabilityPolicy,
    CheckpointMismatchError,
    RunAction,
    RunBudget,
    RunContext,
    RunInterrupted,
    Task,
    TaskState,
    Tool,
    ToolRejectedError,
)
from protolink.journal import InMemoryDurableStore


def lookup(item_id: int) -> str:
    """Return an item from the local fixture."""
    return {1: "Evidence E1", 2: "Evidence E2"}[item_id]


def catalog(**options: Any) -> Agent:
    return Agent(name="catalog", tools=[lookup], verbosity=0, **options)


def researcher(*replies: Any) -> Agent:
    return agent(*replies or ("E1",), name="researcher", description="Finds evidence.")


def coordinator(*replies: Any, worker: Agent, **options: Any) -> Agent:
    found = agent(*replies, name="coordinator", subagents=[worker], **options)
    found.add_worker_tool(worker.name)
    return found


def bound(worker: Agent | None = None, *replies: Any, **options: Any) -> Agent:
    worker = worker or catalog()
    found = agent(*replies, name="coordinator", subagents=[worker], **options)
    found.add_worker_tool("catalog", tool="lookup", name="lookup_evidence")
    return found


@pytest.mark.claim("WRK-001", "WRK-003", "WRK-004", "WRK-007", "WRK-008", "WRK-010")
async def test_model_calls_the_worker_as_a_tool_and_it_becomes_an_agent_call() -> None:
    worker = researcher("The fixture contains evidence E1.")
    found = coordinator(call("researcher", task="Find evidence."), "The worker found E1.", worker=worker)
    task = infer(budget=RunBudget(max_llm_calls=3))
    events = await stream(found, task)
    assert task.get_output() == "The worker found E1."
    [requested] = [e for e in events if kinds([e]) == ["action_requested"]]
    action = requested.metadata["action"]
    assert (action["kind"], action["name"]) == ("agent.call", "researcher")
    assert action["payload"]["prompt"] == "Find evidence."
    [receipt] = [a for a in task.artifacts if a.kind == "action_result"]
    assert receipt.metadata["action_kind"] == "agent.call"


@pytest.mark.claim("WRK-012")
async def test_policy_judges_the_facade_as_a_delegation() -> None:
    shown: list[RunAction] = []
    found = coordinator(
        call("researcher", task="Find it."),
        "done",
        worker=researcher(),
        policy=CapabilityPolicy({"agent.delegate": "ask"}),
        approval_handler=lambda request, context: shown.append(request.action) or True,
    )
    assert await found.invoke("go") == "done"
    [action] = shown
    assert (action.kind, action.capabilities) == ("agent.call", {"agent.delegate"})


@pytest.mark.claim("WRK-013")
async def test_facade_itself_costs_no_tool_call() -> None:
    found = coordinator(call("researcher", task="Find it."), "done", worker=researcher())
    assert await found.invoke("go", budget=RunBudget(max_tool_calls=0)) == "done"
    direct = bound(None, call("lookup_evidence", item_id=1), "done")
    assert await direct.invoke("go", budget=RunBudget(max_tool_calls=1)) == "done"
    with pytest.raises(BudgetExceededError):
        await bound(None, call("lookup_evidence", item_id=1)).invoke("go", budget=RunBudget(max_tool_calls=0))


@pytest.mark.claim("WRK-005")
def test_inference_facade_takes_exactly_a_task() -> None:
    found = coordinator(worker=researcher())
    facade = found.tools["researcher"]
    assert list(facade.input_schema["properties"]) == facade.input_schema["required"] == ["task"]
    assert facade.input_schema["properties"]["task"]["type"] == "string"
    assert facade.input_schema["additionalProperties"] is False


@pytest.mark.claim("WRK-005", "WRK-006", "WRK-017")
@pytest.mark.parametrize(
    "arguments",
    [{"task": ""}, {"task": " \n "}, {"task": 5}, {}, {"task": "x", "agent": "other"}, {"prompt": "x"}],
)
async def test_other_arguments_are_refused_as_a_correction(arguments: dict[str, Any]) -> None:
    worker = researcher("never")
    task = infer()
    await coordinator(call("researcher", **arguments), "gave up", worker=worker).run_task(task)
    assert task.get_output() == "gave up"
    assert [kind for kind, _ in receipts(task)] == ["action_rejection"]
    assert played(worker.llm) == 0


@pytest.mark.claim("WRK-014", "WRK-015", "WRK-019", "WRK-028")
def test_bound_tool_copies_the_schemas_of_the_child_s_tool() -> None:
    worker = catalog()
    found = bound(worker)
    facade, original = found.tools["lookup_evidence"], worker.tools["lookup"]
    assert set(facade.input_schema["properties"]) == {"item_id"}
    assert (facade.input_schema, facade.output_schema) == (original.input_schema, original.output_schema)
    facade.input_schema["properties"].clear()
    assert set(original.input_schema["properties"]) == {"item_id"}


@pytest.mark.claim("WRK-014", "WRK-016", "WRK-018", "WRK-020")
@pytest.mark.parametrize("durable", [False, True])
async def test_direct_call_returns_the_result_of_the_child_s_tool(durable: bool) -> None:
    how = {"durability": InMemoryDurableStore()} if durable else {}
    assert await bound(**how).call_tool("lookup_evidence", item_id=1) == "Evidence E1"


@pytest.mark.claim("WRK-020")
async def test_direct_task_is_the_same_as_a_direct_call() -> None:
    task = Task.create_tool_call(tool_name="lookup_evidence", args={"item_id": 2})
    await bound().run_task(task)
    assert (task.state, task.get_output()) == (TaskState.COMPLETED, "Evidence E2")


@pytest.mark.claim("WRK-014", "WRK-018")
async def test_model_calls_the_bound_tool() -> None:
    task = infer()
    events = await stream(bound(None, call("lookup_evidence", item_id=1), "found"), task)
    assert task.get_output() == "found"
    requested = [e for e in events if kinds([e]) in (["action_requested"], ["action.requested"])]
    kinds_of = [getattr(e, "metadata", {}).get("action") or e.payload["action"] for e in requested]
    assert [(a["kind"], a["name"]) for a in kinds_of] == [("agent.call", "catalog"), ("tool.call", "lookup")]


@pytest.mark.claim("WRK-017")
async def test_arguments_of_the_bound_tool_cannot_change_the_route() -> None:
    for extra in ({"agent": "other"}, {"tool": "other"}, {"item_id": "x"}):
        task = infer()
        await bound(None, call("lookup_evidence", **{"item_id": 1, **extra}), "gave up").run_task(task)
        assert [kind for kind, _ in receipts(task)] == ["action_rejection"]


async def test_bad_arguments_of_a_direct_call_are_a_value_error() -> None:
    with pytest.raises(ValueError):
        await bound().call_tool("lookup_evidence", item_id="x")


@pytest.mark.claim("WRK-021")
async def test_facade_cannot_be_called_in_a_context() -> None:
    with pytest.raises(ValueError, match="worker"):
        await bound().call_tool_in_context("lookup_evidence", RunContext(), item_id=1)


@pytest.mark.claim("WRK-022")
async def test_facade_cannot_be_called_inside_active_execution() -> None:
    found = bound(None, call("nest"), "done")
    seen: list[Any] = []

    @found.tool
    async def nest() -> str:
        try:
            seen.append(await found.call_tool("lookup_evidence", item_id=1))
        except ValueError as error:
            seen.append(error)
        return "nested"

    assert await found.invoke("go") == "done"
    assert isinstance(seen[0], ValueError)


@pytest.mark.claim("WRK-023")
async def test_facade_itself_cannot_be_called() -> None:
    worker = researcher("never")
    facade = coordinator(worker=worker).tools["researcher"]
    with pytest.raises(ValueError, match="worker"):
        await facade(task="go")
    assert played(worker.llm) == 0


@pytest.mark.claim("WRK-024", "WRK-029", "WRK-031")
def test_names_and_descriptions_have_defaults() -> None:
    worker = agent("x", name="catalog", description="Keeps evidence.", tools=[lookup])
    found = agent("x", name="coordinator", subagents=[worker])
    inferring, tool = found.add_worker_tool("catalog"), found.add_worker_tool("catalog", tool="lookup")
    assert (inferring.name, tool.name) == ("catalog", "catalog_lookup")
    assert "Keeps evidence." in inferring.description
    assert "Return an item" in tool.description
    own = found.add_worker_tool("catalog", name="ask", description="Ask about the catalog.")
    assert (own.name, own.description) == ("ask", "Ask about the catalog.")
    assert (own.worker_name, own.tool_name, own.tags, own.capabilities) == (
        "catalog",
        None,
        ("worker",),
        ("agent.delegate",),
    )


@pytest.mark.claim("WRK-025", "WRK-026", "WRK-027", "WRK-041")
@pytest.mark.parametrize(
    ("worker", "options", "text"),
    [
        ("Catalog", {}, "Catalog"),
        ("unknown", {}, "unknown"),
        ("catalog", {}, "model"),
        ("catalog", {"tool": "missing"}, "missing"),
        ("catalog", {"tool": "Lookup"}, "Lookup"),
    ],
)
def test_target_that_is_not_there_is_refused(worker: str, options: dict[str, Any], text: str) -> None:
    found = agent("x", subagents=[catalog()])
    with pytest.raises(ValueError, match=text):
        found.add_worker_tool(worker, **options)
    assert found.tools == {}


@pytest.mark.claim("WRK-030")
@pytest.mark.parametrize("name", ["a", "_", "A" * 64, "a-b_9", "_x"])
def test_alias_that_fits_is_taken(name: str) -> None:
    found = agent("x", subagents=[researcher()])
    assert found.add_worker_tool("researcher", name=name).name == name


@pytest.mark.claim("WRK-030", "WRK-041")
@pytest.mark.parametrize("name", ["", "A" * 65, "9a", "-a", "a b", "a.b", "ä", "a\n"])
def test_alias_that_does_not_fit_is_refused(name: str) -> None:
    found = agent("x", subagents=[researcher()])
    with pytest.raises(ValueError, match="name"):
        found.add_worker_tool("researcher", name=name)


@pytest.mark.claim("WRK-034", "WRK-041")
@pytest.mark.parametrize("name", ["two words", "x" * 65, "9lives"])
def test_unsuitable_default_alias_needs_a_name(name: str) -> None:
    found = agent("x", subagents=[agent("y", name=name)])
    with pytest.raises(ValueError, match="name="):
        found.add_worker_tool(name)
    assert found.add_worker_tool(name, name="fits").worker_name == name


@pytest.mark.claim("WRK-033", "WRK-041")
@pytest.mark.parametrize(
    "name",
    [
        "taken",
        "researcher",
        "final",
        "tool_call",
        "agent_call",
        "protolink_delegate_agent",
        "protolink_call_agent_tool",
    ],
)
def test_name_that_is_taken_or_reserved_is_refused(name: str) -> None:
    found = agent("x", subagents=[researcher()], tools=[Tool.from_callable(lookup, name="taken")])
    found.add_worker_tool("researcher")
    before = dict(found.tools)
    with pytest.raises(ValueError, match="taken"):
        found.add_worker_tool("researcher", name=name)
    assert found.tools == before


@pytest.mark.claim("WRK-032")
def test_registration_executes_no_work() -> None:
    worker = researcher("never")
    coordinator(worker=worker)
    assert played(worker.llm) == 0


@pytest.mark.claim("WRK-035", "WRK-042")
@pytest.mark.parametrize("change", ["replaced", "removed"])
@pytest.mark.parametrize("direct", [False, True])
async def test_facade_never_picks_a_replacement(change: str, direct: bool) -> None:
    ran: list[int] = []

    def impostor(item_id: int) -> str:
        ran.append(item_id)
        return "impostor"

    found = bound(None, call("lookup_evidence", item_id=1), "gave up")
    if change == "replaced":
        tool = Tool.from_callable(impostor, name="lookup")
        found.roster.children["catalog"] = Agent(name="catalog", tools=[tool], verbosity=0)
    else:
        del found.roster.children["catalog"]
    if direct:
        with pytest.raises(ValueError, match="catalog"):
            await found.call_tool("lookup_evidence", item_id=1)
    else:
        await outcome(found, infer())
    assert ran == []


@pytest.mark.claim("WRK-042")
async def test_registering_anew_cures_a_replaced_child() -> None:
    found = bound()
    tool = Tool.from_callable(lambda item_id: "new", name="lookup", input_schema=None)
    found.roster.children["catalog"] = Agent(name="catalog", tools=[tool], verbosity=0)
    del found.tools["lookup_evidence"]
    found.add_worker_tool("catalog", tool="lookup", name="lookup_evidence")
    assert await found.call_tool("lookup_evidence", item_id=1) == "new"


@pytest.mark.claim("WRK-036")
def test_facade_belongs_to_the_agent_that_registered_it() -> None:
    facade = bound().tools["lookup_evidence"]
    with pytest.raises(ValueError, match="add_worker_tool"):
        agent("x", name="another", subagents=[catalog()]).add_tool(facade)
    with pytest.raises(ValueError, match="add_worker_tool"):
        Agent(name="another", tools=[facade], verbosity=0)


@pytest.mark.claim("WRK-011")
async def test_approval_inside_the_worker_pauses_the_durable_parent() -> None:
    tool = Tool.from_callable(lookup, capabilities=["look"])
    worker = Agent(name="catalog", tools=[tool], policy=CapabilityPolicy({"look": "ask"}), verbosity=0)
    found = bound(worker, call("lookup_evidence", item_id=1), "done", durability=InMemoryDurableStore())
    with pytest.raises(RunInterrupted) as caught:
        await found.invoke("go")
    request = caught.value.interruption
    assert request.kind == "approval"
    assert request.request["action"]["name"] == "lookup"
    assert await found.resume(caught.value.run_id, request_id=request.request_id, approved=True) == "done"


@pytest.mark.claim("WRK-002", "WRK-011")
async def test_policy_of_the_parent_binds_the_bound_tool() -> None:
    tool = Tool.from_callable(lookup, capabilities=["look"])
    worker = Agent(name="catalog", tools=[tool], verbosity=0)
    task = infer()
    found = bound(worker, call("lookup_evidence", item_id=1), policy=CapabilityPolicy({"look": "deny"}))
    await outcome(found, task)
    assert codes(task) == ["action_denied"]


@pytest.mark.claim("WRK-040", "SLI-048")
async def test_another_binding_is_another_durable_configuration() -> None:
    store = InMemoryDurableStore()

    def build(name: str, tool: str | None) -> Agent:
        worker = Agent(name="worker", llm=script("kid"), tools=[lookup], verbosity=0)
        gate = Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])
        found = agent(
            call("act"),
            "done",
            subagents=[worker],
            tools=[gate],
            policy=CapabilityPolicy({"act": "ask"}),
            durability=store,
        )
        found.add_worker_tool("worker", name=name, tool=tool)
        return found

    with pytest.raises(RunInterrupted) as caught:
        await build("ask", None).invoke("go")
    request = caught.value.interruption.request_id
    for other in (build("ask_other", None), build("ask", "lookup")):
        with pytest.raises(CheckpointMismatchError):
            await other.resume(caught.value.run_id, request_id=request, approved=True)
    same = build("ask", None)
    same.llm.sequential_responses = ["done"]
    assert await same.resume(caught.value.run_id, request_id=request, approved=True) == "done"


async def test_rejection_by_the_worker_s_tool_is_a_correction_of_the_parent() -> None:
    def picky(item_id: int) -> str:
        if item_id == 0:
            raise ToolRejectedError(code="zero", message="zero is taken")
        return "ok"

    worker = Agent(name="catalog", tools=[Tool.from_callable(picky, name="lookup")], verbosity=0)
    task = infer()
    await bound(worker, call("lookup_evidence", item_id=0), call("lookup_evidence", item_id=1), "done").run_task(task)
    assert task.get_output() == "done"
    assert [kind for kind, _ in receipts(task)] == ["action_rejection", "action_result"]
