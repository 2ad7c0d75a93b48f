"""A tool whose preparation and execution are two functions, with authorization in between."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

from ..drive.execution import ToolExecution
from ..runtime import RunAction, RunContext
from .hinted import HintedArguments
from .schema import output_schema
from .signature import name_of, read_signature
from .tool import ActionBuilder, Probe, description_of
from .traits import checked_name, checked_texts, completed

__all__ = ["PreparedTool", "ToolExecution"]


class PreparedTool:
    """A tool that describes the exact operation first and performs exactly that once it is authorized.

    ``signature`` is a function that only gives name, docstring and parameters; it is never called.
    ``prepare(arguments, context)`` returns the RunAction and changes nothing; it may raise ToolRejectedError for a
    request that a model can correct. ``execute(execution)`` performs ``execution.authorization.action`` and returns the
    result. Both may be async. ``arguments`` are validated JSON. ``capabilities`` are merged into every action.

    ``read_only``, ``idempotent`` and ``probe`` are as for ``Tool``.
    """

    asks_user: ClassVar[Literal[False]] = False

    def __init__(
        self,
        signature: Callable[..., Any],
        *,
        prepare: ActionBuilder,
        execute: Callable[[ToolExecution], Any],
        capabilities: Iterable[str],
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        idempotent: bool = False,
        probe: Probe | None = None,
    ) -> None:
        """TypeError when one of them is no function or a parameter has no JSON form, ValueError for a blank name."""
        for role, func in (("signature", signature), ("prepare", prepare), ("execute", execute)):
            if not callable(func):
                raise TypeError(f"PreparedTool {role} must be a function, got {type(func).__name__}")
        described = read_signature(signature)
        self.name = checked_name(name_of(signature) if name is None else name)
        self.description = description_of(signature, self.name) if description is None else description
        self.tags: list[str] = []
        self.capabilities = tuple(checked_texts("capabilities", capabilities))
        self.read_only = read_only
        self.idempotent = idempotent
        self.probe = probe
        self.signature = signature
        self._prepare = prepare
        self._execute = execute
        self._required = frozenset(self.capabilities)
        self._arguments = HintedArguments(self.name, described)
        self.input_schema: dict[str, Any] = self._arguments.schema
        self.output_schema: dict[str, Any] = output_schema(self.name, described.returns)

    async def __call__(self, /, **arguments: Any) -> Any:
        """Always RuntimeError: without authorization there is nothing that may be executed."""
        raise RuntimeError(f"'{self.name}' is a prepared tool; call it through an agent, which authorizes it first")

    def validate_args(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The checked values, defaults filled in. Raises InvalidArguments (ValueError)."""
        return self._arguments.read(arguments)

    async def prepare_action(self, arguments: Mapping[str, Any], context: RunContext) -> RunAction:
        """``prepare``, awaited."""
        made = self.prepare(arguments, context)
        return made if isinstance(made, RunAction) else await made

    def prepare(self, arguments: Mapping[str, Any], context: RunContext) -> RunAction | Awaitable[RunAction]:
        """The exact operation; an awaitable when the application's ``prepare`` is async.

        Raises InvalidArguments, what ``prepare`` raises (ToolRejectedError), TypeError when it returns no RunAction.
        """
        recorded = self._arguments.record(self._arguments.read(arguments))
        made = self._prepare(dict(recorded), context)
        if not isinstance(made, RunAction) and inspect.isawaitable(made):
            return self._completed_later(made, recorded)
        return completed(made, recorded, self._required, self._arguments, "prepare")

    def invoke(self, execution: ToolExecution) -> Any:
        """Check the authorized arguments again and execute. An async ``execute`` gives its coroutine."""
        self._arguments.read(execution.authorization.action.payload.get("arguments"))
        return self._execute(execution)

    async def _completed_later(self, made: Awaitable[RunAction], arguments: dict[str, Any]) -> RunAction:
        return completed(await made, arguments, self._required, self._arguments, "prepare")
