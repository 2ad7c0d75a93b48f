"""Language models: the base class, the scripted model, and models by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader
from ..models import ConversationHistory, LLMModelProfile
from .base import LLM
from .factory import LLMProvider, create_llm
from .json_actions import ActionParseError
from .mock import MockLLM
from .turn import Call, LLMActionResult, ModelTurn

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

_LATER = {
    "providers.failures": ("ProviderRefused", "ProviderUnavailable"),
    "providers.openai_compatible": ("OpenAICompatibleLLM",),
}

if TYPE_CHECKING:
    from .providers.failures import ProviderRefused, ProviderUnavailable
    from .providers.openai_compatible import OpenAICompatibleLLM

__getattr__ = loader(__name__, by_name(_LATER), globals())
