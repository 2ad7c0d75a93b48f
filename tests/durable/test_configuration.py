"""Which store, and what must match before a stored run goes on."""

from __future__ import annotations

import stat
from typing import Any

import pytest

from protolink import (
    Agent,
    CapabilityPolicy,
    CheckpointMismatchError,
    RunContext,
    RunInterrupted,
    SubagentLimits,
    Task,
)
from protolink.journal import SQLiteDurableStore
from protolink.llms import MockLLM
from protolink.tools import Tool, ask_user_tool

QUESTION = {"question": "Which format?"}


def application(path: Any, **changes: Any) -> Agent:
    """An agent with everything that belongs to the contract; ``changes`` replace some of it."""
    tools = changes.pop("tools", None) or [ask_user_tool(), note()]
    child = changes.pop("child", None) or Agent(name="worker", llm=MockLLM(), description="works")
    parts: dict[str, Any] = {
        "name": "helper",
        "description": "helps",
        "llm": MockLLM("small", {"temperature": 0}),
        "system_prompt": "Be brief.",
        "subagents": [child],
        "durability": str(path),
        "execution_version": "workflow-3",
    }
    return Agent(tools=tools, **parts | changes)


def note(**how: Any) -> Tool:
    def note(text: str) -> str:
        """Note a text."""
        return text

    return Tool.from_callable(note, **{"capabilities": ["note.write"]} | how)


def wider_note() -> Tool:
    def note(text: str, color: str = "red") -> str:
        """Note a text."""
        return text

    return Tool.from_callable(note, capabilities=["note.write"])


def persistent_model() -> MockLLM:
    """The same model, with more corrections for its calls."""
    found = MockLLM("small", {"temperature": 0})
    found.max_tool_corrections += 1
    return found


async def paused(path: Any) -> RunInterrupted:
    with pytest.raises(RunInterrupted) as caught:
        await application(path).call_tool("ask_user", **QUESTION)
    return caught.value


def answer(pause: Any) -> dict[str, Any]:
    return {"request_id": pause.interruption.request_id, "answer": "CSV"}


CHANGES: list[Any] = [
    ({"llm": MockLLM("large", {"temperature": 0})}, "model"),
    ({"llm": MockLLM("small", {"temperature": 1})}, "model"),
    ({"llm": MockLLM("small", {"temperature": 0}, reasoning="basic")}, "model"),
    ({"llm": MockLLM("small", {"temperature": 0}, tool_calling="native")}, "model"),
    ({"llm": persistent_model()}, "model"),
    ({"llm": None}, "model"),
    ({"system_prompt": "Be long."}, "instructions"),
    ({"override_system_prompt": True}, "instructions"),
    ({"description": "hinders"}, "agent"),
    ({"tools": [ask_user_tool(), note(description="Another text.")]}, "tool:note"),
    ({"tools": [ask_user_tool(), note(capabilities=["note.read"])]}, "tool:note"),
    ({"tools": [ask_user_tool(), wider_note()]}, "tool:note"),
    ({"tools": [ask_user_tool(), note(output_schema={"type": "string", "maxLength": 9})]}, "tool:note"),
    ({"tools": [ask_user_tool()]}, "tool:note"),
    ({"subagents": []}, "subagent:worker"),
    ({"child": Agent(name="worker", llm=MockLLM(), description="rests")}, "worker/agent"),
    ({"subagent_limits": SubagentLimits(max_children=3)}, "limits"),
    ({"yield_after_steps": 4}, "slice"),
    ({"execution_version": "workflow-4"}, "version"),
]


@pytest.mark.claim("STR-018", "STR-019", "STR-021", "STR-022", "DUR-058", "DUR-044")
@pytest.mark.parametrize(("change", "part"), CHANGES)
async def test_a_changed_contract_is_refused_with_the_name_of_the_part(
    tmp_path: Any, change: dict[str, Any], part: str
) -> None:
    path = tmp_path / "runs.sqlite"
    pause = await paused(path)
    other = application(path, **dict(change))
    with pytest.raises(CheckpointMismatchError, match=part) as caught:
        await other.resume(pause.run_id, **answer(pause))
    [named] = [found for found in caught.value.changes if found["part"] == part]
    assert named["old"] != named["new"]
    # The stored call is a question; a note that is described in another way, or takes more, is nothing to it.
    assert named["breaking"] is (part != "tool:note" or change["tools"][1:] == [])
    assert named["reason"]
    # Nothing was migrated or spoilt: the matching application still goes on.
    assert (await application(path).resume(pause.run_id, **answer(pause)))["answer"] == "CSV"


