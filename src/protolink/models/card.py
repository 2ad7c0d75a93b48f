"""AgentCard: how an agent introduces itself to people, models and peers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Any

from .._version import __version__
from .json import canonical, plain
from .shape import items, mapping, optional_text, required_text, table, texts
from .value import dataclass

AGENT_ROLES = ("worker", "orchestrator", "observer", "gateway", "interface")


def _plain_text() -> list[str]:
    return ["text/plain"]


@dataclass(slots=True)
class AgentCapabilities:
    """What an agent can do. ``supports_inference`` None means that nobody has said."""

    streaming: bool = False
    push_notifications: bool = False
    state_transition_history: bool = False
    delegation: bool = True
    has_llm: bool = False
    max_concurrency: int = 1
    message_batching: bool = False
    tool_calling: bool = False
    multi_step_reasoning: bool = False
    timeout_support: bool = False
    rag: bool = False
    code_execution: bool = False
    supports_inference: bool | None = None

    def to_dict(self) -> dict[str, Any]:
        """Every field, under its own name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AgentCapabilities:
        """Read ``to_dict()`` back. Names that this version does not know are left out: peers may be newer."""
        found = mapping(data, "AgentCapabilities")
        known = {item.name: found[item.name] for item in fields(cls) if item.name in found}
        for name, value in known.items():
            _check_capability(name, value)
        return cls(**known)


def _check_capability(name: str, value: Any) -> None:
    if name == "max_concurrency":
        good = isinstance(value, int) and not isinstance(value, bool)
    else:
        good = isinstance(value, bool) or (value is None and name == "supports_inference")
    if not good:
        raise ValueError(f"AgentCapabilities member '{name}' must not be {type(value).__name__}")


@dataclass(slots=True)
class AgentSkill:
    """One ability, usually a tool. The schemas are JSON Schema objects."""

    id: str
    description: str = ""
    input_schema: dict[str, Any] = field(default_factory=dict)
    output_schema: dict[str, Any] = field(default_factory=dict)
    tags: list[str] = field(default_factory=list)
    examples: list[Any] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        """Every field, under its own name."""
        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AgentSkill:
        """Read ``to_dict()`` back. ValueError names what is missing or malformed."""
        found = mapping(data, "AgentSkill")
        return cls(
            id=required_text(found, "id", "AgentSkill"),
            description=optional_text(found, "description", "AgentSkill") or "",
            input_schema=table(found, "input_schema", "AgentSkill"),
            output_schema=table(found, "output_schema", "AgentSkill"),
            tags=texts(found, "tags", "AgentSkill"),
            examples=items(found, "examples", "AgentSkill"),
        )


@dataclass(frozen=True, slots=True)
class AgentInterface:
    """A further address of the same agent."""

    url: str
    transport: str
    protocol_version: str = __version__

    def to_dict(self) -> dict[str, Any]:
        """``{"url", "transport", "protocolVersion"}``."""
        return {"url": self.url, "transport": self.transport, "protocolVersion": self.protocol_version}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AgentInterface:
        """Read ``to_dict()`` back. ValueError names what is missing or malformed."""
        found = mapping(data, "AgentInterface")
        return cls(
            url=required_text(found, "url", "AgentInterface"),
            transport=required_text(found, "transport", "AgentInterface"),
            protocol_version=optional_text(found, "protocolVersion", "AgentInterface") or __version__,
        )


@dataclass(slots=True)
class AgentCard:
    """Name, address and abilities. ``name`` and ``url`` must not be blank; ``role`` is one of AGENT_ROLES.

    ``capabilities`` may be given as a dict of AgentCapabilities fields; an unknown one is a TypeError.
    """

    name: str
    description: str
    url: str
    transport: str = "http"
    version: str = "1.0.0"
    protocol_version: str = __version__
    capabilities: AgentCapabilities = field(default_factory=AgentCapabilities)
    skills: list[AgentSkill] = field(default_factory=list)
    input_formats: list[str] = field(default_factory=_plain_text)
    output_formats: list[str] = field(default_factory=_plain_text)
    security_schemes: dict[str, Any] = field(default_factory=dict)
    role: str = "worker"
    tags: list[str] = field(default_factory=list)
    interfaces: list[AgentInterface] = field(default_factory=list)

    def __post_init__(self) -> None:
        for label, text in (("name", self.name), ("url", self.url)):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"AgentCard {label} must be nonblank text")
        if not isinstance(self.description, str):
            raise ValueError("AgentCard description must be text")
        if self.role not in AGENT_ROLES:
            raise ValueError(f"AgentCard role must be one of {', '.join(AGENT_ROLES)}")
        given: Any = self.capabilities
        if isinstance(given, Mapping):
            self.capabilities = AgentCapabilities(**given)
        elif not isinstance(given, AgentCapabilities):
            raise TypeError(f"AgentCard capabilities must be AgentCapabilities or a dict, not {type(given).__name__}")

    def to_dict(self) -> dict[str, Any]:
        """The card as peers read it; ``additionalInterfaces`` only when there are any."""
        record = {
            "name": self.name,
            "description": self.description,
            "url": self.url,
            "transport": self.transport,
            "version": self.version,
            "protocolVersion": self.protocol_version,
            "capabilities": self.capabilities.to_dict(),
            "skills": [skill.to_dict() for skill in self.skills],
            "inputFormats": list(self.input_formats),
            "outputFormats": list(self.output_formats),
            "securitySchemes": plain(self.security_schemes),
            "role": self.role,
            "tags": list(self.tags),
        }
        if self.interfaces:
            record["additionalInterfaces"] = [interface.to_dict() for interface in self.interfaces]
        return record

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> AgentCard:
        """Read ``to_dict()`` back. ``name``, ``description`` and ``url`` must be there.

        ValueError names what is missing or malformed.
        """
        what = "AgentCard"
        found = mapping(data, what)
        if found.get("description") is None:
            raise ValueError(f"{what} needs the member 'description'")
        return cls(
            name=required_text(found, "name", what),
            description=optional_text(found, "description", what) or "",
            url=required_text(found, "url", what),
            transport=optional_text(found, "transport", what) or "http",
            version=optional_text(found, "version", what) or "1.0.0",
            protocol_version=optional_text(found, "protocolVersion", what) or __version__,
            capabilities=AgentCapabilities.from_dict(table(found, "capabilities", what)),
            skills=[AgentSkill.from_dict(skill) for skill in items(found, "skills", what)],
            input_formats=_formats(found, "inputFormats"),
            output_formats=_formats(found, "outputFormats"),
            security_schemes=table(found, "securitySchemes", what),
            role=optional_text(found, "role", what) or "worker",
            tags=texts(found, "tags", what),
            interfaces=[AgentInterface.from_dict(entry) for entry in items(found, "additionalInterfaces", what)],
        )

    def get_prompt_format(self) -> str:
        """What a model is told about this agent: JSON text with sorted keys, skills listed as ``tools`` by name."""
        tools = [{"name": skill.id, **skill.to_dict()} for skill in self.skills]
        for tool in tools:
            del tool["id"]
        shown = {
            "name": self.name,
            "description": self.description,
            "capabilities": self.capabilities.to_dict(),
            "tools": tools,
        }
        return canonical(shown).decode()


def _formats(data: Mapping[str, Any], key: str) -> list[str]:
    return _plain_text() if data.get(key) is None else texts(data, key, "AgentCard")
