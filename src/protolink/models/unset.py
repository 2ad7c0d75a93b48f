"""The value of an argument that was not given, where None has a meaning."""

from __future__ import annotations


class Unset:
    """The type of ``UNSET``, for signatures that tell "not given" from None."""

    def __repr__(self) -> str:
        return "<unset>"


UNSET = Unset()
