"""Transports by name."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from .config import TransportConfig
from .runtime import RuntimeTransport
from .transport import Transport

#: What may be given as a name, and the addresses that go with it.
SCHEMES: dict[str, tuple[str, ...]] = {
    "runtime": ("runtime",),
    "http": ("http", "https"),
    "sse": ("http", "https"),
    "json-rpc": ("http", "https"),
    "sse-json-rpc": ("http", "https"),
    "websocket": ("ws", "wss"),
    "grpc": ("grpc", "grpcs"),
}


def transport_for(
    transport: Transport | str, url: str | None = None, *, config: TransportConfig | None = None, serves: bool = False
) -> Transport:
    """A transport by its name, or the given one. ``serves``: it is to listen at ``url``, so that has to be complete.

    ValueError for an unknown name, an address that does not go with it, or one that is missing where it is needed;
    NotImplementedError for a transport that this version does not have; TypeError for anything else.
    """
    if isinstance(transport, Transport):
        return _given(transport, url, serves)
    if not isinstance(transport, str):
        raise TypeError(f"a transport is a Transport or a name, not {type(transport).__name__}")
    if transport not in SCHEMES:
        raise ValueError(f"there is no transport {transport!r}; the names are {', '.join(SCHEMES)}")
    _check_url(transport, url, serves)
    if transport != "runtime":
        raise NotImplementedError(
            f"the {transport} transport is not available in this version; 'runtime' connects agents of one process"
        )
    return RuntimeTransport(url, config=config)


def transport_name(url: str) -> str:
    """The transport that reaches an address. ValueError for one that none reaches."""
    scheme = urlsplit(url).scheme
    for name, schemes in SCHEMES.items():
        if scheme in schemes:
            return name
    known = ", ".join(sorted({f"{scheme}://" for schemes in SCHEMES.values() for scheme in schemes}))
    raise ValueError(f"no transport reaches {url!r}; addresses start with {known}")


def _given(transport: Transport, url: str | None, serves: bool) -> Transport:
    if url is not None and transport.url is not None and url.rstrip("/") != transport.url:
        raise ValueError("the transport has an address already; give no other url beside it")
    if serves and transport.url is None:
        raise ValueError(f"the {transport.transport_type} transport needs a url to serve under")
    return transport


def _check_url(name: str, url: Any, serves: bool) -> None:
    schemes = SCHEMES[name]
    if url is None:
        if serves:
            raise ValueError(f"the {name} transport needs a url that starts with {schemes[0]}://")
        return
    if not isinstance(url, str):
        raise TypeError(f"a url is text, not {type(url).__name__}")
    parts = urlsplit(url)
    if parts.scheme not in schemes:
        raise ValueError(f"the {name} transport needs a url that starts with {' or '.join(f'{s}://' for s in schemes)}")
    if serves and name != "runtime" and _port(parts) is None:
        raise ValueError(
            f"the {name} transport needs a url with a port to listen on, such as {parts.scheme}://host:8000"
        )


def _port(parts: Any) -> int | None:
    try:
        found: int | None = parts.port
    except ValueError:
        raise ValueError("the port of the url is no number from 0 to 65535") from None
    return found
