"""Language models: the base class, the scripted model, and models by name."""

from __future__ import annotations

from ..models import ConversationHistory, LLMModelProfile
from .base import LLM
from .factory import LLMProvider, create_llm
from .json_actions import ActionParseError
from .mock import MockLLM
from .providers.failures import ProviderRefused, ProviderUnavailable
from .providers.openai_compatible import OpenAICompatibleLLM
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
