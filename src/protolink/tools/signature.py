"""What a callable says about its parameters and its result."""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._lazy import Later
from ..models.value import dataclass

if TYPE_CHECKING:
    from . import field_default
else:
    field_default = Later(".field_default", __package__)

#: The default of a parameter that has none.
REQUIRED: Any = inspect.Parameter.empty

_VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One named parameter. ``hint`` is Any when there is none, ``default`` is REQUIRED when there is none."""

    name: str
    hint: Any
    default: Any


@dataclass(frozen=True, slots=True)
class Signature:
    """Parameters that can be given by name, without ``*args`` and ``**kwargs``. ``returns`` is Any when unknown.

    ``takes_more``: the callable has ``**kwargs``.
    """

    parameters: tuple[Parameter, ...]
    returns: Any
    takes_more: bool = False


def read_signature(func: Callable[..., Any]) -> Signature:
    """Read names, hints and defaults. TypeError when there is no signature, a hint cannot be resolved, or a parameter
    can only be given by position."""
    try:
        found = inspect.signature(func)
    except ValueError:
        raise TypeError(f"{name_of(func)} has no readable signature; wrap it in a function") from None
    hints = _hints(func)
    # What a partial has bound is the application's: a model must neither see nor change it.
    bound = func.keywords if isinstance(func, functools.partial) else {}
    for parameter in found.parameters.values():
        if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(f"{name_of(func)}: parameter '{parameter.name}' cannot be given by name; wrap the function")
    return Signature(
        tuple(
            _parameter(name, hints.get(name, Any), parameter.default)
            for name, parameter in found.parameters.items()
            if parameter.kind not in _VARIABLE and name not in bound
        ),
        hints.get("return", Any),
        any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in found.parameters.values()),
    )


def _parameter(name: str, hint: Any, default: Any) -> Parameter:
    """Pydantic's ``x: int = Field(5, ge=1)`` says more than a default."""
    if type(default).__module__ == "pydantic.fields":
        hint, default = field_default.taken_apart(hint, default)
    return Parameter(name, hint, default)


def name_of(func: Callable[..., Any]) -> str:
    """The function's name, of a partial the inner function's, of a callable object its class's."""
    while isinstance(func, functools.partial):
        func = func.func
    name = getattr(func, "__name__", None)
    return name if isinstance(name, str) else type(func).__name__


def is_async(func: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: async functions, their partials, objects with an async ``__call__``."""
    return inspect.iscoroutinefunction(func) or inspect.iscoroutinefunction(getattr(func, "__call__", None))  # noqa: B004


def _hints(func: Callable[..., Any]) -> dict[str, Any]:
    while isinstance(func, functools.partial):
        func = func.func
    target = func if inspect.isroutine(func) else type(func).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except NameError:
        return _without_result(target)


def _without_result(target: Callable[..., Any]) -> dict[str, Any]:
    """Hints when a name is unknown. Only the result's type may be: models are told it, but nothing is checked by it."""
    annotated = inspect.unwrap(target)
    names = {name: hint for name, hint in annotated.__annotations__.items() if name != "return"}
    try:
        return typing.get_type_hints(_Annotated(names), getattr(annotated, "__globals__", {}), include_extras=True)
    except NameError as error:
        raise TypeError(
            f"{name_of(target)}: a type hint is not known at run time ({error}); define it at the top of the module"
        ) from None


class _Annotated:
    """Carries annotations to ``get_type_hints``."""

    def __init__(self, annotations: dict[str, Any]) -> None:
        self.__annotations__ = annotations
