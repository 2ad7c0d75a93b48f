"""The concrete operation that is judged, shown, approved and then run.

Three digests tell "the same action" apart (all RFC 8785 and SHA-256, computed when asked for):
``fingerprint`` covers the action as displayed, ``contract`` what would happen, without ids, times and metadata. After
a park an action is prepared a second time and compared by its contract only. (The third, of a stored request, is in
``interruption``.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from protolink.models import Artifact
from protolink.models.ids import new_id, utc_now
from protolink.models.json import digest, plain
from protolink.models.shape import items, mapping, optional_text, table, texts

from ..models.value import dataclass, moment
from .fields import text_or


@dataclass(frozen=True, slots=True)
class RunAction:
    """One prepared side effect. Tool actions keep their arguments under ``payload["arguments"]``.

    ``capabilities`` takes any iterable of text; empty texts are dropped. ValueError for a blank kind or name,
    TypeError for members of the wrong shape. ``payload`` and ``metadata`` remain the caller's mutable values.
    """

    kind: str
    name: str
    payload: dict[str, Any] = field(default_factory=dict)
    capabilities: frozenset[str] = frozenset()
    artifacts: tuple[Artifact, ...] = ()
    description: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    action_id: str = field(default_factory=lambda: new_id("action"))
    created_at: str = moment()

    def __post_init__(self) -> None:
        for label, text in (("kind", self.kind), ("name", self.name)):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"RunAction {label} must be nonblank text")
        for label, members in (("payload", self.payload), ("metadata", self.metadata)):
            if type(members) is not dict and not isinstance(members, Mapping):
                raise TypeError(f"RunAction {label} must be a mapping, not {type(members).__name__}")
        if self.description is not None and not isinstance(self.description, str):
            raise TypeError(f"RunAction description must be text, not {type(self.description).__name__}")
        if type(self.capabilities) is not frozenset or self.capabilities:
            object.__setattr__(self, "capabilities", _capabilities(self.capabilities))
        if type(self.artifacts) is not tuple or self.artifacts:
            object.__setattr__(self, "artifacts", _artifacts(self.artifacts))

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the complete action, artifacts included. TypeError when it has no JSON form."""
        return digest(self.to_dict())

    @property
    def contract(self) -> str:
        """SHA-256 of kind, name, payload, capabilities and artifact contents."""
        return digest(contract_of(self))

    def with_artifacts(self, artifacts: Iterable[Artifact]) -> RunAction:
        """A new action with these artifacts added. One with the id of a present artifact takes its place.

        Artifacts without ``action_id`` are copied and get this action's; others are kept as they are.
        """
        found = {artifact.id: artifact for artifact in self.artifacts}
        for artifact in _artifacts(artifacts):
            mine = artifact if artifact.action_id is not None else replace(artifact, action_id=self.action_id)
            found[artifact.id] = mine
        return replace(self, artifacts=tuple(found.values()))

    def with_capabilities(self, capabilities: Iterable[str]) -> RunAction:
        """A new action that requires these capabilities as well."""
        return replace(self, capabilities=self.capabilities | _capabilities(capabilities))

    def with_payload(self, payload: Mapping[str, Any]) -> RunAction:
        """A new action with a top-level copy of ``payload`` in place of the present one."""
        return replace(self, payload=dict(payload))

    def known_as(self, action_id: str, artifacts: tuple[Artifact, ...], metadata: dict[str, Any]) -> RunAction:
        """The same action under the id that a run gave it."""
        return RunAction(
            self.kind,
            self.name,
            self.payload,
            self.capabilities,
            artifacts,
            self.description,
            metadata,
            action_id,
            self.created_at,
        )

    def to_dict(self) -> dict[str, Any]:
        """All fields; capabilities sorted, artifacts as mappings. Nested payload values are not copied."""
        return {
            "kind": self.kind,
            "name": self.name,
            "payload": dict(self.payload),
            "capabilities": sorted(self.capabilities),
            "artifacts": [artifact.to_dict() for artifact in self.artifacts],
            "description": self.description,
            "metadata": dict(self.metadata),
            "action_id": self.action_id,
            "created_at": self.created_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunAction:
        """Read ``to_dict()`` back. Omitted: kind "action", name "unnamed", a new id, the present time."""
        source = mapping(data, "RunAction")
        kind, name = optional_text(source, "kind", "RunAction"), optional_text(source, "name", "RunAction")
        return cls(
            kind="action" if kind is None else kind,
            name="unnamed" if name is None else name,
            payload=table(source, "payload", "RunAction"),
            capabilities=frozenset(texts(source, "capabilities", "RunAction")),
            artifacts=tuple(map(_artifact, items(source, "artifacts", "RunAction"))),
            description=optional_text(source, "description", "RunAction"),
            metadata=table(source, "metadata", "RunAction"),
            action_id=text_or(source, "action_id", "RunAction", lambda: new_id("action")),
            created_at=text_or(source, "created_at", "RunAction", utc_now),
        )


def contract_of(action: RunAction) -> dict[str, Any]:
    """The part of an action that must be the same when it is prepared again, as JSON."""
    artifacts = [
        {key: value for key, value in artifact.to_dict().items() if key in _ARTIFACT_CONTENTS}
        for artifact in action.artifacts
    ]
    found: dict[str, Any] = plain(
        {
            "kind": action.kind,
            "name": action.name,
            "payload": action.payload,
            "capabilities": sorted(action.capabilities),
            "artifacts": artifacts,
        }
    )
    return found


def contract_differences(old: RunAction, new: RunAction) -> list[str]:
    """JSON Pointers of what differs between two contracts, sorted; empty when both are the same.

    Paths only: values may be private.
    """
    return sorted(_differences(contract_of(old), contract_of(new), ""))


_ARTIFACT_CONTENTS = frozenset({"kind", "name", "uri", "media_type", "parts"})


def _differences(old: Any, new: Any, path: str) -> list[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(_escaped(key), old.get(key, _ABSENT), new.get(key, _ABSENT)) for key in old.keys() | new.keys()]
    elif isinstance(old, list) and isinstance(new, list):
        length = max(len(old), len(new))
        pairs = [(str(at), _item(old, at), _item(new, at)) for at in range(length)]
    else:
        same = type(old) is type(new) and old == new
        return [] if same or _equal_numbers(old, new) else [path]
    return [found for step, left, right in pairs for found in _differences(left, right, f"{path}/{step}")]


def _equal_numbers(old: Any, new: Any) -> bool:
    """1 and 1.0 are the same JSON number, and hash alike; 1 and true are not."""
    return type(old) in (int, float) and type(new) in (int, float) and bool(old == new)


_ABSENT = object()


def _item(items: list[Any], at: int) -> Any:
    return items[at] if at < len(items) else _ABSENT


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _capabilities(values: Any) -> frozenset[str]:
    # A bare text would fall apart into letters that no rule names, and so be allowed.
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError("RunAction capabilities must be an iterable of text, such as a list")
    found = list(values)
    if not all(isinstance(item, str) for item in found):
        raise TypeError("RunAction capabilities must be text")
    return frozenset(str.__str__(item) for item in found if item)


def _artifacts(values: Any) -> tuple[Artifact, ...]:
    if type(values) is not tuple and not isinstance(values, Iterable):
        raise TypeError(f"RunAction artifacts must be an iterable of Artifact, not {type(values).__name__}")
    found = tuple(values)
    if not all(isinstance(item, Artifact) for item in found):
        raise TypeError("RunAction artifacts must be Artifact objects")
    return found


def _artifact(data: Any) -> Artifact:
    return Artifact.from_dict(dict(mapping(data, "RunAction artifact")))
