"""One inference outside an agent: the loop of ``LLM.infer``."""

from __future__ import annotations

from typing import Any

from ..models import Part


async def infer(llm: Any, *, query: Any, tools: Any, **options: Any) -> Part:
    """Placeholder; raises NotImplementedError."""
    raise NotImplementedError("LLM.infer is not available yet")
