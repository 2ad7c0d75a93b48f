"""RunManager: an operator lists, inspects and controls stopped runs."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from protolink import (
    Agent,
    CapabilityPolicy,
    CheckpointMismatchError,
    DurableExecutionError,
    RedactionPolicy,
    RunAction,
    RunBusyError,
    RunManager,
    UncertainExecutionError,
)
from protolink.models.ids import iso_from_seconds
from protolink.runtime import RunContext
from protolink.tools import PreparedTool, Tool, ask_user_tool

ASK = CapabilityPolicy({"content.publish": "require_approval"})
QUESTION = ("ask_user", {"question": "Which format?"})
CALL = ("publish", {"text": "hello"})
SECRET = "sk-abcdefghijklmnopqrstuvwxyz123456"


def fresh(scene: Any, *calls: Any, **how: Any) -> Any:
    return scene.agent([ask_user_tool(), scene.publish()], *(calls or scene.calls), **how)


def broken(scene: Any, *calls: Any, **how: Any) -> Any:
    def publish(text: str) -> str:
        """Publish a text."""
        scene.effects.append(text)
        raise OSError("reset")

    return scene.agent([Tool.from_callable(publish)], *(calls or scene.calls), **how)


@pytest.mark.claim("MGR-001", "MGR-002", "MGR-005")
async def test_a_waiting_run_is_listed_and_inspected(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, QUESTION))
    manager = RunManager(fresh(scene))
    [listed] = manager.list(status="input-required")
    found = manager.inspect(pause.run_id)
    assert manager.list(status="completed") == []
    for shown in (listed, found):
        assert (shown["run_id"], shown["agent_name"], shown["status"]) == ("run-1", "helper", "input-required")
        assert shown["interruption"] == pause.interruption.to_dict()
        assert shown["usage"]["tool_calls"] == 1
        assert shown["uncertain_actions"] == []


@pytest.mark.claim("MGR-003", "MGR-011")
async def test_an_inspected_request_is_answered(scene: Any) -> None:
    await scene.pause(fresh(scene, QUESTION))
    manager = RunManager(fresh(scene))
    pending = manager.inspect("run-1")["interruption"]
    answer = {"request_id": pending["request_id"], "fingerprint": pending["fingerprint"], "answer": "CSV"}
    found = await manager.resume("run-1", **answer)
    assert (found["status"], found["interruption"], found["task"]["state"]) == ("completed", None, "completed")


@pytest.mark.claim("MGR-011")
async def test_the_next_pause_is_returned_and_not_raised(inferred: Any) -> None:
    pause = await inferred.pause(fresh(inferred, QUESTION, CALL, policy=ASK))
    manager = RunManager(fresh(inferred, policy=ASK))
    found = await manager.resume("run-1", request_id=pause.interruption.request_id, answer="CSV")
    assert (found["status"], found["interruption"]["kind"]) == ("input-required", "approval")
    assert found["task"]["metadata"]["interruption"] == found["interruption"]


@pytest.mark.claim("MGR-012", "MGR-005")
async def test_an_unknown_effect_is_shown_and_reconciled(scene: Any) -> None:
    with pytest.raises(UncertainExecutionError) as caught:
        await scene.begin(broken(scene, CALL))
    manager = RunManager(broken(scene))
    key = caught.value.action_id
    shown = {"run_id": "run-1", "action_id": key, "name": "publish", "state": "uncertain"}
    assert manager.inspect("run-1")["uncertain_actions"] == [shown]
    assert manager.list(status="uncertain")[0]["uncertain_actions"] == [shown]
    found = manager.reconcile("run-1", key, result={"published": "looked"})
    assert (found["status"], found["uncertain_actions"]) == ("ready", [])
    assert (await manager.resume("run-1"))["status"] == "completed"
    assert scene.effects == ["hello"]


async def test_what_is_to_be_settled_below_is_listed_with_its_root(inferred: Any) -> None:
    def tree() -> Any:
        child = broken(inferred, llm=inferred.model(CALL, "never"), durability=None)
        child.card.name = "child"
        work = ("agent_call", {"agent": "child", "action": "infer", "prompt": "go"})
        return inferred.agent([], work, subagents=[child])

    with pytest.raises(UncertainExecutionError) as caught:
        await inferred.begin(tree())
    manager = RunManager(tree())
    [listed] = manager.list(status="uncertain")
    assert listed["uncertain_actions"] == manager.inspect("run-1")["uncertain_actions"]
    [action] = listed["uncertain_actions"]
    assert (action["run_id"], action["action_id"]) == (caught.value.run_id, caught.value.action_id)


async def test_an_action_that_runs_is_not_listed_as_unknown(inferred: Any) -> None:
    seen: list[Any] = []

    def publish(text: str) -> str:
        """Publish a text."""
        seen.extend(RunManager(agent).list())
        return text

    agent = inferred.agent([Tool.from_callable(publish)], CALL)
    await inferred.begin(agent)
    [listed] = seen
    assert (listed["status"], listed["uncertain_actions"]) == ("working", [])


async def test_obstacles_are_the_owner_and_what_has_changed(inferred: Any) -> None:
    seen: list[Any] = []

    def publish(text: str) -> str:
        """Publish a text."""
        seen.append(RunManager(other).obstacles("run-1"))
        return text

    tools = [Tool.from_callable(publish), ask_user_tool()]
    agent = inferred.agent(tools, CALL, QUESTION)
    other = inferred.agent(tools)
    pause = await inferred.pause(agent)
    [while_it_ran] = seen
    assert while_it_ran["owned_until"] is not None
    assert RunManager(other).obstacles("run-1") == {"owned_until": None, "changes": [], "problem": None}
    changed = RunManager(inferred.agent(tools, execution_version="2")).obstacles("run-1")
    assert [change["part"] for change in changed["changes"]] == ["version"]
    await agent.resume("run-1", request_id=pause.interruption.request_id, answer="CSV")
    ended = RunManager(inferred.agent(tools, execution_version="2")).obstacles("run-1")
    assert ended == {"owned_until": None, "changes": [], "problem": None}


async def test_terms_tell_the_ends_of_requests(scene: Any, clock: Any) -> None:
    def expiring(arguments: dict[str, Any], context: Any) -> RunAction:
        return RunAction("tool.call", "publish", {"arguments": arguments}, metadata={"expires_in": 60})

    limited = scene.agent([scene.publish(action_builder=expiring)], CALL, policy=ASK, clock=clock)
    pause = await scene.pause(limited)
    deadlines = {pause.interruption.request_id: iso_from_seconds(clock.now() + 60)}
    assert RunManager(limited).terms("run-1") == {"deadlines": deadlines, "rerunnable": []}


async def test_requests_without_an_end_have_no_terms(scene: Any) -> None:
    await scene.pause(fresh(scene, CALL, policy=ASK))
    assert RunManager(fresh(scene, policy=ASK)).terms("run-1") == {"deadlines": {}, "rerunnable": []}


@pytest.mark.parametrize("idempotent", [True, False])
async def test_only_uncertain_idempotent_actions_may_run_again(scene: Any, tape: Any, idempotent: bool) -> None:
    tools = [scene.publish(idempotent=idempotent)]
    await scene.begin(scene.agent(tools, CALL, durability=tape))
    running = tape.first(lambda status, data: [e["state"] for e in data["actions"].values()] == ["executing"])
    agent = scene.agent(tools, durability=tape.after(running))
    with pytest.raises(UncertainExecutionError) as caught:
        await agent.resume("run-1")
    manager = RunManager(agent)
    assert manager.terms("run-1")["rerunnable"] == ([caught.value.action_id] if idempotent else [])
    if idempotent:
        await agent.resume("run-1", rerun=caught.value.action_id)
        assert manager.terms("run-1")["rerunnable"] == []


async def test_models_that_cannot_be_made_here_leave_a_run_to_be_looked_at(inferred: Any) -> None:
    async def later() -> Any:
        raise AssertionError("nobody awaits it")

    def missing() -> Any:
        raise LookupError(f"no such key: {SECRET}")

    await inferred.pause(fresh(inferred, QUESTION))
    for factory, words in ((later, "async llm_factory"), (missing, "LookupError: no such key")):
        manager = RunManager(fresh(inferred, llm=None, llm_factory=factory))
        found = manager.obstacles("run-1")
        assert words in found["problem"]
        assert SECRET not in found["problem"]
        assert manager.inspect("run-1")["status"] == "input-required"


@pytest.mark.claim("MGR-013")
async def test_a_stopped_run_is_canceled_for_good(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL, policy=ASK))
    manager = RunManager(fresh(scene, policy=ASK))
    found = manager.cancel("run-1")
    assert (found["status"], found["interruption"], found["interruptions"]) == ("canceled", None, [])
    assert manager.cancel("run-1")["status"] == "canceled"
    with pytest.raises(DurableExecutionError):
        await manager.resume("run-1", request_id=pause.interruption.request_id, approved=True)
    assert scene.effects == []
    stored = fresh(scene).durability.get("run-1")
    assert (stored.status, stored.data["task"]["state"]) == ("canceled", "canceled")


@pytest.mark.claim("MGR-013", "MGR-016")
async def test_a_run_that_has_ended_stays_as_it_is(scene: Any) -> None:
    await scene.begin(fresh(scene, CALL))
    assert RunManager(fresh(scene)).cancel("run-1")["status"] == "completed"
    assert scene.effects == ["hello"]
    assert await fresh(scene).resume("run-1") == scene.result({"published": "hello"})


@pytest.mark.claim("MGR-014", "MGR-004", "MGR-016", "STR-005", "STR-004")
async def test_a_run_that_somebody_drives_is_left_alone(scene: Any) -> None:
    found: list[Any] = []

    def publish(text: str) -> str:
        """Publish a text, while an operator tries to take the run."""
        manager = RunManager(other)
        for control in (manager.cancel, lambda run: manager.reconcile(run, "action_x", result=1)):
            with pytest.raises(RunBusyError):
                control("run-1")
        found.append(manager.inspect("run-1")["status"])
        return text

    tools = [Tool.from_callable(publish)]
    agent = scene.agent(tools, CALL)
    other = scene.agent(tools)
    assert await scene.begin(agent) == scene.result("hello")
    assert found == ["working"]


@pytest.mark.claim("MGR-015", "STR-010")
async def test_a_run_with_an_unknown_effect_is_not_canceled(scene: Any) -> None:
    with pytest.raises(UncertainExecutionError):
        await scene.begin(broken(scene, CALL))
    manager = RunManager(broken(scene))
    with pytest.raises(UncertainExecutionError, match="reconcile"):
        manager.cancel("run-1")
    assert manager.inspect("run-1")["status"] == "uncertain"


@pytest.mark.claim("MGR-015")
async def test_a_crash_in_a_tool_is_not_canceled_either(scene: Any, tape: Any) -> None:
    await scene.begin(scene.agent([scene.publish()], CALL, durability=tape))
    intent = tape.first(lambda status, data: [e["state"] for e in data["actions"].values()] == ["executing"])
    manager = RunManager(scene.agent([scene.publish()], durability=tape.after(intent)))
    with pytest.raises(UncertainExecutionError):
        manager.cancel("run-1")
    assert manager.inspect("run-1")["uncertain_actions"][0]["name"] == "publish"


async def test_a_crash_before_a_tool_can_be_canceled(inferred: Any, tape: Any) -> None:
    await inferred.begin(inferred.agent([inferred.publish()], CALL, durability=tape))
    asked = tape.first(lambda status, data: data["usage"]["llm_calls"] == 1)
    manager = RunManager(inferred.agent([inferred.publish()], durability=tape.after(asked)))
    assert manager.cancel("run-1")["status"] == "canceled"


@pytest.mark.claim("MGR-004")
async def test_resume_cancel_and_reconcile_check_the_configuration(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, QUESTION))
    manager = RunManager(fresh(scene, execution_version="other"))
    assert manager.inspect("run-1")["status"] == manager.list()[0]["status"] == "input-required"
    with pytest.raises(CheckpointMismatchError):
        manager.cancel("run-1")
    with pytest.raises(CheckpointMismatchError):
        manager.reconcile("run-1", "action_x", result=1)
    with pytest.raises(CheckpointMismatchError):
        await manager.resume("run-1", request_id=pause.interruption.request_id, answer="CSV")


@pytest.mark.claim("MGR-004")
async def test_an_approval_by_the_manager_checks_the_prepared_action(scene: Any) -> None:
    revision = [1]

    def publish(text: str) -> str:
        """Publish a text."""
        raise AssertionError("only a signature")

    def tool() -> PreparedTool:
        return PreparedTool(
            publish,
            prepare=lambda arguments, context: RunAction(
                "tool.call", "publish", {"arguments": arguments, "revision": revision[0]}
            ),
            execute=lambda execution: scene.effects.append("published"),
            capabilities=["content.publish"],
        )

    pause = await scene.pause(scene.agent([tool()], CALL, policy=ASK))
    revision[0] = 2
    manager = RunManager(scene.agent([tool()], policy=ASK))
    with pytest.raises(CheckpointMismatchError):
        await manager.resume("run-1", request_id=pause.interruption.request_id, approved=True)
    assert scene.effects == []


@pytest.mark.claim("MGR-006")
async def test_only_roots_are_listed_and_children_go_on_through_them(inferred: Any) -> None:
    worker = fresh(inferred, QUESTION, durability=None)
    worker.card.name = "worker"
    hand_over = ("agent_call", {"agent": "worker", "action": "infer", "prompt": "ask"})
    root = inferred.agent([], subagents=[worker], llm=inferred.model(hand_over, "root done", native=False))
    pause = await inferred.pause(root)
    manager = RunManager(root)
    [listed] = manager.list()
    assert (listed["run_id"], listed["uncertain_actions"]) == ("run-1", [])
    assert listed["interruption"]["run_id"] == pause.interruption.run_id != "run-1"
    assert manager.inspect("run-1")["uncertain_actions"] == []
    found = await manager.resume("run-1", request_id=pause.interruption.request_id, answer="CSV")
    assert found["status"] == "completed"


@pytest.mark.claim("MGR-013")
async def test_canceling_the_root_cancels_its_children(inferred: Any) -> None:
    worker = fresh(inferred, QUESTION, durability=None)
    worker.card.name = "worker"
    hand_over = ("agent_call", {"agent": "worker", "action": "infer", "prompt": "ask"})
    root = inferred.agent([], subagents=[worker], llm=inferred.model(hand_over, "root done", native=False))
    pause = await inferred.pause(root)
    RunManager(root).cancel("run-1")
    assert root.durability.get(pause.interruption.run_id).status == "canceled"


@pytest.mark.claim("MGR-005", "MGR-020", "MGR-011")
async def test_everything_shown_is_redacted(scene: Any) -> None:
    question = ("ask_user", {"question": f"Use {SECRET}?"})
    pause = await scene.pause(fresh(scene, question))
    manager = RunManager(fresh(scene), redaction_policy=RedactionPolicy(sensitive_values={SECRET}))
    shown = [manager.inspect("run-1"), *manager.list(), *manager.events("run-1")]
    shown.append(await manager.resume("run-1", request_id=pause.interruption.request_id, answer=SECRET))
    assert all(SECRET not in repr(item) for item in shown)
    assert SECRET in repr(fresh(scene).durability.get("run-1").data)


@pytest.mark.claim("MGR-020")
async def test_the_default_masks_what_is_named_a_secret(scene: Any) -> None:
    def login(password: str) -> str:
        """Log in."""
        return password

    tools = [Tool.from_callable(login, capabilities=["content.publish"])]
    await scene.pause(scene.agent(tools, ("login", {"password": SECRET}), policy=ASK))
    manager = RunManager(scene.agent(tools, policy=ASK))
    assert SECRET not in repr([manager.inspect("run-1"), manager.list(), manager.events("run-1")])


@pytest.mark.claim("MGR-007", "MGR-008", "MGR-009")
async def test_listing_takes_filters_and_no_lease(direct: Any) -> None:
    agent = fresh(direct, QUESTION)
    for number in range(3):
        await direct.pause(agent, run_id=f"run-{number}")
    store = agent.durability
    token, _ = store.acquire("run-2", "helper", {})
    assert [found.run_id for found in store.list()] == ["run-2", "run-1", "run-0"]
    assert [found.run_id for found in store.list(status="input-required", agent_name="helper", limit=1)] == ["run-2"]
    assert store.list(agent_name="nobody") == store.list(status="completed") == []
    assert len(RunManager(agent).list(limit=1000)) == 3
    for limit in (0, 1001):
        with pytest.raises(ValueError, match="limit"):
            RunManager(agent).list(limit=limit)
    with pytest.raises(TypeError, match="status must be text or None"):
        RunManager(agent).list(status=["completed"])  # type: ignore[arg-type]
    store.release("run-2", token)


@pytest.mark.claim("MGR-010")
async def test_a_store_without_a_list_serves_everything_else(scene: Any, tape: Any) -> None:
    pause = await scene.pause(fresh(scene, QUESTION, durability=tape))
    manager = RunManager(fresh(scene, durability=tape))
    with pytest.raises(DurableExecutionError, match="list"):
        manager.list()
    assert manager.inspect("run-1")["status"] == "input-required"
    found = await manager.resume("run-1", request_id=pause.interruption.request_id, answer="CSV")
    assert found["status"] == "completed"


@pytest.mark.claim("MGR-010")
async def test_a_store_of_four_methods_may_add_a_list(scene: Any, tape: Any) -> None:
    class Listed(type(tape)):  # type: ignore[misc]
        asked: ClassVar[list[dict[str, Any]]] = []

        def list(self, **filters: Any) -> Any:
            self.asked.append(filters)
            return [self.get(run_id) for run_id in self.runs]

    store = Listed()
    await scene.pause(fresh(scene, QUESTION, durability=store))
    [found] = RunManager(fresh(scene, durability=store)).list(status="input-required", limit=7)
    assert (found["run_id"], found["status"]) == ("run-1", "input-required")
    [asked] = store.asked
    assert (asked["status"], asked["limit"]) == ("input-required", 7)


@pytest.mark.claim("MGR-001")
async def test_several_agents_share_one_manager(direct: Any, tmp_path: Any) -> None:
    other = Agent(name="other", tools=[ask_user_tool()], durability=str(tmp_path / "other.sqlite"))
    with pytest.raises(DurableExecutionError):
        await other.call_tool(*QUESTION[:1], **QUESTION[1])
    await direct.pause(fresh(direct, QUESTION))
    manager = RunManager([fresh(direct), other])
    assert sorted(found["agent_name"] for found in manager.list()) == ["helper", "other"]


async def test_the_newest_runs_of_several_agents_are_listed(tmp_path: Any) -> None:
    first, second = (
        Agent(name=name, tools=[ask_user_tool()], durability=str(tmp_path / f"{name}.sqlite"))
        for name in ("first", "second")
    )
    for agent in (first, second, second, first, second):
        with pytest.raises(DurableExecutionError):
            await agent.call_tool(*QUESTION[:1], **QUESTION[1])
    manager = RunManager([first, second])
    listed = [found["agent_name"] for found in manager.list()]
    assert listed == ["second", "first", "second", "second", "first"]
    assert [found["agent_name"] for found in manager.list(limit=3)] == listed[:3]


@pytest.mark.claim("MGR-021")
async def test_a_run_outside_the_roster_is_refused(direct: Any) -> None:
    await direct.pause(fresh(direct, QUESTION))
    stranger = Agent(name="stranger", tools=[ask_user_tool()], durability=str(direct.path))
    manager = RunManager(stranger)
    assert manager.list() == []
    for control in (manager.inspect, manager.cancel, manager.events):
        with pytest.raises(DurableExecutionError, match="'run-1'"):
            control("run-1")
    with pytest.raises(DurableExecutionError, match="nonblank"):
        manager.inspect(" ")


def test_a_roster_that_cannot_be_managed_is_refused(direct: Any) -> None:
    live = Agent(name="live")
    agent = fresh(direct, QUESTION)
    for roster in ([], live, [agent, live], [agent, fresh(direct)]):
        with pytest.raises(ValueError):
            RunManager(roster)


async def test_the_managers_events_are_those_of_the_agent(inferred: Any) -> None:
    agent = fresh(inferred, QUESTION)
    await inferred.pause(agent)
    events = RunManager(agent).events("run-1")
    assert [event["sequence"] for event in events] == [event.sequence for event in agent.run_events("run-1")]
    assert RunManager(agent).events("run-1", after=events[-1]["sequence"]) == []


async def test_a_manager_reconciles_a_childs_action(inferred: Any) -> None:
    worker = broken(inferred, CALL, durability=None)
    worker.card.name = "worker"
    hand_over = ("agent_call", {"agent": "worker", "action": "infer", "prompt": "publish"})
    root = inferred.agent([], subagents=[worker], llm=inferred.model(hand_over, "root done", native=False))
    with pytest.raises(UncertainExecutionError) as caught:
        await root.invoke("go", context=RunContext(run_id="run-1"))
    manager = RunManager(root)
    [shown] = manager.inspect("run-1")["uncertain_actions"]
    assert (shown["run_id"], shown["name"]) == (caught.value.run_id, "publish")
    assert manager.reconcile(shown["run_id"], shown["action_id"], result="found")["status"] == "ready"
    assert (await manager.resume("run-1"))["status"] == "completed"
