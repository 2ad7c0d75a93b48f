"""Public names that are loaded when they are first used, so that importing a package loads only what a run needs."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any


def loader(package: str, homes: Mapping[str, str], names: MutableMapping[str, Any]) -> Callable[[str], Any]:
    """A module's ``__getattr__``. ``homes`` maps a name to the submodule it lives in; ``names`` is ``globals()``."""

    def load(name: str) -> Any:
        home = homes.get(name)
        if home is None:
            raise AttributeError(f"module '{package}' has no attribute '{name}'")
        value = names[name] = getattr(importlib.import_module(f"{package}.{home}"), name)
        return value

    return load


def by_name(homes: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """``{submodule: names}`` turned round."""
    return {name: home for home, names in homes.items() for name in names}
