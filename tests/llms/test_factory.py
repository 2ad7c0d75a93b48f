from __future__ import annotations

from typing import Any

import pytest

from protolink.llms import LLMModelProfile, LLMProvider, MockLLM, create_llm, factory

NAMES = [
    "anthropic",
    "deepseek",
    "gemini",
    "grok",
    "huggingface",
    "llama.cpp-local",
    "llama.cpp-server",
    "lmstudio",
    "mock",
    "ollama",
    "openai",
    "openai-compatible",
    "vllm",
]


@pytest.mark.claim("MAN-007")
async def test_create_llm_mock_is_an_offline_mock() -> None:
    llm = create_llm("mock")
    assert isinstance(llm, MockLLM)
    assert await llm.chat("hello") == "Unprocessed generic mock response"


@pytest.mark.claim("INT-011")
async def test_create_llm_mock_with_a_default_response_always_says_it() -> None:
    llm = create_llm("mock", default_response="done")
    assert [await llm.chat("a"), await llm.chat("b")] == ["done", "done"]


@pytest.mark.parametrize("name", ["MOCK", " Mock ", LLMProvider.MOCK])
def test_names_ignore_case_and_take_members(name: Any) -> None:
    assert isinstance(create_llm(name), MockLLM)


@pytest.mark.parametrize(
    ("name", "model"), [("mock:gpt-x", "gpt-x"), ("Mock:family:8B", "family:8B"), ("mock", "mock-gpt")]
)
def test_a_model_may_follow_the_provider(name: str, model: str) -> None:
    assert create_llm(name).model == model


def test_a_model_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        create_llm("mock:a", model="b")


def test_all_providers_are_known_by_name() -> None:
    assert sorted(item.value for item in LLMProvider) == NAMES


@pytest.mark.parametrize("name", ["", "  ", "gpt", ":model", "mock:"])
def test_unknown_or_blank_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError):
        create_llm(name)


def test_the_refusal_lists_the_known_names() -> None:
    with pytest.raises(ValueError) as caught:
        create_llm("gpt")
    assert all(name in str(caught.value) for name in NAMES)


@pytest.mark.parametrize("name", [item for item in LLMProvider if item not in factory._PROVIDERS])
def test_a_provider_of_another_version_is_refused_by_name(name: LLMProvider) -> None:
    with pytest.raises(ValueError, match="not available") as caught:
        create_llm(name)
    assert name.value in str(caught.value)
    assert "mock" in str(caught.value)


@pytest.mark.parametrize("name", [None, 5, MockLLM])
def test_what_is_no_name_is_refused(name: Any) -> None:
    with pytest.raises(TypeError, match="name"):
        create_llm(name)


def test_factory_keywords_configure_the_model() -> None:
    profile = LLMModelProfile(context_window=10)
    llm = create_llm(
        "mock", metrics_profile=profile, metrics_enabled=False, max_parse_failures=1, max_tool_corrections=0
    )
    assert llm.metrics_profile.context_window == 10
    assert (llm.metrics_enabled, llm.max_parse_failures, llm.max_tool_corrections) == (False, 1, 0)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="tempo"):
        create_llm("mock", tempo=3)
