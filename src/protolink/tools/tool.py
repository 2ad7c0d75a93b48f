"""A tool made of a function."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from ..drive.asked_for import asked_for
from ..drive.execution import ToolExecution
from ..models.ids import new_id
from ..runtime import RunAction, RunContext
from .arguments import Arguments
from .declared import DeclaredArguments
from .hinted import HintedArguments
from .schema import output_schema
from .signature import is_async, name_of, read_signature
from .threads import call_in_thread
from .traits import checked_name, checked_texts, completed

SyncExecution = Literal["inline", "thread"]
ActionBuilder = Callable[[dict[str, Any], RunContext], RunAction | Awaitable[RunAction]]
Probe = Callable[[RunAction], Any]


@dataclass(eq=False)
class Tool:
    """A function with what models and policies need to know about it.

    ``input_schema``, ``output_schema``: drawn from type hints when None. A schema of your own is what models see and
    what arguments are checked against; hints then only build the function's types. ``args`` is the application's own
    note and is not read. ``capabilities`` are merged into every action. ``action_builder(arguments, context)`` builds
    the exact operation, with previews; ``arguments`` are JSON, as they will be stored.

    ``sync_execution``: "thread" runs a plain function in a thread of ``executor`` (asyncio's own when None), which a
    cancellation does not stop; "inline" and None call it where the agent runs. ``read_only``: no effect outside, may
    run again after a crash. ``idempotent``: repeating with the same ``idempotency_key`` changes nothing more.
    ``probe(action)`` looks up what became of an action whose outcome is unknown, and returns a ProbeFinding.

    Raises TypeError for what is no function or cannot be called with JSON, ValueError for a blank name.
    """

    name: str
    description: str
    input_schema: dict[str, Any] | None
    output_schema: dict[str, Any] | None
    tags: list[str] | None
    func: Callable[..., Any]
    args: Any = None
    examples: list[Any] | None = None
    capabilities: Iterable[str] | None = None
    action_builder: ActionBuilder | None = None
    sync_execution: SyncExecution | None = None
    read_only: bool = False
    idempotent: bool = False
    probe: Probe | None = None
    executor: Executor | None = field(default=None, init=False, repr=False)
    asks_user: ClassVar[Literal[False]] = False

    def __post_init__(self) -> None:
        if not callable(self.func):
            raise TypeError(f"a tool needs a function, got {type(self.func).__name__}")
        if inspect.isgeneratorfunction(self.func) or inspect.isasyncgenfunction(self.func):
            raise TypeError(f"{name_of(self.func)} is a generator; a tool returns its result at once")
        if self.sync_execution not in (None, "inline", "thread"):
            raise ValueError(f"sync_execution must be 'inline', 'thread' or None, got {self.sync_execution!r}")
        self.name = checked_name(self.name)
        self.tags = checked_texts("tags", self.tags)
        self.capabilities = tuple(checked_texts("capabilities", self.capabilities))
        self._required = frozenset(self.capabilities)
        self._is_async = is_async(self.func)
        self._arguments, returns = _arguments(self.name, self.func, self.input_schema)
        self.input_schema = self._arguments.schema
        if self.output_schema is None:
            self.output_schema = output_schema(self.name, returns)

    @classmethod
    def from_callable(
        cls,
        func: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        tags: Iterable[str] | None = None,
        examples: list[Any] | None = None,
        capabilities: Iterable[str] | None = None,
        action_builder: ActionBuilder | None = None,
        sync_execution: SyncExecution | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        probe: Probe | None = None,
    ) -> Tool:
        """A tool named and described as the function is, unless told otherwise."""
        if not callable(func):
            raise TypeError(f"a tool needs a function, got {type(func).__name__}")
        name = checked_name(name_of(func) if name is None else name)
        return cls(
            name=name,
            description=description_of(func, name) if description is None else description,
            input_schema=input_schema,
            output_schema=output_schema,
            tags=checked_texts("tags", tags),
            func=func,
            examples=examples,
            capabilities=capabilities,
            action_builder=action_builder,
            sync_execution=sync_execution,
            read_only=read_only,
            idempotent=idempotent,
            probe=probe,
        )

    async def __call__(self, /, **arguments: Any) -> Any:
        """Validate and call, outside any run: no policy, no budget, no record."""
        result = self._call(self._arguments.read(arguments))
        return await result if inspect.isawaitable(result) else result

    def validate_args(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values for the function, coerced, defaults filled in. Raises InvalidArguments (a ValueError)."""
        return self._arguments.read(arguments)

    async def prepare_action(self, arguments: Mapping[str, Any], context: RunContext) -> RunAction:
        """``prepare``, awaited."""
        made = self.prepare(arguments, context)
        return made if isinstance(made, RunAction) else await made

    def prepare(self, arguments: Mapping[str, Any], context: RunContext) -> RunAction | Awaitable[RunAction]:
        """The action that these arguments ask for; changes nothing. An awaitable only with an async ``action_builder``.

        Raises InvalidArguments, and TypeError when the builder returns no RunAction.
        """
        recorded = self._arguments.record(self._arguments.read(arguments))
        if self.action_builder is None:
            payload = {"arguments": recorded}
            key = asked_for.get() or new_id("action")
            return RunAction("tool.call", self.name, payload, self._required, (), self.description, {}, key)
        made = self.action_builder(dict(recorded), context)
        if not isinstance(made, RunAction) and inspect.isawaitable(made):
            return self._completed_later(made, recorded)
        return completed(made, recorded, self._required, self._arguments, "action_builder")

    def invoke(self, execution: ToolExecution) -> Any:
        """Check the authorized arguments again and call the function. An async function gives its coroutine."""
        return self._perform(execution.authorization.action)

    @property
    def alone(self) -> Callable[[RunAction], Any] | None:
        """See ``ToolPort``: a function is given its arguments. A subclass with its own ``invoke`` may want more."""
        return self._perform if type(self).invoke is Tool.invoke else None

    def _perform(self, action: RunAction) -> Any:
        return self._call(self._arguments.read(action.payload.get("arguments")))

    async def _completed_later(self, made: Awaitable[RunAction], arguments: dict[str, Any]) -> RunAction:
        return completed(await made, arguments, self._required, self._arguments, "action_builder")

    def _call(self, values: dict[str, Any]) -> Any:
        if self.sync_execution == "thread" and not self._is_async:
            return self._call_in_thread(values)
        return self.func(**values)

    async def _call_in_thread(self, values: dict[str, Any]) -> Any:
        result = await call_in_thread(self.executor, self.func, values)
        return await result if inspect.isawaitable(result) else result


def description_of(func: Callable[..., Any], name: str) -> str:
    """The cleaned docstring, else a plain sentence. A callable object is not described by its class's docstring."""
    own = func if inspect.isroutine(func) else getattr(func, "func", None)
    return (inspect.getdoc(own) if own is not None else None) or f"Call {name}."


def _arguments(name: str, func: Callable[..., Any], schema: dict[str, Any] | None) -> tuple[Arguments, Any]:
    """How the arguments are checked, and the hint of the result."""
    if schema is None:
        signature = read_signature(func)
        return HintedArguments(name, signature), signature.returns
    try:
        signature = read_signature(func)
        if not signature.parameters:
            return DeclaredArguments(name, schema), signature.returns
        hinted = HintedArguments(name, signature, takes_more=signature.takes_more)
    except TypeError:
        # Hints that say nothing usable are no fault where a schema was given.
        return DeclaredArguments(name, schema), Any
    # The schema that hints give anyway, as in a copied tool, is checked by the faster way.
    return (hinted if hinted.schema == schema else DeclaredArguments(name, schema, hinted)), signature.returns
