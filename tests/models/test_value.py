"""Dataclasses whose methods are made when they are first used: the library's in everything that can be seen."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
import typing
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

import pytest

import protolink
from protolink.models.ids import utc_now
from protolink.models.value import dataclass, moment, value

SOURCE = Path(protolink.__file__).parents[1]


def body(decorate: Callable[[type], type]) -> type:
    """The same class, decorated in one way or the other."""

    class Order:
        kind: ClassVar[str] = "order"

        item: str
        count: int = 1
        notes: list[str] = field(default_factory=list)
        total: int = field(default=0, init=False)
        seen: list[int] = field(default_factory=list, init=False, repr=False, compare=False)
        secret: str = field(default="", kw_only=True, repr=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", self.count * 2)

        def price(self) -> int:
            """Methods stay."""
            return self.total

    Order.__qualname__ = "Order"
    return decorate(Order)


OPTIONS: dict[str, dict[str, Any]] = {
    "mutable": {"slots": True},
    "frozen": {"slots": True, "frozen": True},
    "hashed": {"slots": True, "unsafe_hash": True},
    "weak": {"slots": True, "weakref_slot": True},
}


@pytest.fixture(params=OPTIONS)
def pair(request: pytest.FixtureRequest) -> tuple[Any, Any]:
    """Ours and the library's, both new."""
    options = OPTIONS[request.param]
    return body(dataclass(**options)), body(dataclasses.dataclass(**options))


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


@dataclass(slots=True)
class Box:
    size: int = 1


@value
class Pair:
    left: str
    right: str | None = None


class Named(Point):
    """A subclass with attributes of its own and an initialiser that calls the base's."""

    def __init__(self, name: str) -> None:
        super().__init__(1, y=2)
        self.name = name


def test_signature_and_hints_are_the_librarys(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    assert str(inspect.signature(ours)) == str(inspect.signature(theirs))
    assert typing.get_type_hints(ours.__init__) == typing.get_type_hints(theirs.__init__)


def test_fields_are_the_librarys(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    shown = ("name", "type", "default", "default_factory", "init", "repr", "compare", "kw_only")
    described = [
        [tuple(getattr(item, name) for name in shown) for item in dataclasses.fields(cls)] for cls in (ours, theirs)
    ]
    assert described[0] == described[1]
    assert ours.__match_args__ == theirs.__match_args__
    assert ours.__slots__ == theirs.__slots__
    assert dataclasses.is_dataclass(ours)
    assert ours.kind == "order"


def test_values_are_made_shown_and_compared_as_by_the_library(pair: tuple[Any, Any]) -> None:
    for cls in pair:
        made = cls("pen", 3, secret="s")
        assert repr(made) == "Order(item='pen', count=3, notes=[], total=6)"
        assert made == cls("pen", 3, secret="s")
        assert made != cls("pen", 3)
        assert made != "pen"
        assert made.price() == 6
        assert cls("pen").notes is not cls("pen").notes
        assert dataclasses.asdict(made) == {
            "item": "pen", "count": 3, "notes": [], "total": 6, "seen": [], "secret": "s"
        }  # fmt: skip
        assert dataclasses.replace(made, count=4).total == 8


@pytest.mark.parametrize("arguments", [(), ("pen", 1, [], "too many"), ("pen", 1, [], 0)])
def test_wrong_arguments_are_refused_in_the_librarys_words(pair: tuple[Any, Any], arguments: tuple[Any, ...]) -> None:
    words = []
    for cls in pair:
        with pytest.raises(TypeError) as refused:
            cls(*arguments)
        words.append(str(refused.value))
    assert words[0] == words[1]


def test_hash_is_there_where_the_library_has_one(pair: tuple[Any, Any]) -> None:
    ours, theirs = pair
    assert (ours.__hash__ is None) == (theirs.__hash__ is None)
    if theirs.__hash__ is not None:
        assert hash(Pair("a")) == hash(Pair("a"))
        assert {Point(1): "here"}[Point(1)] == "here"


def test_copies_and_pickles_are_equal() -> None:
    for made in (Point(1, 2), Box(3), Pair("a", "b")):
        assert copy.copy(made) == copy.deepcopy(made) == made
        assert pickle.loads(pickle.dumps(made)) == made


def test_a_frozen_value_is_neither_changed_nor_cut() -> None:
    point = Point(1)
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'x'"):
        del point.x
    assert point == Point(1)


def test_a_subclass_keeps_its_own_attributes_and_the_bases_fields_frozen() -> None:
    named = Named("n")
    assert (named.x, named.y, named.name) == (1, 2, "n")
    named.name = "m"
    with pytest.raises(dataclasses.FrozenInstanceError):
        named.y = 3  # type: ignore[misc]


def test_a_librarys_dataclass_may_derive_from_one() -> None:
    @dataclasses.dataclass(frozen=True)
    class Deep(Point):
        z: int = 5

    assert repr(Deep(1)).endswith("Deep(x=1, y=0, z=5)")
    assert Deep(1, 2, 3) == Deep(1, 2, 3)


def test_patterns_match_by_place_and_by_name() -> None:
    match Point(1, 2):
        case Point(1, y=found):
            assert found == 2
        case _:
            pytest.fail("no match")


def test_a_class_without_slots_is_left_to_the_library() -> None:
    with pytest.raises(TypeError, match="without slots"):
        body(dataclass(slots=False))


def test_no_method_is_made_before_it_is_used() -> None:
    code = """
import sys; sys.path.insert(0, sys.argv[1])
import dataclasses
made = []
real = dataclasses.dataclass
def watched(*args, **options):
    made.append(options)
    return real(*args, **options)
dataclasses.dataclass = watched
from protolink.models.value import dataclass
@dataclass(slots=True, frozen=True)
class Point:
    x: "int"
assert made == []
Point(1)
assert made == [{"init": False, "repr": False, "eq": False, "match_args": False}]
"""
    done = subprocess.run([sys.executable, "-c", code, str(SOURCE)], capture_output=True, text=True, check=False)
    assert done.stderr == ""


@dataclass(slots=True)
class Open:
    item: str
    at: str = moment()


@dataclass(frozen=True, slots=True)
class Closed:
    item: str
    at: str = moment()


@pytest.mark.parametrize("cls", [Open, Closed])
def test_moment_is_the_time_of_making_as_text(cls: type[Any]) -> None:
    before = utc_now()
    made = cls("a")
    after = utc_now()
    assert before <= made.at <= after
    assert dataclasses.asdict(made) == {"item": "a", "at": made.at}
    assert dataclasses.replace(made, item="b").at == made.at


@pytest.mark.parametrize("cls", [Open, Closed])
@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_moment_is_the_same_in_copies_made_before_it_is_read(cls: type[Any], twin: Callable[[Any], Any]) -> None:
    made = cls("a")
    other = twin(made)
    assert (other, other.at) == (made, made.at)


@pytest.mark.parametrize("cls", [Open, Closed])
@pytest.mark.parametrize("given", [1796083200.5, "2026-12-01T00:00:00.500000+00:00"])
def test_moment_is_given_as_seconds_or_text(cls: type[Any], given: Any) -> None:
    assert cls("a", given).at == "2026-12-01T00:00:00.500000+00:00"
    assert cls("a", at=1796083200).at == "2026-12-01T00:00:00.000000+00:00"


def test_moment_is_as_frozen_as_its_class() -> None:
    made, closed = Open("a"), Closed("a")
    made.at = "then"
    assert made.at == "then"
    with pytest.raises(dataclasses.FrozenInstanceError):
        closed.at = "then"  # type: ignore[misc]
