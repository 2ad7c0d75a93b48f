"""Loading what is needed when it is needed, so that importing protolink loads only what making an agent takes.

Both ways stand at the top of a module, beside an import for type checkers, so that they hide no dependency.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, MutableMapping
from types import ModuleType
from typing import Any


class Later:
    """A module that is loaded when one of its names is first used."""

    __slots__ = ("_module", "_name", "_package")

    def __init__(self, name: str, package: str | None = None) -> None:
        """``name`` as in an import; ``package`` is ``__package__`` where the name begins with a dot."""
        self._name = name
        self._package = package
        self._module: ModuleType | None = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            self._module = importlib.import_module(self._name, self._package)
        return getattr(self._module, name)


def loader(
    package: str, homes: Mapping[str, str], names: MutableMapping[str, Any]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package with public names that are loaded when they are first used.

    ``homes`` maps a name to the submodule it lives in, or to ``..another.package``; ``names`` is ``globals()``.
    """

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = names[name] = getattr(importlib.import_module(f".{home.removeprefix('.')}", package), name)
        return value

    return load, lambda: sorted({*names, *homes})


def by_name(homes: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """``{submodule: names}`` turned round."""
    return {name: home for home, names in homes.items() for name in names}
