"""What can be asked of a server, and one such request on its way."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from ..models.value import dataclass
from .config import METHODS

#: Header of every request and its answer: one request, in the logs of both sides.
REQUEST_ID_HEADER = "X-Protolink-Request-ID"
#: Header under which a server remembers an answer.
IDEMPOTENCY_HEADER = "Idempotency-Key"


@dataclass(frozen=True, slots=True)
class RequestSpec:
    """One operation of a server: a method and a path.

    ``streaming``: answered with events. ``retryable``: a RetryPolicy may repeat it. ``control``: answered also when all
    places are taken or the server stops, so that work can always be canceled. ValueError for anything malformed.
    """

    method: str
    path: str
    streaming: bool = False
    retryable: bool = True
    control: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise ValueError(f"RequestSpec method must be one of {', '.join(METHODS)}")
        if not isinstance(self.path, str) or not self.path.startswith("/") or {"?", "#"} & set(self.path):
            raise ValueError("RequestSpec path must start with '/' and has neither '?' nor '#'")


@dataclass(frozen=True, slots=True)
class Request:
    """A request as it travels. ``body`` is JSON text, empty for none; ``params`` are those of a query.

    ``caller``: who asks, as the receiving side has made sure of it; None when it cannot tell. It is never read from
    what a client sends.
    """

    method: str
    path: str
    body: bytes = b""
    params: Mapping[str, list[str]] = field(default_factory=dict)
    request_id: str | None = None
    idempotency_key: str | None = None
    caller: str | None = None


AGENT_CARD = RequestSpec("GET", "/.well-known/agent.json", control=True)
SUBMIT_TASK = RequestSpec("POST", "/tasks/", retryable=False)
STREAM_TASK = RequestSpec("POST", "/tasks/stream", streaming=True, retryable=False)
CANCEL_TASK = RequestSpec("POST", "/tasks/cancel", control=True)

DESCRIBE_STATE = RequestSpec("POST", "/state/describe")
RESET_STATE = RequestSpec("POST", "/state/reset")
COMPACT_STATE = RequestSpec("POST", "/state/compact")
COMPACT_HISTORY = RequestSpec("POST", "/llm/history/compact")

REGISTER_AGENT = RequestSpec("POST", "/agents/")
LIST_AGENTS = RequestSpec("GET", "/agents/")
AGENT_HEARTBEAT = RequestSpec("POST", "/agents/heartbeat")
UNREGISTER_AGENT = RequestSpec("DELETE", "/agents/")
