from __future__ import annotations

import dataclasses

import pytest

from protolink.models import LLMModelProfile


def test_resolved_fills_only_what_is_unknown() -> None:
    profile = LLMModelProfile(context_window=10, model="mine")
    resolved = profile.resolved(provider="p", model="other")
    assert (resolved.provider, resolved.model, resolved.context_window) == ("p", "mine", 10)
    assert profile.provider is None


def test_profile_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LLMModelProfile().currency = "EUR"  # type: ignore[misc]


def test_profile_survives_its_json_form() -> None:
    profile = LLMModelProfile(8192, 1.5, 2.5, "EUR", supports_tools=True, metadata={"k": [1]})
    assert LLMModelProfile.from_dict(profile.to_dict()) == profile
    assert list(profile.to_dict()) == [field.name for field in dataclasses.fields(profile)]
    assert LLMModelProfile.from_dict({}) == LLMModelProfile(currency="USD")


@pytest.mark.parametrize("cost", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", ["input_cost_per_million", "output_cost_per_million"])
def test_a_cost_that_could_not_be_stored_is_refused(name: str, cost: float) -> None:
    with pytest.raises(ValueError, match=name):
        LLMModelProfile.from_dict({name: cost})


def test_unknown_field_is_named() -> None:
    with pytest.raises(ValueError, match="contextwindow"):
        LLMModelProfile.from_dict({"contextwindow": 1})
