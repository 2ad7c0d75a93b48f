"""Envelopes: written once, read by anybody, and nothing that arrives raises anything but a typed error."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink import (
    AgentNotFoundError,
    RunBusyError,
    TaskAlreadyRunningError,
    TaskNotCancelableError,
    TaskNotFoundError,
    ToolRejectedError,
    TransportLimitError,
    TransportLimits,
    TransportProtocolError,
    TransportRemoteError,
)
from protolink.transport.faults import Fault, error_of, fault_of
from protolink.transport.wire import Reply, pack, reply_of, unpack

LIMITS = TransportLimits()
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


class TestEnvelope:
    def test_answer_is_an_id_and_a_result(self) -> None:
        assert json.loads(pack(Reply(b'{"a":1}'), "r1")) == {"id": "r1", "ok": True, "result": {"a": 1}}

    def test_event_says_whether_it_is_the_last(self) -> None:
        found = json.loads(pack(Reply(b"{}", final=False), "r1", stream=True))
        assert found == {"id": "r1", "ok": True, "result": {}, "final": False, "stream": True}

    def test_error_has_code_text_class_and_status(self) -> None:
        fault = fault_of(TaskNotFoundError("gone"))
        assert json.loads(pack(reply_of(fault), None)) == {
            "id": None,
            "ok": False,
            "error": {"code": "task_not_found", "message": "gone", "type": "TaskNotFoundError", "status": 404},
        }

    @given(value=JSON, final=st.booleans())
    def test_what_is_packed_is_what_is_unpacked(self, value: Any, final: bool) -> None:
        try:
            body = json.dumps(value).encode()
            found = unpack(pack(Reply(body, final=final), "r1", stream=True), LIMITS, stream=True)
        except TransportProtocolError:
            assert "\\ud" in json.dumps(value)  # half a character, which JSON readers refuse
            return
        assert (found.value, found.final, found.fault) == (value, final, None)

    def test_answer_above_the_limit_is_not_read(self) -> None:
        small = TransportLimits(max_response_bytes=10, max_event_bytes=10)
        with pytest.raises(TransportLimitError, match="limit is 10") as caught:
            unpack(pack(Reply(b'"' + b"x" * 2000 + b'"'), "r1"), small)
        assert caught.value.outcome_unknown

    def test_last_event_may_be_as_large_as_an_answer(self) -> None:
        limits = TransportLimits(max_response_bytes=10_000, max_event_bytes=10)
        large = b'"' + b"x" * 3000 + b'"'
        assert unpack(pack(Reply(large), "r1", stream=True), limits, stream=True).final
        with pytest.raises(TransportLimitError, match="event"):
            unpack(pack(Reply(large, final=False), "r1", stream=True), limits, stream=True)

    @given(st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
    def test_anything_else_is_a_protocol_error(self, data: bytes) -> None:
        with pytest.raises(TransportProtocolError) as caught:
            unpack(data, LIMITS)
        assert caught.value.outcome_unknown

    @given(JSON)
    def test_oddest_error_is_still_an_error(self, error: Any) -> None:
        found = unpack(json.dumps({"ok": False, "error": error}).encode(errors="ignore"), LIMITS).fault
        assert found is not None
        raised = error_of(found, url=None, request_id=None)
        assert str(raised)
        assert 400 <= found.status <= 599


class TestFaults:
    @pytest.mark.parametrize(
        ("error", "status"),
        [
            (TaskNotFoundError("text"), 404),
            (TaskNotCancelableError("text"), 409),
            (TaskAlreadyRunningError("text"), 409),
            (RunBusyError("text"), 409),
            (AgentNotFoundError("text"), 404),
        ],
    )
    def test_errors_to_act_upon_keep_their_class(self, error: Exception, status: int) -> None:
        found = error_of(Fault.from_dict(fault_of(error).to_dict()), url="runtime://x", request_id="r1")
        assert type(found) is type(error)
        assert str(found) == "text"
        cause = found.__cause__
        assert isinstance(cause, TransportRemoteError)
        assert (cause.status_code, cause.url, cause.request_id) == (status, "runtime://x", "r1")
        assert not cause.outcome_unknown

    def test_texts_of_foreign_errors_are_not_told(self) -> None:
        found = fault_of(OSError("password=hunter2 at /srv/secret"))
        assert found.status == 500
        assert "hunter2" not in found.message
        assert "OSError" in found.message

    def test_texts_of_our_errors_are_redacted(self) -> None:
        found = fault_of(ToolRejectedError(f"refused, key sk-{'x1' * 20}"))
        assert found.message == "refused, key [REDACTED]"

    @pytest.mark.parametrize(
        ("code", "retryable", "unknown"),
        [
            ("overloaded", True, False),
            ("unavailable", True, False),
            ("internal", False, True),
            ("interrupted", False, True),
            ("bad_request", False, False),
            ("idempotency_conflict", False, False),
            ("streaming_unsupported", False, False),
        ],
    )
    def test_client_knows_whether_to_ask_again(self, code: str, retryable: bool, unknown: bool) -> None:
        found = error_of(Fault(code, "text"), url=None, request_id=None)
        assert isinstance(found, TransportRemoteError)
        assert (found.code, found.retryable, found.outcome_unknown) == (code, retryable, unknown)

    @pytest.mark.parametrize(("code", "unknown"), [("too_large", False), ("response_too_large", True)])
    def test_sizes_are_limit_errors(self, code: str, unknown: bool) -> None:
        found = error_of(Fault(code, "text"), url=None, request_id=None)
        assert isinstance(found, TransportLimitError)
        assert isinstance(found, ValueError)
        assert found.outcome_unknown is unknown
