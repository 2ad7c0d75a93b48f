"""The namespaces in which storages keep their parts. No part can be taken for another one, or for a namespace."""

from __future__ import annotations

from urllib.parse import quote, unquote

#: Does not occur in quoted names, and in no namespace that anybody would write.
_BETWEEN, _AFTER = "\x1f", "\x20"


def namespace_of(whole: str, name: str) -> str:
    """Where the part of that name is."""
    return f"{whole}{_BETWEEN}{quote(name, safe='')}"


def name_in(whole: str, namespace: str) -> str | None:
    """The name of the part in that namespace; None for what is no part of the whole."""
    start = whole + _BETWEEN
    rest = namespace[len(start) :]
    return unquote(rest) if namespace.startswith(start) and _BETWEEN not in rest else None


def span(whole: str) -> tuple[str, str]:
    """All parts sort from the first text on, and before the second."""
    return whole + _BETWEEN, whole + _AFTER
