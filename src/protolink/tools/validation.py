"""Validating arguments by type hints, with pydantic. Loaded when it is first needed: see ``json_hints``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, NotRequired

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import PydanticSerializationError, from_json, to_json
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from ..drive.ports import InvalidArguments
from ..models.json import plain
from .arguments import json_form, mapping_of
from .complaints import complain
from .declared import DeclaredArguments
from .drawn import drawn_input_schema
from .schema import has_numeric_choice
from .signature import REQUIRED, Parameter

#: Beyond this a float no longer holds every integer.
_EXACT = 2**53


class Validation:
    """Everything is prepared once; ``read`` does one validation."""

    def __init__(
        self, name: str, parameters: tuple[Parameter, ...], *, takes_more: bool, schema: dict[str, Any] | None
    ) -> None:
        """TypeError when a hint has no JSON form. ``schema`` None is drawn from the hints."""
        self._name = name
        self._takes_more = takes_more
        adapter = self._adapter(parameters)
        defaults = {found.name: found.default for found in parameters if found.default is not REQUIRED}
        shown = _shown(adapter, defaults)
        optional = {name for name, default in defaults.items() if default is None and name not in shown}
        if optional:  # "x: int = None" means that None is allowed.
            parameters = tuple(_optional(found) if found.name in optional else found for found in parameters)
            adapter = self._adapter(parameters)
            shown = _shown(adapter, defaults)
        self.schema = self._drawn(adapter, shown) if schema is None else schema
        self._validate_python: Callable[..., dict[str, Any]] = adapter.validator.validate_python
        self._validate_json: Callable[..., dict[str, Any]] = adapter.validator.validate_json
        self._defaults = [
            (name, default, name in shown and type(default).__hash__ is None) for name, default in defaults.items()
        ]
        self._hidden = {name: default for name, default in defaults.items() if name not in shown}
        # Pydantic takes True for 1 in choices; the declared schema does not.
        self._declared = DeclaredArguments(name, self.schema) if has_numeric_choice(self.schema) else None

    def read(self, arguments: Any) -> dict[str, Any]:
        """The values to call with, defaults filled in. Raises InvalidArguments naming every fault."""
        if type(arguments) is not dict:
            arguments = mapping_of(arguments)
        if self._declared is not None:
            self._declared.read(arguments)
        try:
            values = self._validate_python(arguments, strict=True)
        except ValidationError:
            values = self._read_json(arguments)
        for name, default, mutable in self._defaults:
            if name not in values:
                values[name] = copy.deepcopy(default) if mutable else default
        return values

    def record(self, values: dict[str, Any]) -> dict[str, Any]:
        """The JSON form of values that were read."""
        if self._hidden:
            absent = object()
            values = {name: value for name, value in values.items() if self._hidden.get(name, absent) is not value}
        return json_form(values)

    def _read_json(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """What python-strict validation refuses may still be the JSON form of a richer type."""
        text = _text(arguments)
        try:
            return self._validate_json(text, strict=True)
        except ValidationError:
            found = _whole(from_json(text))
        try:
            return self._validate_json(to_json(found), strict=True)
        except ValidationError as error:
            raise InvalidArguments(complain(error.errors(include_url=False), found, self.schema)) from None

    def _adapter(self, parameters: tuple[Parameter, ...]) -> TypeAdapter[Any]:
        hints = {
            found.name: found.hint if found.default is REQUIRED else NotRequired[found.hint] for found in parameters
        }
        # A TypedDict, because a model would claim names such as "copy" and "_x" for itself.
        make: Any = TypedDict
        shape = make(f"{self._name}Input", hints)
        shape.__pydantic_config__ = ConfigDict(extra="allow" if self._takes_more else "forbid", allow_inf_nan=False)
        try:
            return TypeAdapter(shape)
        except (PydanticUserError, NameError) as error:
            raise self._unfit(error) from None

    def _drawn(self, adapter: TypeAdapter[Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return drawn_input_schema(self._name, adapter, defaults)
        except PydanticUserError as error:
            raise self._unfit(error) from None

    def _unfit(self, error: Exception) -> TypeError:
        reason = str(error).partition("\n")[0]
        return TypeError(f"tool '{self._name}' has a parameter that cannot be given as JSON: {reason}")


def _shown(adapter: TypeAdapter[Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Those defaults, as JSON, that come back as they are when they are read as arguments."""
    found = {}
    for name, default in defaults.items():
        try:
            found[name] = plain(default)
        except TypeError:
            continue
    try:
        adapter.validator.validate_json(to_json(found), strict=True)
    except ValidationError as error:
        refused = {fault["loc"][0] for fault in error.errors(include_url=False)}
        return {name: default for name, default in found.items() if name not in refused}
    return found


def _optional(parameter: Parameter) -> Parameter:
    return Parameter(parameter.name, parameter.hint | None, parameter.default)


def _text(arguments: dict[str, Any]) -> bytes:
    try:
        return to_json(arguments)
    except (PydanticSerializationError, ValueError, RecursionError):
        return to_json(json_form(arguments))


def _whole(value: Any) -> Any:
    """JSON's 1.0 is the integer 1. Where a number is wanted it becomes a float again."""
    if type(value) is float and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    if type(value) is list:
        return [_whole(item) for item in value]
    if type(value) is dict:
        return {key: _whole(item) for key, item in value.items()}
    return value
