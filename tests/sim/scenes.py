"""The scenes of the simulation: the hard cases of durable runs, each with what has to come of it.

A scene is data for ``crash_everywhere``: an agent, a task, how people answer, and the outcome and effects of a run that
nobody disturbs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.sim.world import World, ask, call, delegate

from protolink import Agent, Message, Part, RunBudget, RunInterruption, RunManager, SubagentLimits, Task
from protolink.llms import Call, ModelTurn
from protolink.testing import CrashReport, FaultyStore, crash_everywhere

Respond = Callable[[RunInterruption], Any]


def agree(asked: RunInterruption) -> Any:
    return True if asked.kind == "approval" else "CSV"


@dataclass(frozen=True)
class Scene:
    """``effects``: what is done to the world, in any order. ``compare``: as in ``crash_everywhere``."""

    name: str
    build: Callable[[World, FaultyStore], Agent]
    effects: tuple[str, ...] = ()
    outcome: str = "completed"
    respond: Callable[[World], Respond] = lambda world: agree
    task: Callable[[], Task] = lambda: Task.create_infer(prompt="go")
    prepare: Callable[[World], None] = lambda world: None
    streaming: bool = False
    compare: bool = True
    world: World = field(default_factory=World)

    def make_agent(self, store: FaultyStore) -> Agent:
        return self.build(self.world, store)

    def make_task(self) -> Task:
        self.world.reset()
        self.prepare(self.world)
        return self.task()

    def crash_everywhere(self, *, doubles: bool = False) -> CrashReport:
        return crash_everywhere(
            self.make_agent,
            self.make_task,
            respond=self.respond(self.world),
            effects=self.world.effects,
            reconcile=self.world.reconcile,
            doubles=doubles,
            streaming=self.streaming,
            compare=self.compare,
        )

    def problems(self, report: CrashReport) -> list[str]:
        """Everything that is not as it has to be."""
        found = [str(finding) for finding in report.findings]
        if report.outcome != self.outcome:
            found.append(f"the outcome is {report.outcome}, not {self.outcome}")
        if sorted(report.effects) != sorted(self.effects):
            found.append(f"the effects are {sorted(report.effects)}, not {sorted(self.effects)}")
        return found


SCENES: dict[str, Scene] = {}


def scene(name: str, script: Any, tools: str = "", *, children: Any = None, agent: Any = None, **more: Any) -> None:
    """A scene of one agent with a script; ``children(world)`` are its subagents, ``agent`` its other arguments."""

    def build(world: World, store: FaultyStore) -> Agent:
        below = children(world) if children is not None else []
        limits = SubagentLimits(max_depth=3)
        return world.agent(store, "root", script, tools, subagents=below, subagent_limits=limits, **(agent or {}))

    SCENES[name] = Scene(name, build, **more)


def turn(*calls: dict[str, Any]) -> ModelTurn:
    """A native turn with several calls."""
    made = [Call(f"c{number}", item["tool"], item["args"]) for number, item in enumerate(calls)]
    return ModelTurn("", tuple(made))


def after_pause(act: Callable[[World, Agent, str], Any]) -> Callable[[World], Respond]:
    """Instead of an answer, something else happens to the parked run."""
    return lambda world: lambda asked: lambda agent, run_id: act(world, agent, run_id)


NATIVE = {"native": True}
PARALLEL = {"native": True, "parallel_tool_calls": True}

scene("answer only", ["hello"])
scene("streamed", [call("note", "a"), "done"], "note", effects=("note a",), streaming=True)
scene("one tool", [call("note", "a"), "done"], "note", effects=("note a",))
scene("inline tools", [turn(call("stamp", "a"), call("stamp", "b")), "done"], "stamp", agent=NATIVE,
      effects=("stamp a", "stamp b"))  # fmt: skip
scene("two calls in order", [turn(call("note", "a"), call("note", "b")), "done"], "note", agent=NATIVE,
      effects=("note a", "note b"))  # fmt: skip
scene("several turns", [call("note", "a"), call("read", key="k"), call("note", "b"), "ok"], "note read",
      effects=("note a", "note b"))  # fmt: skip

FOUR = [turn(call("write", "a"), call("read", key="k"), call("write", "b"), call("note", "c")), "done"]
scene("four calls, two to approve", FOUR, "write read note", agent=NATIVE, effects=("write a", "write b", "note c"))
scene("four calls side by side", FOUR, "write read note", agent=PARALLEL, effects=("write a", "write b", "note c"))
scene("free calls side by side", [turn(call("note", "a"), call("note", "b"), call("read", key="k")), "done"],
      "note read", agent=PARALLEL, effects=("note a", "note b"))  # fmt: skip
scene("one of two denied", [turn(call("note", "a"), call("burn", "b")), "done"], "note burn", agent=NATIVE,
      outcome="failed")  # fmt: skip
scene("refused by a person", [turn(call("note", "a"), call("write", "b")), "done"], "note write", agent=NATIVE,
      outcome="failed", effects=("note a",), respond=lambda world: lambda asked: {"approved": False})  # fmt: skip

scene("question beside a read", [turn(ask(), call("read", key="k")), "done"], "ask_user read", agent=NATIVE)
scene("question that needs approval", [ask("Which?", "CSV", "PDF"), call("note", "a"), "done"], "ask_user note",
      agent={"rules": {"user.interact": "require_approval"}}, effects=("note a",))  # fmt: skip
scene("declined question", [ask(), "done"], "ask_user", respond=lambda world: lambda asked: {"answer": None})

REFUSED = [
    turn(call("pick", "bad"), call("read", key="k")),
    turn(call("nothing", "x")),
    turn(call("push", "a")),
    "done",
]
scene("corrections", REFUSED, "pick push read", agent=NATIVE, effects=("push a",))
scene(
    "rejected by its executor",
    [call("push", "bad"), call("push", "good"), "done"],
    "push",
    effects=("push good",),
    compare=False,
)
scene("too many corrections", [call("pick", "bad"), call("nothing", "x"), call("pick", "bad")], "pick",
      outcome="failed")  # fmt: skip
scene("misspoken and repeated", [call("note", "a"), '{"type": "tool_call"}', call("note", "a"), "done"], "note",
      effects=("note a",))  # fmt: skip
scene("edited before approval", [call("write", "draft"), "done"], "write", effects=("write final",),
      respond=lambda world: edit)  # fmt: skip


def edit(asked: RunInterruption) -> Any:
    arguments = asked.request["action"]["payload"]["arguments"]
    return {"approved": True, "arguments": {"item": "final"}} if arguments["item"] == "draft" else True


def change(world: World, agent: Agent, run_id: str) -> Any:
    """The resource is another one by the time of the approval."""
    world.version = 2
    [asked] = RunManager(agent).inspect(run_id)["interruptions"]
    return _resume(agent, run_id, request_id=asked["request_id"], approved=True)


async def _resume(agent: Agent, run_id: str, **response: Any) -> None:
    try:
        await agent.resume_task(run_id, **response)
    except Exception:  # how it ended is read from the store
        return


async def expire(world: World, agent: Agent, run_id: str) -> None:
    """Nobody answers in time."""
    agent.clock.advance(4000)
    await _resume(agent, run_id)


def cancel(world: World, agent: Agent, run_id: str) -> None:
    RunManager(agent).cancel(run_id)


scene("changed after it was shown", [call("move", "a"), "done"], "move", outcome="failed", respond=after_pause(change))
scene("too late to approve", [call("send", "a"), "done"], "send", outcome="failed", respond=after_pause(expire))
scene("canceled while it waits", [turn(call("note", "a"), call("write", "b")), "done"], "note write", agent=NATIVE,
      outcome="canceled", effects=("note a",), respond=after_pause(cancel))  # fmt: skip


def family(world: World) -> list[Agent]:
    grand = world.agent(None, "grand", [ask(), call("write", "g"), "grand done"], "ask_user write")
    kid = [turn(call("write", "k")), turn(handed("grand", "deep"), call("read", key="k")), "kid done"]
    limits = SubagentLimits(max_depth=3)
    return [world.agent(None, "kid", kid, "write read", native=True, subagents=[grand], subagent_limits=limits)]


def handed(agent: str, prompt: str) -> dict[str, Any]:
    return {"tool": "agent_call", "args": {"agent": agent, "action": "infer", "prompt": prompt}}


scene("paused two levels below", [call("read", key="k"), delegate("kid", "help"), "done"], "read", children=family,
      effects=("write k", "write g"))  # fmt: skip


def clerk(world: World) -> list[Agent]:
    return [world.agent(None, "clerk", [call("write", "c"), "written"], "write note")]


scene("canceled below", [delegate("clerk", "help"), "done"], children=clerk, outcome="canceled",
      respond=after_pause(cancel))  # fmt: skip
scene("refused below", [delegate("clerk", "help"), "done"], children=clerk, outcome="failed",
      respond=lambda world: lambda asked: {"approved": False})  # fmt: skip


def with_worker(world: World, store: FaultyStore) -> Agent:
    boss = world.agent(store, "root", [call("file", "w"), "done"], subagents=clerk(world))
    boss.add_worker_tool("clerk", name="file", tool="write")
    return boss


SCENES["worker tool"] = Scene("worker tool", with_worker, ("write w",))


def direct() -> Task:
    arguments = {"question": "Which?"}
    return Task.create_tool_call(tool_name="ask_user", args=arguments)


def parts() -> Task:
    work = [Part.infer(prompt="go"), Part.tool_call(tool_name="write", args={"item": "p"})]
    return Task.create(Message(role="user", parts=work))


scene("direct question", [], "ask_user", task=direct)
scene("two parts", [call("note", "a"), "done"], "note write", task=parts, effects=("note a", "write p"))


def twins(world: World) -> list[Agent]:
    def twin(name: str) -> Agent:
        return world.agent(None, name, [call("note", name), "done"], "note")

    return [twin("one"), twin("two")]


TWINS = [turn(handed("one", "help"), handed("two", "help")), "done"]


def spend(calls: int) -> Callable[[], Task]:
    return lambda: Task.create_infer(prompt="go", budget=RunBudget(max_llm_calls=calls))


scene("children on one budget", TWINS, children=twins, agent=PARALLEL, effects=("note one", "note two"), task=spend(8))
scene("children beyond the budget", TWINS, children=twins, agent=PARALLEL, effects=("note one", "note two"),
      outcome="failed", task=spend(4), compare=False)  # fmt: skip


def sliced(world: World) -> list[Agent]:
    lines = [call("note", "1"), call("note", "2"), call("write", "3"), call("note", "4"), "done"]
    return [world.agent(None, "kid", lines, "note write", yield_after_steps=2)]


scene("slices below", [delegate("kid", "help"), "done"], children=sliced,
      effects=("note 1", "note 2", "write 3", "note 4"))  # fmt: skip
scene("slices", [call("note", "1"), call("note", "2"), call("note", "3"), "done"], "note",
      agent={"yield_after_steps": 1}, effects=("note 1", "note 2", "note 3"))  # fmt: skip
scene("warned once", [call("note", "1"), call("note", "2"), call("note", "3"), "done"], "note",
      effects=("note 1", "note 2", "note 3"), task=spend(5))  # fmt: skip


def outage(calls: int) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        world.down = calls

    return prepare


scene("provider away for a moment", [call("note", "a"), "done"], "note", effects=("note a",), prepare=outage(2))
scene("provider away for long", [call("note", "a"), "done"], "note", effects=("note a",), prepare=outage(4))
scene("unknown outcome", [call("post", "lost"), call("note", "a"), "done"], "post note",
      effects=("post lost", "note a"))  # fmt: skip


def poster(world: World) -> list[Agent]:
    return [world.agent(None, "kid", [turn(call("post", "lost"), call("note", "a")), "done"], "post note", native=True)]


scene("unknown outcome below", [delegate("kid", "help"), "done"], children=poster, effects=("post lost", "note a"))


def helper(world: World) -> list[Agent]:
    return [world.agent(None, "kid", [call("post", "lost"), "done"], "post")]


#: Two pauses, a child, a correction and a reconcile: every pair of crashes is tried on this one.
LONG = "two pauses, a child, a correction, a reconcile"
scene(LONG, [call("write", "a"), call("pick", "bad"), ask(), delegate("kid", "help"), "done"],
      "write pick ask_user", children=helper, effects=("write a", "post lost"))  # fmt: skip


def house(world: World) -> list[Agent]:
    grand = world.agent(None, "grand", [call("write", "g"), "grand done"], "write")
    lines = [call("pick", "bad"), call("verify", "x"), delegate("grand", "deep"), "kid done"]
    limits = SubagentLimits(max_depth=3)
    how = {"yield_after_steps": 2, "subagents": [grand], "subagent_limits": limits}
    return [world.agent(None, "kid", lines, "pick verify", **how)]


#: Three agents, two approvals, a correction, a rejection by an executor, a slice: every pair of crashes, too.
TREE = "three agents with approvals, corrections, slices and a rejection"
scene(TREE, [turn(call("write", "r"), handed("kid", "help")), "done"], "write", children=house, agent=NATIVE,
      effects=("write r", "write g"))  # fmt: skip
