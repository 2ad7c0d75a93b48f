"""What arguments of a call are: JSON, checked by type hints (``hinted``) or by a supplied schema (``declared``).

Arguments are JSON, because they come from models and wait in journals. One rule for all of them: JSON's own types are
exact (text is no number, true is no number, 1.0 is 1), and what JSON cannot say is built from what it can: lists become
tuples and sets, text becomes enums, dates and UUIDs, objects become models. Python callers may also pass the finished
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from pydantic_core import to_json

from ..drive.ports import InvalidArguments
from ..models.json import is_plain, plain
from .complaints import kind_of


class Arguments(Protocol):
    """One tool's arguments."""

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema that models see."""

    def read(self, arguments: Any, /) -> dict[str, Any]:
        """The values to call with, defaults filled in. Raises InvalidArguments."""

    def record(self, values: dict[str, Any], /) -> dict[str, Any]:
        """The JSON form of values that were read: reading it again gives them back. Raises InvalidArguments."""


def mapping_of(arguments: Any) -> dict[str, Any]:
    """Arguments as a dict; InvalidArguments when they are no mapping."""
    if type(arguments) is dict:
        return arguments
    if not isinstance(arguments, Mapping):
        raise InvalidArguments(f"tool args must be an object, got {kind_of(arguments)}")
    return dict(arguments)


def json_form(values: dict[str, Any]) -> dict[str, Any]:
    """Values as JSON, the same object when they are; InvalidArguments naming the place when they have no JSON form."""
    if _is_simple(values):
        return values
    try:
        found: dict[str, Any] = values if is_plain(values) else plain(values)
        to_json(found)
    except TypeError as error:
        raise InvalidArguments(f"tool args{str(error).removeprefix('$')}") from None
    except (ValueError, RecursionError):
        raise InvalidArguments("tool args hold text that is no Unicode, or are nested too deeply") from None
    return found


#: Integers up to here are written by every writer of JSON.
_EXACT = 2**53


def _is_simple(values: dict[str, Any]) -> bool:
    """True for ASCII text and usual numbers, as most arguments are: they have a JSON form without a trial."""
    for name, item in values.items():
        kind = type(item)
        if type(name) is not str or not name.isascii():
            return False
        if not (item.isascii() if kind is str else kind is bool or (kind is int and -_EXACT < item < _EXACT)):
            return False
    return True
