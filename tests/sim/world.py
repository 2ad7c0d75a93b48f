"""The outside world of the simulated agents: tools with effects, models that may be down, and gates to hold them at."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from protolink import Agent, ProbeFinding, RunAction, RunContext, ToolExecution, ToolRejectedError
from protolink.runtime import CapabilityPolicy
from protolink.testing import EffectLog, FaultyStore, ScriptedModel, UncertainAction
from protolink.tools import PreparedTool, Tool, ask_user_tool

POLICY = {"write": "require_approval", "forbidden": "deny"}


async def _open_gate() -> None:
    """Nobody holds anything up."""


class World:
    """``version`` is the state of a resource, ``down`` how many model calls are going to fail.

    ``gate`` is awaited before and after each effect and before each model call, so that a schedule can hold them there.
    """

    def __init__(self) -> None:
        self.effects = EffectLog()
        self.gate: Callable[[], Awaitable[None]] = _open_gate
        self.version = 1
        self.down = 0
        self.tools = {tool.name: tool for tool in self._tools()}

    def reset(self) -> None:
        self.version, self.down = 1, 0

    # ------------------------------------------------------------------------------------------------ agents

    def agent(self, store: FaultyStore | None, name: str, script: Any, tools: str = "", **more: Any) -> Agent:
        """An agent as a new process would build it. ``tools``: names; ``store`` None makes a child."""
        own = {"durability": store, "clock": store.clock} if store is not None else {}
        lines = more.pop("lines", None)
        model = lines if lines is not None else self.model(script, native=more.pop("native", False))
        policy = CapabilityPolicy({**POLICY, **more.pop("rules", {})})
        return Agent(name=name, llm=model, tools=[self.tools[t] for t in tools.split()], policy=policy, **own, **more)

    def model(self, script: Any, native: bool = False) -> ScriptedModel:
        if isinstance(script, dict):
            return ScriptedModel({key: list(map(self._gated, lines)) for key, lines in script.items()}, native=native)
        return ScriptedModel(list(map(self._gated, script)), native=native)

    def _gated(self, line: Any) -> Callable[[Any], Awaitable[Any]]:
        async def play(history: Any) -> Any:
            await self.gate()
            if self.down > 0:
                self.down -= 1
                return ConnectionError("the provider is down")
            return line(history) if callable(line) else line

        return play

    # ------------------------------------------------------------------------------------------------ tools

    def _tools(self) -> list[Any]:
        return [
            self._effect("note"),
            self._effect("write", "write"),
            self._effect("burn", "forbidden"),
            self._effect("post", after=_lose),
            self._effect("move", "write", payload=lambda: {"version": self.version}),
            self._effect("send", "write", expires_in=3600),
            self._effect("pick", check=_no_bad),
            self._effect("push", before=_no_bad),
            Tool.from_callable(self._read, name="read", read_only=True),
            Tool.from_callable(self._verify, name="verify", read_only=True),
            Tool.from_callable(self._stamp, name="stamp"),
            ask_user_tool(),
        ]

    async def _read(self, key: str) -> str:
        """Look something up."""
        await self.gate()
        return f"value of {key}"

    async def _verify(self, item: str) -> str:
        """Look for what is not there."""
        await self.gate()
        raise ToolRejectedError(f"there is nothing to verify about {item}")

    def _stamp(self, item: str) -> dict[str, Any]:
        """Do something in a plain function, which runs where the agent runs."""
        return dict(self.effects.do(f"stamp {item}", {"done": f"stamp {item}"}))

    def _effect(
        self,
        name: str,
        *capabilities: str,
        payload: Callable[[], dict[str, Any]] = dict,
        check: Callable[[str], None] | None = None,
        before: Callable[[str], None] | None = None,
        after: Callable[[str], None] | None = None,
        expires_in: float | None = None,
    ) -> PreparedTool:
        def signature(item: str) -> dict[str, Any]:
            """Do something to the world outside."""
            raise AssertionError(item)

        def prepare(arguments: dict[str, Any], context: RunContext) -> RunAction:
            if check is not None:
                check(arguments["item"])
            metadata = {} if expires_in is None else {"expires_in": expires_in}
            return RunAction("tool.call", name, {"arguments": arguments, **payload()}, metadata=metadata)

        async def execute(execution: ToolExecution) -> dict[str, Any]:
            item = execution.authorization.action.payload["arguments"]["item"]
            if before is not None:
                before(item)
            await self.gate()
            result = self.effects.do(f"{name} {item}", {"done": f"{name} {item}"}, key=execution.idempotency_key)
            await self.gate()
            if after is not None:
                after(item)
            return dict(result)

        return PreparedTool(signature, prepare=prepare, execute=execute, capabilities=capabilities, name=name)

    def reconcile(self, action: UncertainAction) -> Any:
        """Look whether it was done; do it by hand if not. What the outside system refuses stays undone."""
        if action.arguments["item"] == "bad":
            return ProbeFinding.absent("there is no such item")
        effect = f"{action.name} {action.arguments['item']}"
        if self.effects.has(effect):
            return self.effects.result_of(effect)
        return self.effects.do(effect, {"done": effect}, key=action.action_id)


def _no_bad(item: str) -> None:
    if item == "bad":
        raise ToolRejectedError("there is no such item", suggestion="take another")


def _lose(item: str) -> None:
    if item == "lost":
        raise RuntimeError("the connection broke")


def call(tool: str, item: str | None = None, **arguments: Any) -> dict[str, Any]:
    """A JSON action that calls a tool."""
    return {"type": "tool_call", "tool": tool, "args": arguments if item is None else {"item": item}}


def ask(question: str = "Which?", *options: str) -> dict[str, Any]:
    return call("ask_user", question=question, **({"options": list(options)} if options else {}))


def delegate(agent: str, prompt: str) -> dict[str, Any]:
    """A JSON action that hands work to a child."""
    return {"type": "agent_call", "agent": agent, "action": "infer", "prompt": prompt}
