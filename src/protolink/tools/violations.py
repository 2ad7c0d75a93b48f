"""What is wrong with a value, by a JSON schema: jsonschema's findings in our words."""

from __future__ import annotations

from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from jsonschema.exceptions import ValidationError as SchemaViolation
from referencing.exceptions import Unresolvable
from referencing.jsonschema import EMPTY_REGISTRY

from .complaints import kind_of, one_of, place, unexpected


class Violations:
    """Checks values by the schema of the tool ``name``. ValueError for a schema that is none."""

    def __init__(self, name: str, schema: dict[str, Any]) -> None:
        self._name = name
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise ValueError(f"tool '{name}': input_schema is not a JSON schema: {error.message}") from None
        # A registry of its own: a schema from elsewhere must not make us fetch what it refers to.
        self._validator = Draft202012Validator(schema, registry=EMPTY_REGISTRY)

    def of(self, value: Any) -> list[str]:
        """Every fault once; empty when there is none. ValueError when the schema refers to what it does not hold."""
        try:
            return list(dict.fromkeys(map(_fault, self._validator.iter_errors(value))))
        except Unresolvable as error:
            raise ValueError(f"tool '{self._name}': input_schema refers to what it does not hold: {error}") from None


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
