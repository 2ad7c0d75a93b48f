from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import Message, Part

contents = st.lists(st.builds(Part.text, st.text()) | st.builds(Part.json, st.integers()), max_size=3)


@given(st.builds(Message, role=st.sampled_from(["user", "agent", "judge"]), parts=contents))
def test_message_survives_its_json_form(message: Message) -> None:
    assert Message.from_dict(message.to_dict()) == message


def test_defaults_are_fresh() -> None:
    first, second = Message(), Message()
    assert first.role == "user"
    assert first.id.startswith("msg_")
    assert first.id != second.id
    assert first.parts is not second.parts
    assert first.timestamp.endswith("+00:00")


@pytest.mark.parametrize(
    ("message", "role", "part"),
    [
        (Message.user("x"), "user", Part.text("x")),
        (Message.agent("x"), "agent", Part.text("x")),
        (Message.assistant("x"), "assistant", Part.text("x")),
        (Message.infer(prompt="x"), "user", Part.infer(prompt="x")),
        (
            Message.tool_call(tool_name="t", args={"a": 1}, call_id="c"),
            "user",
            Part.tool_call(tool_name="t", args={"a": 1}, call_id="c"),
        ),
        (Message.route("left", reason="r"), "agent", Part.route("left", reason="r")),
    ],
)
def test_factories_set_role_and_part(message: Message, role: str, part: Part) -> None:
    assert message.role == role
    assert message.parts == [part]


def test_adding_returns_the_message() -> None:
    part = Part.json(1)
    message = Message()
    assert message.add_part(part) is message
    assert message.add_text("y") is message
    assert message.parts[0] is part
    assert message.parts[1] == Part.text("y")


def test_json_has_four_members() -> None:
    assert list(Message.user("x").to_dict()) == ["id", "role", "parts", "timestamp"]


def test_missing_members_get_defaults() -> None:
    message = Message.from_dict({})
    assert (message.role, message.parts) == ("user", [])
    assert message.id.startswith("msg_")


@pytest.mark.parametrize("data", ["x", {"role": 1}, {"parts": {}}, {"parts": [{}]}, {"id": 4}])
def test_malformed_message_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"Message|Part"):
        Message.from_dict(data)  # type: ignore[arg-type]
