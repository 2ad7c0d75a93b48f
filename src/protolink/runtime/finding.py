"""ProbeFinding: what a tool's probe found out about an action whose outcome is unknown."""

from __future__ import annotations

from typing import Any, Literal, Self

from ..models.value import dataclass


@dataclass(frozen=True, slots=True)
class ProbeFinding:
    """Made by ``done``, ``absent`` and ``unknown``. It is a proposal to whoever reconciles, never a receipt."""

    status: Literal["done", "absent", "unknown"]
    result: Any = None
    reason: str = ""

    @classmethod
    def done(cls, result: Any) -> Self:
        """The effect is there. ``result``: JSON, as the tool itself would have returned it."""
        return cls("done", result=result)

    @classmethod
    def absent(cls, reason: str = "the outside system knows nothing of it") -> Self:
        """Nothing changed, and nothing will any more. ``reason`` is what the run is told."""
        return cls("absent", reason=reason)

    @classmethod
    def unknown(cls, reason: str = "") -> Self:
        """The outside system does not tell either, or tells of a part. ``reason`` is what a person should know."""
        return cls("unknown", reason=reason)

    def told(self) -> str:
        """The finding in words; empty when there is nothing to tell."""
        match self.status:
            case "done":
                return "it was done"
            case "absent":
                return f"nothing was done: {self.reason}"
            case "unknown":
                return self.reason

    def proposal(self) -> dict[str, Any] | None:
        """The arguments of ``reconcile`` that record it; None when it settles nothing."""
        match self.status:
            case "done":
                return {"result": self.result}
            case "absent":
                return {"unchanged": self.reason}
            case "unknown":
                return None
