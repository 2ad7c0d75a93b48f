"""Arguments checked by the type hints of a function."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._lazy import Later
from .schema import plain_input_schema
from .signature import Signature

if TYPE_CHECKING:
    from . import validation
else:
    validation = Later(".validation", __package__)


class HintedArguments:
    """Arguments by type hints.

    A default that has no JSON form, or that its own hint refuses, is filled in by ``read`` but neither declared nor
    recorded: the next ``read`` fills it in again.
    """

    def __init__(self, name: str, signature: Signature, *, takes_more: bool = False) -> None:
        """TypeError when a hint has no JSON form. ``takes_more`` lets unknown names through."""
        self._name = name
        self._parameters = signature.parameters
        self._takes_more = takes_more
        self._plain_schema = plain_input_schema(name, signature.parameters)
        self.schema: dict[str, Any] = self._plain_schema or self._validation.schema

    @cached_property
    def read(self) -> Callable[[Any], dict[str, Any]]:
        """Gives the values to call with, defaults filled in. Raises InvalidArguments naming every fault."""
        return self._validation.read

    @cached_property
    def record(self) -> Callable[[dict[str, Any]], dict[str, Any]]:
        """Gives the JSON form of values that were read."""
        return self._validation.record

    @cached_property
    def _validation(self) -> validation.Validation:
        return validation.Validation(
            self._name, self._parameters, takes_more=self._takes_more, schema=self._plain_schema
        )
