"""The system prompt of an agent's model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .json_actions import peers_prompt, protocol_prompt, tools_prompt

_NATIVE_RULES = (
    "Use the functions you are given where they help. After a call you are shown its result, or why it was refused, "
    "and go on. When the work is done, answer in plain text."
)


def system_prompt(
    mode: str, instructions: str, name: str, description: str, tools: Sequence[Any], cards: Sequence[Any]
) -> str:
    """Role, instructions and rules. ``mode`` is ``json`` (the action language with all tools) or ``native``."""
    sections = [_role(name, description), instructions.strip()]
    if mode == "json":
        sections += [protocol_prompt(tools=bool(tools), peers=bool(cards)), tools_prompt(tools), peers_prompt(cards)]
    elif tools or cards:
        sections.append(_NATIVE_RULES)
    return "\n\n".join(filter(None, sections))


def _role(name: str, description: str) -> str:
    if not name:
        return ""
    told = description.strip()
    return f"You are the agent {name}. {told}".strip()
