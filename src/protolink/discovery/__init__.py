"""Finding agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "client": ("RegistryClient",),
    "entries": ("RegistryEntry",),
    "registry": ("Registry",),
}

__all__ = [
    "Registry",
    "RegistryClient",
    "RegistryEntry",
]

if TYPE_CHECKING:
    from .client import RegistryClient
    from .entries import RegistryEntry
    from .registry import Registry

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
