"""Arguments checked by a JSON schema that came with the tool."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.exceptions import ValidationError as SchemaViolation
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from ..drive.ports import InvalidArguments
from .arguments import Arguments, json_form, mapping_of
from .complaints import kind_of, one_of, place, unexpected


class DeclaredArguments:
    """Arguments by a JSON schema (draft 2020-12) that came with the tool. Its validator is built at the first call."""

    def __init__(self, name: str, schema: Mapping[str, Any], hinted: Arguments | None = None) -> None:
        """``hinted`` turns accepted JSON into the types that the function wants, and fills in declared defaults."""
        if not isinstance(schema, Mapping):
            raise TypeError(f"tool '{name}': input_schema must be a mapping, got {kind_of(schema)}")
        self._name = name
        self._hinted = hinted
        self.schema = dict(schema)

    def read(self, arguments: Any) -> dict[str, Any]:
        """The values to call with. Raises InvalidArguments naming every fault, ValueError for a schema that is none."""
        found = mapping_of(arguments)
        try:
            faults = dict.fromkeys(map(_fault, self._validator.iter_errors(json_form(found))))
        except Unresolvable as error:
            raise ValueError(f"tool '{self._name}': input_schema refers to what it does not hold: {error}") from None
        if faults:
            raise InvalidArguments("; ".join(faults))
        if self._hinted is None:
            return dict(found)
        given = found.keys() | self.schema.get("properties", {}).keys()
        return {name: value for name, value in self._hinted.read(found).items() if name in given}

    def record(self, values: dict[str, Any]) -> dict[str, Any]:
        """The JSON form of values that were read."""
        return self._hinted.record(values) if self._hinted is not None else json_form(values)

    @cached_property
    def _validator(self) -> Draft202012Validator:
        try:
            Draft202012Validator.check_schema(self.schema)
        except SchemaError as error:
            raise ValueError(f"tool '{self._name}': input_schema is not a JSON schema: {error.message}") from None
        # A registry of its own: a schema from elsewhere must not make us fetch what it refers to.
        return Draft202012Validator(self.schema, registry=EMPTY_REGISTRY)


_NAMES = {
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "boolean": "a boolean",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


def _fault(fault: SchemaViolation) -> str:
    """A violation in the words of ``complaints``. Jsonschema's own messages repeat values, so they are not used."""
    path: tuple[int | str, ...] = tuple(fault.absolute_path)
    where, rule, value = place(path), str(fault.validator), fault.validator_value
    if rule == "required":
        missing = [name for name in value if name not in fault.instance]
        return "; ".join(f"{place((*path, name))} is required" for name in missing)
    if rule == "additionalProperties" and value is False:
        known = fault.schema.get("properties", {})
        return unexpected(path, [name for name in fault.instance if name not in known])
    if rule == "type":
        wanted = " or ".join(_NAMES.get(name, str(name)) for name in (value if isinstance(value, list) else [value]))
        return f"{where} must be {wanted}, got {kind_of(fault.instance)}"
    if rule == "enum":
        return f"{where} {one_of(value)}"
    if rule in ("anyOf", "oneOf"):
        branches = "; ".join(dict.fromkeys(map(_fault, fault.context or ())))
        return f"{where} did not match any allowed schema: {branches or rule}"
    return f"{where} failed annotation validation: {rule} {value!r}"
