"""Schemas of JSON's own types are written without pydantic, in exactly its words."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink.tools.drawn import result_schema
from protolink.tools.hinted import HintedArguments
from protolink.tools.json_hints import schema_of
from protolink.tools.schema import plain_input_schema
from protolink.tools.signature import REQUIRED, Parameter, Signature
from protolink.tools.validation import Validation

SCALARS = [str, int, float, bool, None]
HINTS = st.recursive(
    st.sampled_from([*SCALARS, Any, list, dict, Literal["a", "b"], Literal["one"]]),
    lambda inner: st.one_of(
        inner.map(lambda hint: list[hint]),
        inner.map(lambda hint: dict[str, hint]),
        inner.map(lambda hint: Union[None, hint]),  # noqa: UP007
        st.tuples(inner, inner).map(lambda both: Union[both]),  # noqa: UP007
    ),
    max_leaves=5,
)
DEFAULTS = st.one_of(
    st.just(REQUIRED),
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(["a", "b", "one", "\u00e9", "\ud800"]),
    st.just([]),
    st.just({}),
)
NAMES = st.sampled_from(["a", "copy", "_x", "model_config", "json", "self_", "schema"])


@given(st.lists(st.builds(Parameter, NAMES, HINTS, DEFAULTS), max_size=4, unique_by=lambda found: found.name))
@settings(max_examples=300, deadline=None)
def test_a_plain_schema_is_what_pydantic_draws(parameters: list[Parameter]) -> None:
    found = plain_input_schema("t", parameters)
    if found is None:
        return
    drawn = Validation("t", tuple(parameters), takes_more=False, schema=None).schema
    assert found == drawn
    # What a model reads is the same text, so the order counts too.
    assert str(found) == str(drawn)


@given(HINTS)
@settings(max_examples=200, deadline=None)
def test_a_results_schema_is_what_pydantic_draws(hint: Any) -> None:
    found = schema_of(hint)
    assert found is None or str(found) == str(result_schema(hint))


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (None, {"type": "null"}),
        (Any, {}),
        (list[int], {"items": {"type": "integer"}, "type": "array"}),
        (dict[str, Any], {"additionalProperties": True, "type": "object"}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Literal["a"], {"enum": ["a"], "type": "string"}),
    ],
)
def test_jsons_own_types_have_a_schema(hint: Any, schema: dict[str, Any]) -> None:
    assert schema_of(hint) == schema


@pytest.mark.parametrize(
    "hint",
    [
        Annotated[int, "odd"], bytes, set[int], tuple[int, ...], dict[int, str], list[bytes], Literal[1], int | Any,
        list[int] | bytes, complex, object, "int",
    ],
)  # fmt: skip
def test_every_other_type_is_left_to_pydantic(hint: Any) -> None:
    assert schema_of(hint) is None


@pytest.mark.parametrize(
    ("hint", "default"),
    [(int, True), (int, None), (bool, 1), (str, 1), (float, float("nan")), (list[int], []), (Literal["a"], "b")],
)
def test_a_default_that_may_not_come_back_as_it_is_leaves_the_schema_to_pydantic(hint: Any, default: Any) -> None:
    assert plain_input_schema("t", [Parameter("x", hint, default)]) is None


def test_plain_arguments_are_checked_and_completed_as_others() -> None:
    arguments = HintedArguments("t", Signature((Parameter("x", int, REQUIRED), Parameter("y", float, 2)), Any))
    assert arguments.read({"x": 1}) == {"x": 1, "y": 2}
    assert arguments.record({"x": 1, "y": 2}) == {"x": 1, "y": 2}
    with pytest.raises(ValueError, match=r"tool args.x must be an integer, got str; tool args received unexpected"):
        arguments.read({"x": "1", "z": 0})
