"""Dataclasses that cost little to define and to make. Take ``dataclass`` from here, ``field`` from the library.

The library's decorator writes and compiles up to eight methods for each class while a module is imported; that took a
third of the time of ``import protolink``, and a process uses few of them. Here a class gets its slots at once and each
method when it is first looked up. Most methods are still the library's: it makes them for a *model*, a class with the
same fields that nobody sees. Only ``__init__`` is written here, for a frozen one is twice as fast when it sets its
fields through their slots instead of ``object.__setattr__``.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Mapping
from time import time
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

from .ids import iso_from_seconds

__all__ = ["dataclass", "moment", "value"]

T = TypeVar("T")

_BY_LIBRARY = ("__eq__", "__repr__", "__match_args__", "__dataclass_params__")
if sys.version_info >= (3, 13):
    _BY_LIBRARY += ("__replace__",)


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """A value of the hot path: equality and a hash by its fields, not to be changed.

    The type checker says so; the interpreter does not enforce it, for dozens of facts and commands are made in a turn.
    Public values that applications hold are really frozen.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *, slots: bool, frozen: bool = False, unsafe_hash: bool = False, weakref_slot: bool = False
    ) -> Callable[[type], type]:
        """The library's decorator for classes with slots and without bases and ``InitVar``.

        ``slots`` has to be said, and True, so that the line means the same to every reader.
        """
        if not slots:
            raise TypeError("use dataclasses.dataclass for a class without slots")
        more_slots = ("__weakref__",) if weakref_slot else ()
        return lambda cls: _slotted(cls, more_slots, frozen=frozen, unsafe_hash=unsafe_hash)


def moment() -> Any:
    """A field for the UTC time at which its object was made, as ISO 8601 text like that of ``utc_now``.

    Every action has such times and few are looked at: the text is written when the field is first read. Until then it
    is Unix seconds, which may also be given.
    """
    return dataclasses.field(default_factory=time, metadata=_MOMENT)


_MOMENT = {"moment": True}


class _Moment:
    """Stands before the slot of a ``moment()``, which holds Unix seconds until they are read."""

    __slots__ = ("_slot", "store")

    def __init__(self, slot: Any) -> None:
        self._slot = slot
        self.store: Callable[[Any, Any], None] = slot.__set__

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        found = self._slot.__get__(instance)
        if isinstance(found, (float, int)):
            found = iso_from_seconds(found)
            self.store(instance, found)
        return found

    def __set__(self, instance: Any, value: Any) -> None:
        self.store(instance, value)


class _Absent:
    """Stands for the argument that was not given where a factory makes the default."""

    def __repr__(self) -> str:
        return "<factory>"


_ABSENT = _Absent()


class _Unmade:
    """What a dataclass does not have yet: it is made when it is first looked up, and takes this one's place."""

    __slots__ = ("_cls", "_make", "_name")

    def __init__(self, name: str, make: Callable[[type, str], Any]) -> None:
        self._name = name
        self._make = make

    def __set_name__(self, owner: type, name: str) -> None:
        self._cls = owner

    def __get__(self, instance: Any, owner: type) -> Any:
        # Bound by hand: a subclass may have one of its own by this name, which a second look-up would find.
        made = self._make(self._cls, self._name)
        setattr(self._cls, self._name, made)
        return made.__get__(instance, owner) if isinstance(made, FunctionType) else made


def _slotted(cls: type, more_slots: tuple[str, ...], *, frozen: bool, unsafe_hash: bool) -> type:
    """``cls`` made again: slots cannot be added to a class, nor stand beside the defaults of their fields."""
    body = dict(cls.__dict__)
    hints = {name: hint for name, hint in cls.__annotations__.items() if not hint.startswith("ClassVar[")}
    defaults = {name: body.pop(name) for name in hints if name in body}
    for name in ("__dict__", "__weakref__"):
        body.pop(name, None)
    body["__slots__"] = (*hints, *more_slots)
    model = _Model(hints, defaults, frozen=frozen, unsafe_hash=unsafe_hash)
    for name in _BY_LIBRARY:
        body.setdefault(name, _Unmade(name, model.by_library))
    body.setdefault("__hash__", _Unmade("__hash__", model.by_library) if frozen or unsafe_hash else None)
    body["__init__"] = _Unmade("__init__", model.init)
    body["__dataclass_fields__"] = _Unmade("__dataclass_fields__", model.fields)
    if frozen:
        body.setdefault("__getstate__", _state)
        body.setdefault("__setstate__", _set_state)
    made = type(cls.__name__, (), body)
    made.__qualname__ = cls.__qualname__
    for name, default in defaults.items():
        if isinstance(default, dataclasses.Field) and default.metadata.get("moment"):
            setattr(made, name, _Moment(made.__dict__[name]))
    if frozen:
        _freeze(made, hints)
    return made


