"""Identifiers."""

from __future__ import annotations

import uuid

from protolink.models.ids import new_uuid


def test_a_new_uuid_is_a_random_one_as_the_library_writes_it() -> None:
    found = {new_uuid() for _ in range(500)}
    assert len(found) == 500
    for text in found:
        read = uuid.UUID(text)
        assert (str(read), read.version, read.variant) == (text, 4, uuid.RFC_4122)
