"""Pydantic's ``Field(...)`` as the default of a parameter. Loaded only where somebody uses it."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field
from pydantic.fields import FieldInfo

from .signature import REQUIRED


def taken_apart(hint: Any, default: FieldInfo) -> tuple[Any, Any]:
    """The hint with what the field says of it, and the default itself."""
    annotated = Annotated[(hint, Field(description=default.description), *default.metadata)]
    return annotated, REQUIRED if default.is_required() else default.get_default(call_default_factory=True)
