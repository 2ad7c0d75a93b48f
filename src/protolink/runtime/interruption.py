"""Why a stored run waits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from protolink.models.json import digest, plain
from protolink.models.shape import mapping, required_text, table

from ..models.value import dataclass
from .fields import text_or

InterruptionKind = Literal["approval", "input", "yield", "retry"]


@dataclass(frozen=True, slots=True)
class RunInterruption:
    """One pending request of a parked run. ``run_id`` is the run that waits; it may be a child's.

    ``approval`` and ``input`` wait for a person, ``yield`` and ``retry`` for a plain resume. ``request`` is what to
    show, as detached JSON (TypeError when it has no JSON form). ``fingerprint`` is its digest unless given.
    """

    run_id: str
    request_id: str
    kind: InterruptionKind
    request: dict[str, Any]
    fingerprint: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(InterruptionKind):
            raise ValueError("RunInterruption kind must be approval, input, yield or retry")
        if not isinstance(self.request, Mapping):
            raise TypeError(f"RunInterruption request must be a mapping, not {type(self.request).__name__}")
        object.__setattr__(self, "request", plain(self.request))
        if not self.fingerprint:
            object.__setattr__(self, "fingerprint", digest(self.request))

    def to_dict(self) -> dict[str, Any]:
        """All fields, detached."""
        return {
            "run_id": self.run_id,
            "request_id": self.request_id,
            "kind": self.kind,
            "request": plain(self.request),
            "fingerprint": self.fingerprint,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunInterruption:
        """Read ``to_dict()`` back. The stored fingerprint is kept, not computed anew."""
        source = mapping(data, "RunInterruption")
        kind: Any = required_text(source, "kind", "RunInterruption")
        return cls(
            run_id=required_text(source, "run_id", "RunInterruption"),
            request_id=required_text(source, "request_id", "RunInterruption"),
            kind=kind,
            request=table(source, "request", "RunInterruption"),
            fingerprint=text_or(source, "fingerprint", "RunInterruption", str),
        )
