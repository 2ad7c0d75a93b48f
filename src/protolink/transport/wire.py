"""The envelope of an answer, an error or an event of a stream, the same on every connection that has no status line.

    {"id": ..., "ok": true, "result": ...}
    {"id": ..., "ok": true, "result": <event>, "final": false, "stream": true}
    {"id": ..., "ok": false, "error": {"code", "message", "type", "status"}}

Members that a reader does not know are left alone, so envelopes may grow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import TransportLimitError, TransportProtocolError
from ..models.json import encode, loads, plain
from ..models.value import dataclass
from .config import TransportLimits
from .faults import Fault


@dataclass(frozen=True, slots=True)
class Reply:
    """What a server answers: ``body`` is the JSON text of a result or an event, or of a fault from status 400 on.

    ``final`` is False for the events of a stream but the last.
    """

    body: bytes
    status: int = 200
    final: bool = True

    @property
    def ok(self) -> bool:
        return self.status < 400


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client has read: a value, or a fault."""

    value: Any = None
    fault: Fault | None = None
    final: bool = True


def reply_of(fault: Fault) -> Reply:
    """A fault as the last thing a client is told."""
    return Reply(encode(fault.to_dict()), fault.status)


def pack(reply: Reply, request_id: str | None, *, stream: bool = False) -> bytes:
    """The envelope. The body is put in as it is, without being read again."""
    head = b'{"id":' + encode(request_id)
    if not reply.ok:
        return head + b',"ok":false,"error":' + reply.body + b"}"
    tail = b',"final":' + (b"true" if reply.final else b"false") + b',"stream":true}' if stream else b"}"
    return head + b',"ok":true,"result":' + reply.body + tail


def unpack(data: bytes, limits: TransportLimits, *, stream: bool = False) -> Answer:
    """Read an envelope. TransportLimitError when it is too large, TransportProtocolError when it is none.

    The request has reached the other side by then, so both say that its outcome is not known.
    """
    if len(data) > limits.max_response_bytes + _ENVELOPE:
        raise too_large("answer", len(data), limits.max_response_bytes)
    try:
        found = loads(data)
    except ValueError:
        raise unreadable("it is no JSON") from None
    if not isinstance(found, Mapping) or not isinstance(found.get("ok"), bool):
        raise unreadable("it has no member 'ok'")
    if not found["ok"]:
        return Answer(fault=Fault.from_dict(found.get("error")))
    if "result" not in found:
        raise unreadable("it has no member 'result'")
    try:
        # The parser takes numbers that become infinite and more levels than can be written again; plain() does not.
        result = plain(found["result"])
    except TypeError as error:
        raise unreadable(f"{error}"[:_LONGEST_REASON]) from None
    final = found.get("final") is True if stream else True
    if stream and not final and len(data) > limits.max_event_bytes + _ENVELOPE:
        raise too_large("event", len(data), limits.max_event_bytes)
    return Answer(result, final=final)


#: Bytes that an envelope adds to its body; request ids are text of some length.
_ENVELOPE = 1024

_LONGEST_REASON = 200


def too_large(what: str, size: int, limit: int) -> TransportLimitError:
    """An answer or event that came and cannot be taken."""
    text = f"The {what} has {size} bytes and the limit is {limit}: raise it in TransportLimits, or ask for less"
    return TransportLimitError(text, outcome_unknown=True)


def unreadable(why: str) -> TransportProtocolError:
    """An answer that came and makes no sense."""
    text = f"The answer cannot be read: {why}. Does a server of this protocol listen there?"
    return TransportProtocolError(text, outcome_unknown=True)