@pytest.mark.parametrize("place", ["", "worker/"])
async def test_a_changed_schema_breaks_what_its_tool_does_not_take_any_more(tmp_path: Any, place: str) -> None:
    def asking(annotation: Any, name: str = "sort/by:it") -> Tool:
        def sort(key: Any) -> str:
            """Sort."""
            return "sorted"

        sort.__annotations__["key"] = annotation
        return Tool.from_callable(sort, name=name, capabilities=["sort"])

    def agent(*tools: Tool) -> Agent:
        model = MockLLM(sequential_responses=turns)
        parts: dict[str, Any] = {"llm": model, "tools": tools, "policy": CapabilityPolicy({"sort": "require_approval"})}
        if not place:
            return Agent(name="root", durability=str(tmp_path / "runs.sqlite"), **parts)
        boss = MockLLM(sequential_responses=[delegation, "done"])
        worker = Agent(name="worker", **parts)
        return Agent(name="root", llm=boss, subagents=[worker], durability=str(tmp_path / "runs.sqlite"))

    delegation = {"type": "agent_call", "agent": "worker", "action": "infer", "prompt": "go"}
    turns = [{"type": "tool_call", "tool": "sort/by:it", "args": {"key": "name"}}, "done"]
    with pytest.raises(RunInterrupted) as caught:
        await agent(asking(str)).invoke("go")
    for tools, expected in (
        ([asking(int)], {"sort/by:it": True}),
        ([asking(str | int)], {"sort/by:it": False}),
        ([], {"sort/by:it": True}),
        ([asking(str), asking(str, "other")], {"other": False}),
    ):
        with pytest.raises(CheckpointMismatchError) as refused:
            await agent(*tools).resume(caught.value.run_id)
        told = {change["part"]: change["breaking"] for change in refused.value.changes}
        assert told == {f"{place}tool:{name}": breaks for name, breaks in expected.items()}


@pytest.mark.claim("STR-021")
async def test_a_changed_contract_is_refused_in_every_control(tmp_path: Any) -> None:
    path = tmp_path / "runs.sqlite"
    pause = await paused(path)
    other = application(path, execution_version="other")
    for attempt in (other.resume(pause.run_id), other.resume_task(pause.run_id)):
        with pytest.raises(CheckpointMismatchError, match="version"):
            await attempt
    with pytest.raises(CheckpointMismatchError, match="version"):
        other.reconcile(pause.run_id, "action_x", result=1)


@pytest.mark.claim("STR-020", "DUR-043")
@pytest.mark.parametrize(
    "change",
    [
        {"policy": CapabilityPolicy({"note.write": "require_approval"})},
        {"expose_tool_results": True},
        {"llm": MockLLM("small", {"temperature": 0}, default_response="another client")},
        {"tools": [ask_user_tool(timeout_seconds=5), note()]},
    ],
)
async def test_what_is_not_in_the_contract_is_not_noticed(tmp_path: Any, change: dict[str, Any]) -> None:
    path = tmp_path / "runs.sqlite"
    pause = await paused(path)
    assert (await application(path, **dict(change)).resume(pause.run_id, **answer(pause)))["answer"] == "CSV"


async def test_a_rotated_secret_is_no_other_model(tmp_path: Any) -> None:
    def params(secret: str, temperature: int = 0) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {secret}", "X-Team": "red"}
        return {"temperature": temperature, "api_key": secret, "extra_headers": headers, "seeds": [object()]}

    path = tmp_path / "runs.sqlite"
    with pytest.raises(RunInterrupted) as caught:
        first = application(path, llm=MockLLM("small", params("sk-old-0123456789abcdef")))
        await first.call_tool("ask_user", **QUESTION)
    pause = caught.value
    rotated = params("sk-new-fedcba9876543210")
    for other in (params("sk-new-fedcba9876543210", 1), {**rotated, "extra_headers": {"X-Team": "blue"}}):
        with pytest.raises(CheckpointMismatchError, match="model"):
            await application(path, llm=MockLLM("small", other)).resume(pause.run_id, **answer(pause))
    agent = application(path, llm=MockLLM("small", rotated))
    assert (await agent.resume(pause.run_id, **answer(pause)))["answer"] == "CSV"


@pytest.mark.claim("STR-020")
async def test_a_changed_function_body_is_not_noticed(direct: Any) -> None:
    def old() -> Tool:
        def publish(text: str) -> str:
            """Publish a text."""
            return f"{text} by the old body"

        return Tool.from_callable(publish, capabilities=["content.publish"])

    def new(client: dict[str, str]) -> Tool:
        def publish(text: str) -> str:
            """Publish a text."""
            words = [text, "by", client["name"]]
            return " ".join(words)

        return Tool.from_callable(publish, capabilities=["content.publish"])

    policy = CapabilityPolicy({"content.publish": "require_approval"})
    pause = await direct.pause(direct.agent([old()], ("publish", {"text": "hello"}), policy=policy))
    response = {"request_id": pause.interruption.request_id, "approved": True}
    resumed = direct.agent([new({"name": "another client"})], policy=policy)
    assert await resumed.resume(pause.run_id, **response) == "hello by another client"


