"""What a model may ask. Loaded with the first ``ask_user`` tool, for its hints need pydantic."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

_Text = Annotated[str, Field(min_length=1, max_length=8000, pattern=r"\S")]
_Option = Annotated[str, Field(min_length=1, max_length=500, pattern=r"\S")]
_Options = Annotated[list[_Option], Field(max_length=10)]


def question(question: _Text, options: _Options | None = None) -> None:
    """Only its parameters matter; it is never called."""