class _Model:
    """The fields of a class, as the library needs them to make the rest."""

    __slots__ = ("_defaults", "_frozen", "_hints", "_unsafe_hash")

    def __init__(self, hints: dict[str, str], defaults: dict[str, Any], *, frozen: bool, unsafe_hash: bool) -> None:
        self._hints = hints
        self._defaults = defaults
        self._frozen = frozen
        self._unsafe_hash = unsafe_hash

    def by_library(self, cls: type, name: str) -> Any:
        """A method, or an attribute, of a model made with the same options."""
        made = self._made(cls, frozen=self._frozen, unsafe_hash=self._unsafe_hash)
        return made.__dict__[name]

    def fields(self, cls: type, _: str = "") -> Any:
        """``__dataclass_fields__``."""
        return self._made(cls, init=False, repr=False, eq=False, match_args=False).__dict__["__dataclass_fields__"]

    def init(self, cls: type, _: str) -> FunctionType:
        """``__init__``, compiled where ``cls`` was defined, so that its hints are found."""
        fields = dataclasses.fields(cls)
        source, used = _init_source(fields, frozen=self._frozen, post_init=hasattr(cls, "__post_init__"))
        if self._frozen:
            used |= {f"_set_{field.name}": cls.__dict__[field.name].__set__ for field in fields}
        used |= {f"_set_{name}": slot.store for name, slot in cls.__dict__.items() if type(slot) is _Moment}
        made: dict[str, Any] = {}
        exec(source, sys.modules[cls.__module__].__dict__, made)
        init: FunctionType = made["close"](**used)
        init.__qualname__ = f"{cls.__qualname__}.__init__"
        init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
        return init

    def _made(self, cls: type, **options: bool) -> type:
        body = {
            "__annotations__": self._hints,
            "__module__": cls.__module__,
            "__qualname__": cls.__qualname__,
            "__doc__": cls.__name__,  # without one the library draws it, which takes long
            **self._defaults,
        }
        return dataclasses.dataclass(**options)(type(cls.__name__, (), body))


def _init_source(
    fields: tuple[dataclasses.Field[Any], ...], *, frozen: bool, post_init: bool
) -> tuple[str, dict[str, Any]]:
    """The text of a function that gives ``__init__``, and what it has to be called with."""
    by_place, by_name, lines = ["self"], list[str](), list[str]()
    used: dict[str, Any] = {"_absent": _ABSENT}
    for field in fields:
        name = field.name
        default = f"_default_{name}"
        if field.default_factory is not dataclasses.MISSING:
            used[default] = field.default_factory
            value = f"{default}() if {name} is _absent else {name}" if field.init else f"{default}()"
            default = "_absent"
        elif field.default is not dataclasses.MISSING:
            used[default] = field.default
            value = name if field.init else default
        else:
            value, default = name, ""
        if field.init:
            (by_name if field.kw_only else by_place).append(f"{name}={default}" if default else name)
        elif not default:
            continue
        by_slot = frozen or "moment" in field.metadata
        lines.append(f"_set_{name}(self, {value})" if by_slot else f"self.{name} = {value}")
    if post_init:
        lines.append("self.__post_init__()")
    parameters = ", ".join([*by_place, "*", *by_name] if by_name else by_place)
    needed = ", ".join([*used, *(f"_set_{field.name}" for field in fields if frozen or "moment" in field.metadata)])
    body = "\n  ".join(lines or ["pass"])
    return f"def close({needed}):\n def __init__({parameters}):\n  {body}\n return __init__", used


def _freeze(cls: type, names: Mapping[str, str]) -> None:
    """Refuse to set and delete the fields. A subclass may have attributes of its own, as with the library."""

    def refuse_set(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        object.__setattr__(self, name, value)

    def refuse_delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        object.__delattr__(self, name)

    cls.__setattr__ = refuse_set  # type: ignore[method-assign,assignment]
    cls.__delattr__ = refuse_delete  # type: ignore[method-assign,assignment]


def _state(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, kept in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, kept)