async def test_a_factorys_model_is_part_of_the_contract(tmp_path: Any) -> None:
    path = tmp_path / "runs.sqlite"
    pause = await paused(path)
    same = application(path, llm=None, llm_factory=lambda: MockLLM("small", {"temperature": 0}))
    other = application(path, llm=None, llm_factory=lambda: MockLLM("large"))
    with pytest.raises(CheckpointMismatchError, match="model"):
        await other.resume(pause.run_id, **answer(pause))
    assert (await same.resume(pause.run_id, **answer(pause)))["answer"] == "CSV"


@pytest.mark.claim("STR-021", "DUR-058")
async def test_another_agents_run_is_refused(tmp_path: Any) -> None:
    path = tmp_path / "runs.sqlite"
    pause = await paused(path)
    with pytest.raises(CheckpointMismatchError, match="helper"):
        await application(path, name="stranger").resume(pause.run_id, **answer(pause))


@pytest.mark.claim("STR-012")
async def test_a_stored_run_id_takes_no_other_task(scene: Any) -> None:
    agent = scene.agent([ask_user_tool()], ("ask_user", QUESTION))
    await scene.pause(agent)
    with pytest.raises(CheckpointMismatchError, match="stored for another task"):
        await scene.begin(scene.agent([ask_user_tool()]))
    assert agent.durability.get("run-1").status == "input-required"


@pytest.mark.claim("STR-012")
async def test_a_stored_task_id_takes_no_other_prompt(scene: Any) -> None:
    agent = scene.agent([ask_user_tool()], ("ask_user", QUESTION))
    pause = await scene.pause(agent)
    other = Task.create_infer(prompt="something else", context=RunContext(run_id="run-1"))
    other.id = pause.task.id
    with pytest.raises(CheckpointMismatchError, match="stored for another task") as refused:
        await scene.agent([ask_user_tool()]).run_task(other)
    assert "Which format" not in str(refused.value)
    assert other.state.value == "submitted"
    assert "interruption" not in other.metadata
    assert agent.durability.get("run-1").status == "input-required"


async def test_a_paused_task_that_is_submitted_again_stays_paused(scene: Any) -> None:
    agent = scene.agent([ask_user_tool()], ("ask_user", QUESTION))
    pause = await scene.pause(agent)
    before = agent.durability.get("run-1")
    again = await scene.agent([ask_user_tool()]).run_task(pause.task)
    assert (again.state.value, again.metadata["interruption"]) == ("input-required", pause.interruption.to_dict())
    assert agent.durability.get("run-1") == before


@pytest.mark.claim("STR-001", "STR-011", "DUR-001")
async def test_a_path_makes_a_private_sqlite_file(tmp_path: Any) -> None:
    agent = application(tmp_path / "runs.sqlite")
    await agent.call_tool("note", text="x")
    assert isinstance(agent.durability, SQLiteDurableStore)
    assert stat.S_IMODE((tmp_path / "runs.sqlite").stat().st_mode) == 0o600


@pytest.mark.claim("STR-002", "STR-003")
async def test_a_store_with_a_lease_and_a_version_label_are_taken(tmp_path: Any) -> None:
    store = SQLiteDurableStore(tmp_path / "runs.sqlite", lease_seconds=42)
    agent = application("", durability=store)
    assert agent.durability is store
    assert (agent.durability.lease_seconds, agent.execution_version) == (42, "workflow-3")
    await agent.call_tool("note", text="x")
    [stored] = store.list()
    assert stored.status == "completed"


@pytest.mark.claim("STR-014")
async def test_a_store_of_four_methods_serves(scene: Any, tape: Any) -> None:
    pause = await scene.pause(scene.agent([ask_user_tool()], ("ask_user", QUESTION), durability=tape))
    assert tape.get("run-1").data["interruption"] == pause.interruption.to_dict()
    again = scene.agent([ask_user_tool()], durability=tape)
    await again.resume("run-1", **answer(pause))
    assert tape.get("run-1").status == "completed"
    assert tape.owners == {}


@pytest.mark.parametrize("durability", [5, object(), ["runs.sqlite"]])
def test_what_is_no_store_is_refused_with_the_missing_methods(durability: Any) -> None:
    with pytest.raises(TypeError, match="acquire"):
        Agent(name="helper", durability=durability)


@pytest.mark.parametrize("version", ["", "  ", 3, None])
def test_a_version_label_is_nonblank_text(version: Any) -> None:
    with pytest.raises(ValueError, match="execution_version"):
        Agent(name="helper", execution_version=version)
