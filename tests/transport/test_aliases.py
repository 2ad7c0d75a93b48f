"""Transports by name."""

from __future__ import annotations

from typing import Any

import pytest

from protolink import RuntimeTransport, TransportConfig
from protolink.transport import transport_for

LATER = {"http": "http", "sse": "http", "json-rpc": "https", "sse-json-rpc": "http", "websocket": "ws", "grpc": "grpc"}


def test_runtime_needs_no_address_to_ask() -> None:
    config = TransportConfig(shutdown_timeout=1)
    found = transport_for("runtime", config=config)
    assert isinstance(found, RuntimeTransport)
    assert found.url is None
    assert found.config is config


def test_given_transport_is_used_as_it_is() -> None:
    given = RuntimeTransport("runtime://x")
    assert transport_for(given) is given
    assert transport_for(given, "runtime://x/", serves=True) is given


@pytest.mark.parametrize("name", LATER)
def test_transports_of_later_versions_say_so(name: str) -> None:
    with pytest.raises(NotImplementedError, match=f"the {name} transport is not available in this version"):
        transport_for(name, f"{LATER[name]}://localhost:8000", serves=True)


@pytest.mark.parametrize(
    ("name", "url", "text"),
    [
        ("carrier-pigeon", None, "there is no transport 'carrier-pigeon'"),
        ("http", None, "needs a url that starts with http://"),
        ("http", "ws://localhost:80", "starts with http:// or https://"),
        ("websocket", "http://localhost:80", "starts with ws:// or wss://"),
        ("grpc", "runtime://x", "starts with grpc://"),
        ("http", "http://localhost", "needs a url with a port"),
        ("sse", "http://localhost:99999", "port of the url is no number"),
        ("runtime", None, "starts with runtime://"),
        ("runtime", "http://x", "starts with runtime://"),
        ("runtime", "runtime://", "is runtime://name"),
        ("runtime", "runtime://a/b", "is runtime://name"),
        ("runtime", "runtime://a b", "is runtime://name"),
    ],
)
def test_names_and_addresses_must_fit(name: str, url: str | None, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        transport_for(name, url, serves=True)


def test_client_of_a_network_needs_no_port() -> None:
    with pytest.raises(NotImplementedError):
        transport_for("http", "http://localhost")


@pytest.mark.parametrize(("transport", "url"), [(7, None), (None, None), ("runtime", 7)])
def test_other_types_are_refused(transport: Any, url: Any) -> None:
    with pytest.raises(TypeError):
        transport_for(transport, url)


def test_two_addresses_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="has an address already"):
        transport_for(RuntimeTransport("runtime://x"), "runtime://y")


def test_server_needs_an_address() -> None:
    with pytest.raises(ValueError, match="needs a url to serve under"):
        transport_for(RuntimeTransport(None), serves=True)
