from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink.engine import facts as f
from protolink.engine.facts import Proposal, Record, Spec
from protolink.errors import StoreCorruptError
from protolink.journal import codec
from protolink.models import json
from protolink.models.turn import Call
from protolink.runtime import PolicyDecision, RunAction

FACTS = get_args(f.Fact)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
NAMES = st.sampled_from(["a", "write", "ü"])
NUMBERS = st.floats(allow_nan=False, allow_infinity=False, width=32)
LEAVES = st.none() | st.booleans() | st.integers() | NUMBERS | TEXTS
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXTS, inner, max_size=2))
OBJECTS = st.dictionaries(TEXTS, JSON, max_size=2)
ACTIONS = st.builds(
    RunAction,
    kind=NAMES,
    name=NAMES,
    payload=OBJECTS,
    capabilities=st.frozensets(NAMES),
    artifacts=st.just(()),
    metadata=OBJECTS,
    action_id=NAMES,
    created_at=NAMES,
)
DECISIONS = st.builds(
    PolicyDecision, st.sampled_from(["allow", "deny"]), NAMES, NAMES, st.just(("fs.write",)), metadata=OBJECTS
)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    known = {
        RunAction: ACTIONS,
        PolicyDecision: DECISIONS,
        str: TEXTS,
        int: st.integers(0, 10**9),
        float: NUMBERS,
        bool: st.booleans(),
        Any: JSON,
        type(None): st.none(),
    }
    if hint in known:
        return known[hint]
    if dataclasses.is_dataclass(hint):
        return built(hint)
    arguments = get_args(hint)
    origin = getattr(hint, "__origin__", None)
    if origin is dict:
        return st.dictionaries(TEXTS, values_of(arguments[1]), max_size=2)
    if origin is tuple and arguments[-1] is ...:
        return st.lists(values_of(arguments[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, arguments))
    return st.one_of(*map(values_of, arguments))


def built(cls: type) -> st.SearchStrategy[Any]:
    hints = get_type_hints(cls)
    return st.builds(cls, **{field.name: values_of(hints[field.name]) for field in dataclasses.fields(cls)})


@pytest.mark.parametrize("cls", FACTS, ids=lambda cls: cls.__name__)
@settings(max_examples=25)
@given(data=st.data())
def test_every_fact_survives_storage(cls: type, data: st.DataObject) -> None:
    record = Record(data.draw(st.integers(0, 10**9)), 7, data.draw(NUMBERS), data.draw(built(cls)))
    assert codec.decode(codec.encode(record)) == record


def test_defaults_take_no_bytes() -> None:
    record = Record(3, 9, 1.5, f.Resumed())
    assert codec.encode(record) == b'[3,9,1.5,"Resumed",{}]'


@pytest.mark.parametrize("value", [False, 0, 0.0, "", [], {}])
def test_falsy_results_stay_what_they_are(value: Any) -> None:
    found: Any = codec.decode(codec.encode(Record(0, 0, 0.0, f.ToolReturned("a", value)))).fact
    assert found.result == value
    assert type(found.result) is type(value)


def test_nested_parts_come_back_as_objects() -> None:
    spec = Spec("r.1>", call=Proposal("a", Call("c", "write", {"x": 1})), context={"depth": 1})
    found: Any = codec.decode(codec.encode(Record(0, 0, 0.0, f.FrameOpened(spec=spec, parent="a")))).fact
    assert isinstance(found.spec, Spec)
    assert isinstance(found.spec.call.call, Call)


def test_values_become_their_json_form() -> None:
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    found: Any = codec.decode(codec.encode(Record(0, 0, 0.0, f.ToolReturned("a", (1, {moment}))))).fact
    assert found.result == [1, ["2026-11-30T00:00:00Z"]]


@pytest.mark.parametrize("value", [object(), float("nan"), {"x": float("inf")}, {(1, 2): 3}])
def test_a_result_that_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        codec.encode(Record(0, 0, 0.0, f.ToolReturned("a", value)))


class Number(float):
    """As numeric libraries have their own."""


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf"), Number("nan")])
def test_a_number_that_is_no_json_is_refused_in_every_field(number: Any) -> None:
    for fact in (f.Answered("r", True, number), f.Answered("r", number), f.CancelRequested(number)):
        with pytest.raises(TypeError):
            codec.encode(Record(1, 1, 0.0, fact))
    with pytest.raises(TypeError):
        codec.encode(Record(1, 1, number, f.Parked()))


def test_the_words_for_numbers_that_are_no_json_are_fine_in_text() -> None:
    record = Record(1, 1, 0.0, f.Answered("r", "NaN, Infinity"))
    assert codec.decode(codec.encode(record)) == record


@pytest.mark.parametrize("depth", [10, 150, 195, 205, 260, 400])
def test_what_is_stored_can_always_be_read_again(depth: int) -> None:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    record = Record(0, 0, 0.0, f.ToolReturned("a", value))
    try:
        data = codec.encode(record)
    except TypeError:
        assert depth > 190
    else:
        assert codec.decode(data) == record


def test_many_brackets_without_depth_are_fine() -> None:
    record = Record(0, 0, 0.0, f.ToolReturned("a", [[] for _ in range(1000)]))
    assert codec.decode(codec.encode(record)) == record


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[1,2]",
        b'[0,0,0.0,"NoSuchFact",{}]',
        b'[0,0,0.0,"Parked",{"unheard":1}]',
        b'[0,0,0.0,"ToolStarted",{}]',
        b'[0,0,0.0,"Parked",[]]',
        b'[0,0,0.0,"Prepared",{"action":"a","prepared":7}]',
    ],
)
def test_what_is_no_record_is_corrupt(line: bytes) -> None:
    with pytest.raises(StoreCorruptError):
        codec.decode(line)


def test_an_unknown_fact_of_a_newer_version_is_told_apart() -> None:
    line = b'[0,0,0.0,"Teleported",{}]'
    with pytest.raises(StoreCorruptError, match="newer protolink"):
        codec.decode(line, schema=codec.SCHEMA_VERSION + 1)
    with pytest.raises(StoreCorruptError) as found:
        codec.decode(line)
    assert "newer" not in str(found.value)


def test_a_batch_is_one_line_a_record() -> None:
    batch = [Record(0, 0, 0.0, f.ToolReturned("a", "two\nlines")), Record(1, 0, 0.0, f.Parked())]
    lines = codec.to_lines(batch).split(b"\n")
    assert [json.loads(line)[0] for line in lines] == [0, 1]
