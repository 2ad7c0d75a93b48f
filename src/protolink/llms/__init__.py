"""Language models: the base class, the scripted model, and models by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "..models": (
        "ConversationHistory",
        "LLMModelProfile",
    ),
    "base": ("LLM",),
    "factory": (
        "LLMProvider",
        "create_llm",
    ),
    "json_actions": ("ActionParseError",),
    "mock": ("MockLLM",),
    "turn": (
        "Call",
        "LLMActionResult",
        "ModelTurn",
    ),
    "providers.failures": (
        "ProviderRefused",
        "ProviderUnavailable",
    ),
    "providers.openai_compatible": ("OpenAICompatibleLLM",),
}

__all__ = [
    "LLM",
    "ActionParseError",
    "Call",
    "ConversationHistory",
    "LLMActionResult",
    "LLMModelProfile",
    "LLMProvider",
    "MockLLM",
    "ModelTurn",
    "OpenAICompatibleLLM",
    "ProviderRefused",
    "ProviderUnavailable",
    "create_llm",
]

if TYPE_CHECKING:
    from ..models import ConversationHistory, LLMModelProfile
    from .base import LLM
    from .factory import LLMProvider, create_llm
    from .json_actions import ActionParseError
    from .mock import MockLLM
    from .providers.failures import ProviderRefused, ProviderUnavailable
    from .providers.openai_compatible import OpenAICompatibleLLM
    from .turn import Call, LLMActionResult, ModelTurn

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
