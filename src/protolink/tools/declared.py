"""Arguments checked by a JSON schema that came with the tool.

Most tools have type hints and never come here, and jsonschema takes longer to load than all of pydantic. So
``violations``, the only module that imports it, is loaded with the first call that is checked by a schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .._lazy import Later
from ..drive.ports import InvalidArguments
from .arguments import Arguments, json_form, mapping_of
from .complaints import kind_of

if TYPE_CHECKING:
    from . import violations
else:
    violations = Later(".violations", __package__)


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
        faults = self._violations.of(json_form(found))
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
    def _violations(self) -> violations.Violations:
        return violations.Violations(self._name, self.schema)
