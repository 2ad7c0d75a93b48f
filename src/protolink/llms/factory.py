"""create_llm: a model by its provider's name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from ..models import LLMModelProfile
from .base import LLM


class LLMProvider(Enum):
    """The providers that ``create_llm`` knows by name."""

    ANTHROPIC = "anthropic"
    DEEPSEEK = "deepseek"
    GEMINI = "gemini"
    GROK = "grok"
    HUGGINGFACE = "huggingface"
    LLAMA_CPP_LOCAL = "llama.cpp-local"
    LLAMA_CPP_SERVER = "llama.cpp-server"
    LMSTUDIO = "lmstudio"
    MOCK = "mock"
    OLLAMA = "ollama"
    OPENAI = "openai"
    OPENAI_COMPATIBLE = "openai-compatible"
    VLLM = "vllm"


#: A provider's module and class: one line for each that this version has. They are loaded when they are asked for.
_PROVIDERS: dict[LLMProvider, tuple[str, str]] = {
    LLMProvider.MOCK: ("mock", "MockLLM"),
    LLMProvider.OPENAI_COMPATIBLE: ("providers.openai_compatible", "OpenAICompatibleLLM"),
}


def _constructor(provider: LLMProvider) -> Callable[..., LLM]:
    module, name = _PROVIDERS[provider]
    found: Callable[..., LLM] = getattr(importlib.import_module(f".{module}", __package__), name)
    return found


def create_llm(
    provider: str | LLMProvider,
    *,
    metrics_profile: LLMModelProfile | Mapping[str, Any] | None = None,
    metrics_enabled: bool = True,
    max_parse_failures: int | None = None,
    max_tool_corrections: int | None = None,
    **options: Any,
) -> LLM:
    """The model of a provider: ``"ollama"``, ``"ollama:some-model"`` (case ignored) or a member of LLMProvider.

    ``options`` go to the provider's constructor. No network is touched here. ValueError for a name that is blank,
    unknown or not available in this version; it lists the names that are.
    """
    found, model = _resolve(provider)
    if model is not None:
        if "model" in options:
            raise ValueError(f"the model is given twice: in {provider!r} and as model={options['model']!r}")
        options["model"] = model
    llm = _constructor(found)(**options)
    if metrics_profile is not None or not metrics_enabled:
        llm.configure_metrics(metrics_profile, enabled=metrics_enabled)
    if max_parse_failures is not None:
        llm.max_parse_failures = max_parse_failures
    if max_tool_corrections is not None:
        llm.max_tool_corrections = max_tool_corrections
    return llm


def made_by_name(llm: LLM) -> bool:
    """True when ``create_llm(llm.provider, ...)`` makes a model of this very class."""
    return any(name.value == llm.provider and type(llm) is _constructor(name) for name in _PROVIDERS)


def _resolve(provider: str | LLMProvider) -> tuple[LLMProvider, str | None]:
    text = provider.value if isinstance(provider, Enum) else provider
    if not isinstance(text, str):
        raise TypeError(f"create_llm needs a provider's name, not {type(provider).__name__}")
    name, colon, model = (piece.strip() for piece in text.partition(":"))
    if colon and not model:
        raise ValueError(f"{text!r} names no model after the colon")
    try:
        found = LLMProvider(name.lower())
    except ValueError:
        raise ValueError(f"unknown LLM provider {name!r}; known are {_names(LLMProvider)}") from None
    if found not in _PROVIDERS:
        raise ValueError(
            f"LLM provider {found.value!r} is not available in this version; available: {_names(_PROVIDERS)}"
        )
    return found, model or None


def _names(providers: Any) -> str:
    return ", ".join(sorted(item.value for item in providers))
