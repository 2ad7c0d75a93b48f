"""Agent: a name, a model, tools, a policy, and the ways to give it work.

It has a roster, an execution and a store; it executes nothing itself. Construction starts nothing.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent import futures
from contextlib import aclosing
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

from .._lazy import Later
from ..drive.defaults import MAX_RESULT_BYTES, STORE_PATIENCE
from ..drive.loop_thread import settled
from ..llms import LLM, create_llm
from ..models import AgentCard, AgentSkill, Task
from ..models.unset import UNSET
from ..runtime import ActionAuthorizer, BudgetPolicy, RunContext, TaskCancellationRequest
from ..state import State
from ..storage import Storage
from ..telemetry import Telemetry
from ..tools import Tool
from .active import ActiveTasks
from .checks import (
    checked_budget_policy,
    checked_callable,
    checked_card,
    checked_clock,
    checked_limits,
    checked_llm,
    checked_policy,
    checked_run_store,
    checked_storage,
    checked_store,
    checked_telemetry,
    choice,
    flag,
    nonblank,
    positive,
    positive_seconds,
    seconds,
    several,
    text,
    without_streaming,
)
from .limits import SubagentLimits
from .network import Network
from .roster import Roster, WorkerTool
from .sync import SyncAgent

if TYPE_CHECKING:
    from ..client import AgentPeer
    from ..drive.ports import Clock
    from ..engine.project import Event
    from ..journal.contract import DurableStore
    from ..runtime import ActionAuthorization, CancellationToken, EventSink, RunAction, RunBudget, RunEvent
    from ..state import HistoryCompactionRequest, HistoryCompactionResult, StateOperationRequest, StateOperationResult
    from ..transport import Transport
    from . import attempt, config, direct, execution, handle, memory, responses, resumed, stream
    from .direct import DirectCalls
    from .execution import Execution
    from .handle import RunHandle
    from .memory import Memory
    from .stored import StoredRuns
else:
    # What does the work is loaded with the first run: many programs make agents that they never ask anything.
    attempt = Later(".attempt", __package__)
    config = Later(".config", __package__)
    direct = Later(".direct", __package__)
    execution = Later(".execution", __package__)
    handle = Later(".handle", __package__)
    memory = Later(".memory", __package__)
    responses = Later(".responses", __package__)
    resumed = Later(".resumed", __package__)
    stream = Later(".stream", __package__)

DEFAULT_SESSION = "invocation_session_id"


class Agent:
    """One agent. Give a ``card`` (AgentCard or mapping) or ``name`` / ``description`` / ``url``.

    ``llm``: an LLM or its name ("mock", "provider:model"); ``llm_factory`` makes one for each run instead. ``tools``:
    functions or tools. ``policy`` judges every action, ``approval_handler`` is asked in live runs. ``durability``: a
    path or a DurableStore; then runs are stored, pause and can be resumed. ``execution_version`` names the
    application's own version of the contract under which runs are stored. ``yield_after_steps``: model turns of one
    slice. ``state``: what is remembered between the runs of a session, ``["conversation"]`` or a State, in ``storage``,
    which is memory of the process when None. ``transport``: how others reach it, a Transport or its name.
    ``registry``: where it finds peers, a Registry, a RegistryClient, or the name of a transport with ``registry_url``;
    its answer is used for ``discovery_ttl`` seconds. ``run_store``: where tasks are recorded at each change of their
    state, and the reports of handles; ``telemetry`` is told of every step; what these two raise is logged.
    ``budget_policy`` None switches budgets off.
    ``sync_execution``: where blocking tools run, ``inline`` or ``thread``.

    Raises ValueError or TypeError for arguments that cannot be used; nothing is started.
    """

    handles_itself: ClassVar[bool] = False
    """True for subclasses that override ``handle_task`` or ``execute_task``."""

    streams_itself: ClassVar[bool] = False
    """True for subclasses that override ``handle_task_streaming``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.handles_itself = cls.handle_task is not Agent.handle_task or cls.execute_task is not Agent.execute_task
        cls.streams_itself = cls.handle_task_streaming is not Agent.handle_task_streaming

    def __init__(
        self,
        card: AgentCard | Mapping[str, Any] | None = None,
        *,
        transport: Transport | str | None = None,
        registry: Any = None,
        registry_url: str | None = None,
        discovery_ttl: float = 0,
        registry_heartbeat_interval: float | None = None,
        llm: LLM | str | None = None,
        system_prompt: str | None = None,
        storage: Storage | None = None,
        state: State | Iterable[str] | None = None,
        name: str | None = None,
        description: str | None = None,
        url: str | None = None,
        tools: Iterable[Any] | None = None,
        skills: str = "auto",
        sync_execution: str = "inline",
        max_sync_workers: int = 4,
        expose_tool_results: bool = False,
        override_system_prompt: bool = False,
        verbosity: int = 1,
        policy: Any = None,
        approval_handler: Any = None,
        run_store: Any = None,
        telemetry: Telemetry | None = None,
        retrieval: str = "auto",
        subagents: Iterable[Agent] | None = None,
        subagent_limits: SubagentLimits | None = None,
        durability: str | os.PathLike[str] | DurableStore | None = None,
        yield_after_steps: int | None = None,
        execution_version: str = "1",
        budget_policy: BudgetPolicy | Any | None = UNSET,
        parallel_tool_calls: bool = False,
        llm_factory: Callable[[], Any] | None = None,
        max_result_bytes: int = MAX_RESULT_BYTES,
        store_patience: float = STORE_PATIENCE,
        clock: Clock | None = None,
    ) -> None:
        self.card = checked_card(card, name, description, url)
        if self.handles_itself and not self.streams_itself:
            self.card = without_streaming(self.card)
        if llm is not None and llm_factory is not None:
            raise ValueError("give either llm or llm_factory, not both")
        self.llm: LLM | None = create_llm(llm) if isinstance(llm, str) else checked_llm(llm)
        self.llm_factory = checked_callable("llm_factory", llm_factory)
        self.system_prompt: str | None = text("system_prompt", system_prompt)
        self.override_system_prompt = flag("override_system_prompt", override_system_prompt)
        self.expose_tool_results = flag("expose_tool_results", expose_tool_results)
        self.verbosity = choice("verbosity", verbosity, (0, 1, 2))
        self.policy = checked_policy(policy)
        self.approval_handler = checked_callable("approval_handler", approval_handler)
        self.run_store = checked_run_store(run_store)
        self.telemetry = checked_telemetry(telemetry)
        self.retrieval = choice("retrieval", retrieval, ("auto", "always", "required"))
        self.subagent_limits = checked_limits(subagent_limits)
        self.durability = checked_store(durability)
        if self.durability is not None and self.subagent_limits.background:
            raise ValueError("background children are not available in durable runs")
        self.yield_after_steps = positive("yield_after_steps", yield_after_steps)
        self.execution_version = nonblank("execution_version", execution_version)
        self.budget_policy: Any = BudgetPolicy() if budget_policy is UNSET else checked_budget_policy(budget_policy)
        self.parallel_tool_calls = flag("parallel_tool_calls", parallel_tool_calls)
        self.max_result_bytes = positive("max_result_bytes", max_result_bytes) or MAX_RESULT_BYTES
        self.store_patience = seconds("store_patience", store_patience)
        self.clock = checked_clock(clock)
        self.storage = checked_storage(storage)
        self.storage_given = storage is not None
        self._state = State.of(state)
        self.max_sync_workers = positive("max_sync_workers", max_sync_workers) or 4
        self._executor: futures.ThreadPoolExecutor | None = None
        self.skills = choice("skills", skills, ("auto", "fixed"))
        self.sync_execution = choice("sync_execution", sync_execution, ("inline", "thread"))
        self.roster = Roster(self, several("tools", tools), several("subagents", subagents), self.sync_execution)
        self.sync = SyncAgent(self)
        self._active = ActiveTasks()
        self.network = Network(
            self,
            transport,
            registry,
            registry_url,
            discovery_ttl=seconds("discovery_ttl", discovery_ttl),
            registry_heartbeat_interval=positive_seconds("registry_heartbeat_interval", registry_heartbeat_interval),
        )
        self._describe()

    # ------------------------------------------------------------------------------------------------ what it is

    @property
    def name(self) -> str:
        return self.card.name

    @property
    def description(self) -> str:
        return self.card.description

    @property
    def tools(self) -> dict[str, Any]:
        """Tools and worker tools by name."""
        return self.roster.tools

    @property
    def subagents(self) -> dict[str, Agent]:
        """Children by name."""
        return dict(self.roster.children)

    @property
    def can_infer(self) -> bool:
        return self.llm is not None or self.llm_factory is not None

    @property
    def active_task_ids(self) -> tuple[str, ...]:
        """Ids of the tasks that are running now."""
        return self._active.ids

    @property
    def sync_executor(self) -> futures.ThreadPoolExecutor:
        """The threads of blocking tools; made when first used."""
        if self._executor is None:
            self._executor = futures.ThreadPoolExecutor(
                self.max_sync_workers, thread_name_prefix=f"protolink-{self.name}"
            )
        return self._executor

    @cached_property
    def execution(self) -> Execution:
        """The way to the driver."""
        return execution.Execution(self)

    @property
    def runs(self) -> StoredRuns:
        """The stored runs."""
        return self.execution.runs

    @cached_property
    def memory(self) -> Memory:
        """What is remembered between runs, in the storage."""
        return memory.Memory(self.name, self.storage, self._state)

    @cached_property
    def _direct(self) -> DirectCalls:
        return direct.DirectCalls(self, self.execution)

    # ------------------------------------------------------------------------------------------------ tools

    def add_tool(self, tool: Any) -> None:
        """Register a tool or a function. A tool of the same name is replaced."""
        self.roster.add(tool)
        self._describe()

    def add_tools(self, tools: Iterable[Any]) -> None:
        """Register several, in order."""
        for tool in tools:
            self.add_tool(tool)

    def tool(self, func: Any = None, /, *, name: str | None = None, **options: Any) -> Any:
        """Decorator that registers a function and returns it unchanged: ``@agent.tool``, with or without arguments.

        Options are those of ``Tool.from_callable``.
        """
        if isinstance(func, str):
            if name is not None:
                raise ValueError("the tool's name is given twice")
            func, name = None, func

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self.add_tool(Tool.from_callable(function, name=name, **options))
            return function

        return register if func is None else register(func)

    def add_worker_tool(
        self, worker: str, *, name: str | None = None, tool: str | None = None, description: str | None = None
    ) -> WorkerTool:
        """Offer one child, or one tool of it, to the model as a tool of its own. ValueError for anything unfit."""
        facade = self.roster.add_worker(worker, name, tool, description)
        self._describe()
        return facade

    # ------------------------------------------------------------------------------------------------ running work

    async def invoke(
        self,
        message: Any,
        part_type: str = "infer",
        tool_name: str | None = None,
        tool_args: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        *,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any:
        """Do it and return the result: the final answer, or a tool's result.

        Raises TaskExecutionError for a failed or canceled task, RunInterrupted for a durable pause, and the typed
        errors of budgets, policies and models; TypeError for a message that is no text, or arguments that are none.
        """
        if session_id is None and getattr(context, "session_id", None) is None:
            session_id = DEFAULT_SESSION
        how: dict[str, Any] = {"session_id": session_id, "budget": budget, "context": context}
        if part_type == "infer":
            if not isinstance(message, str):
                raise TypeError(f"invoke takes text, not {type(message).__name__}")
            task = Task.create_infer(prompt=message, **how)
        elif part_type == "tool_call" and isinstance(tool_name, str):
            if not isinstance(tool_args or {}, Mapping):
                raise TypeError(f"tool_args must be a mapping, not {type(tool_args).__name__}")
            task = Task.create_tool_call(tool_name=tool_name, args=dict(tool_args or {}), **how)
        else:
            raise ValueError("part_type must be 'infer', or 'tool_call' with a tool_name")
        with self._active.register(task) as active:
            return attempt.output(await self.run_task(task), active)

    async def call_tool(self, tool_name: str, /, **kwargs: Any) -> Any:
        """Run one tool, governed like any action, and return its own result.

        ValueError for an unknown tool or bad arguments, the tool's own exception, ToolRejectedError, policy and budget
        errors; with durability the call is a stored task of its own and may raise RunInterrupted.
        """
        return await self._direct.call(tool_name, kwargs)

    async def call_tool_in_context(self, tool_name: str, context: RunContext, /, **kwargs: Any) -> Any:
        """Run one tool on behalf of a run, without a task and never stored. Calls with one context share its budget."""
        return await self._direct.call_in_context(tool_name, context, kwargs)

    async def authorize_action(self, action: RunAction, context: RunContext | None = None) -> ActionAuthorization:
        """Policy and approval for an action that application code performs itself."""
        return await ActionAuthorizer(self.policy, self.approval_handler).authorize(
            action, RunContext() if context is None else context
        )

    async def run_task(self, task: Task) -> Task:
        """Run a task and return it, the same object. Durable pauses come back as ``input-required``.

        A failure of the work itself comes back as a failed task; refusals (policy, budget, corrections) are raised
        after the task was marked failed. TaskAlreadyRunningError when this id is running.
        """
        with self._active.register(task) as active:
            return await attempt.handled(self, task, active.token)

    async def execute_task(self, task: Task) -> Task:
        """The default way to handle a task; registers it."""
        with self._active.register(task) as active:
            return await attempt.executed(self, task, active.token)

    async def handle_task(self, task: Task) -> Task:
        """What ``run_task`` calls. Override to handle tasks in another way; such agents cannot be durable."""
        return await self.execute_task(task)

    async def handle_task_streaming(self, task: Task) -> AsyncGenerator[Event, None]:
        """Run a task and yield its events; the last one is the final status. Failures end the stream, they don't raise.

        Closing the iterator early cancels the task.
        """
        async with aclosing(stream.stream(self, self._active, self.execution, task)) as events:
            async for event in events:
                yield event

    async def run_task_streaming(self, task: Task) -> AsyncGenerator[Event, None]:
        """The same as ``handle_task_streaming``."""
        async with aclosing(self.handle_task_streaming(task)) as events:
            async for event in events:
                yield event

    async def call_agent(self, agent_url: str, task: Task, *, event_sink: EventSink | None = None) -> Task:
        """Have the agent at ``agent_url`` do a task, once, and return it with its end. Delegations to peers go here.

        ``event_sink`` takes the peer's events: while it works when both sides can stream, else those that it recorded.
        UncertainExecutionError when it may have begun and its end is not known; TransportError when it did not begin.
        """
        return await self.network.call(agent_url, task, event_sink)

    def peer(self, target: str | AgentCard) -> AgentPeer:
        """An agent at another address to work with: by address, by card, or by a name that the registry knows."""
        return self.network.peer(target)

    def start_run(
        self,
        prompt: str | Task,
        *,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
        event_buffer_size: int | None = None,
    ) -> RunHandle:
        """Start a task in the running loop and return its handle. The controls are those of a new task.

        ``event_buffer_size``: how many of the latest events can be read again; None keeps all.
        TypeError for anything but text or a Task, ValueError for controls beside a Task, RuntimeError without a loop.
        """
        if isinstance(prompt, Task):
            if session_id is not None or budget is not None or context is not None:
                raise ValueError("a Task carries its own session, budget and context")
            return handle.RunHandle(self, prompt, event_buffer_size=event_buffer_size)
        if not isinstance(prompt, str):
            raise TypeError(f"start_run takes text or a Task, not {type(prompt).__name__}")
        task = Task.create_infer(prompt=prompt, session_id=session_id, budget=budget, context=context)
        return handle.RunHandle(self, task, event_buffer_size=event_buffer_size)

    async def cancel_task(self, task_id: str | TaskCancellationRequest, reason: str | None = None) -> Task:
        """Cancel a running task and return it. TaskNotFoundError unless it is running here; ValueError: no text."""
        if isinstance(task_id, TaskCancellationRequest):
            reason = reason or task_id.metadata.get("reason")
            task_id = task_id.id
        return await self._active.cancel(task_id, text("reason", reason))

    def get_cancellation_token(self, task_id: str) -> CancellationToken | None:
        """The live token of a running task."""
        found = self._active.get(task_id)
        return None if found is None else found.token

    # ------------------------------------------------------------------------------------------------ among others

    @property
    def transport(self) -> Transport | None:
        """How others reach this agent."""
        return self.network.transport

    @property
    def registry(self) -> Any:
        """Where this agent finds its peers."""
        return self.network.registry

    def start(self, *, register: bool = True) -> Awaitable[None]:
        """Serve at the card's address and enter the registry. Harmless again; without a transport nothing happens.

        Await it inside an event loop. Without one the call itself returns when all is ready.
        """
        return settled("start", lambda: self.network.start(register))

    def stop(self) -> Awaitable[None]:
        """Leave the registry and stop serving, when what runs here has ended. Harmless again. Like ``start``."""
        return settled("stop", self.network.stop)

    async def register(self) -> None:
        """Enter the registry. RuntimeError without one."""
        await self.network.register()

    async def unregister(self) -> None:
        """Leave the registry. RuntimeError without one."""
        await self.network.unregister()

    async def discover_agents(
        self,
        filter_by: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        role: str | None = None,
        tags: Sequence[str] | str | None = None,
    ) -> list[AgentCard]:
        """The cards that the registry knows now, with this name, this role and all of these tags.

        ``filter_by`` is a mapping of the same three names. RuntimeError without a registry.
        """
        return await self.network.discover(filter_by, name=name, role=role, tags=tags)

    # ------------------------------------------------------------------------------------------------ stored runs

    async def resume(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        approved: bool | None = None,
        answer: Any = UNSET,
        fingerprint: str | None = None,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
        rerun: str | None = None,
    ) -> Any:
        """Go on with a stored run and return its result; RunInterrupted when it pauses again.

        Without a response: grants the next slice, tries a failed provider again, goes on after a crash, or returns the
        stored result. ``answer`` or ``approved`` answer the request ``request_id``; ``fingerprint`` binds the answer to
        what was displayed; ``arguments`` edit an approved action, which is then judged anew. ``rerun`` allows an
        idempotent uncertain action to run again.
        """
        response = responses.Response(request_id, approved, answer, fingerprint, arguments, reason)
        return await attempt.resumed_output(self, run_id, response, rerun)

    async def resume_task(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        approved: bool | None = None,
        answer: Any = UNSET,
        fingerprint: str | None = None,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
        rerun: str | None = None,
    ) -> Task:
        """``resume`` that returns the whole task, also when it pauses again."""
        response = responses.Response(request_id, approved, answer, fingerprint, arguments, reason)
        return await attempt.resumed(self, run_id, response, rerun)

    async def resume_run(
        self,
        run_id: str,
        *,
        request_id: str | None = None,
        approved: bool | None = None,
        answer: Any = UNSET,
        fingerprint: str | None = None,
        arguments: dict[str, Any] | None = None,
        reason: str | None = None,
        rerun: str | None = None,
        event_buffer_size: int | None = None,
    ) -> RunHandle:
        """``resume`` that returns when the response is stored, with a handle of the run, which goes on.

        The handle numbers its events after the stored ones, which ``run_events`` has; its report tells of both. What
        ``resume`` refuses is raised here, and then nothing has changed.
        """
        response = responses.Response(request_id, approved, answer, fingerprint, arguments, reason)
        going_on = await resumed.ResumedRun.begin(self, run_id, response, rerun)
        return handle.RunHandle(self, going_on.task, resumed=going_on, event_buffer_size=event_buffer_size)

    def reconcile(self, run_id: str, action_id: str, *, result: Any = UNSET, unchanged: str | None = None) -> None:
        """Record what an uncertain action did, as verified outside. Executes nothing.

        Give the ``result`` that the tool would have returned; or ``unchanged``, why it did nothing at all: then the
        action is rejected as if its tool had said so, and a model may propose it again, to be judged anew. ``run_id``
        may be a child's. DurableExecutionError when that action is not unresolved, TypeError for a result that is no
        JSON, ValueError unless exactly one of the two is given; then nothing changes.
        """
        self.runs.reconcile(run_id, action_id, result, unchanged)

    def run_events(self, run_id: str, after: int = 0) -> list[RunEvent]:
        """The events of a stored run with a number above ``after``, read without owning it."""
        return self.runs.events(run_id, after)

    # ------------------------------------------------------------------------------------------------ state

    @property
    def state(self) -> State:
        """What is remembered between runs."""
        return self._state

    async def describe_state(
        self, request: StateOperationRequest | Mapping[str, Any] | None = None, **which: Any
    ) -> StateOperationResult:
        """How much is remembered. ``which``: the fields of a StateOperationRequest, in place of one."""
        return await self.memory.describe(memory.state_request(request, which))

    async def reset_state(
        self, request: StateOperationRequest | Mapping[str, Any] | None = None, **which: Any
    ) -> StateOperationResult:
        """Forget one session (``session_id=...``), or everything. StoreUnavailableError when that cannot be done."""
        return await self.memory.reset(memory.state_request(request, which))

    async def compact_state(
        self, request: StateOperationRequest | Mapping[str, Any] | None = None, **which: Any
    ) -> StateOperationResult:
        """Drop the tool calls and results of older turns, and with ``keep_turns=N`` the turns before the newest N."""
        return await self.memory.compact(memory.state_request(request, which))

    async def compact_history(
        self, request: HistoryCompactionRequest | Mapping[str, Any] | None = None, **which: Any
    ) -> HistoryCompactionResult:
        """Keep the newest messages of a session, or of the chat of the agent's own model; see the request's fields."""
        return await self.memory.compact_history(memory.compaction_request(request, which), self.llm)

    # ------------------------------------------------------------------------------------------------ configuration

    def to_dict(self) -> dict[str, Any]:
        """The agent's configuration as detached JSON, without secrets, handlers, run store or telemetry.

        What has to be given to ``from_dict`` again carries ``reconnect_required``. TypeError for what is no JSON.
        """
        return config.to_dict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], **overrides: Any) -> Self:
        """An agent of a configuration. IT IMPORTS THE MODULES AND OPENS THE FILE THAT ``data`` NAMES: trust it first.

        ``overrides`` are constructor arguments and win. Stored runs are left alone. ValueError for a configuration that
        cannot be used, and for what must be reattached and is not, by name.
        """
        return config.from_dict(cls, data, overrides)

    def to_yaml_string(self) -> str:
        """``to_dict`` as YAML. ImportError names the extra when it is missing."""
        return config.to_yaml_string(self)

    def to_yaml(self, path: str | os.PathLike[str]) -> None:
        """``to_dict`` as a YAML file in UTF-8; one that is there is replaced."""
        config.to_yaml(self, path)

    @classmethod
    def from_yaml_string(cls, text: str, **overrides: Any) -> Self:
        """``from_dict`` of YAML text. As dangerous: trusted configuration only."""
        return config.from_dict(cls, config.read_yaml(text), overrides)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], **overrides: Any) -> Self:
        """``from_dict`` of a YAML file. As dangerous: trusted configuration only."""
        return config.from_dict(cls, config.read_yaml_file(path), overrides)

    # ------------------------------------------------------------------------------------------------ inside

    def _describe(self) -> None:
        """Keep the card's skills in step with the tools."""
        if self.skills == "auto":
            self.card.skills = [
                AgentSkill(id=tool.name, description=tool.description, input_schema=tool.input_schema or {})
                for tool in self.roster.tools.values()
            ]
