from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import Artifact, Part

descriptor = st.none() | st.text(max_size=8)
artifacts = st.builds(
    Artifact,
    parts=st.lists(st.builds(Part.text, st.text()), max_size=3),
    metadata=st.dictionaries(st.text(max_size=4), st.integers(-9, 9) | st.text(max_size=4), max_size=3),
    kind=st.sampled_from(["result", "preview", "own"]),
    name=descriptor,
    uri=descriptor,
    media_type=descriptor,
    action_id=descriptor,
)


@given(artifacts)
@pytest.mark.claim("ACT-044")
def test_from_dict_restores_nested_parts(artifact: Artifact) -> None:
    restored = Artifact.from_dict(artifact.to_dict())
    assert restored == artifact
    assert all(isinstance(part, Part) for part in restored.parts)


@pytest.mark.claim("ACT-030")
def test_artifact_is_a_mutable_dataclass() -> None:
    artifact = Artifact()
    assert dataclasses.is_dataclass(artifact)
    artifact.name = "changed"
    assert artifact.name == "changed"


@pytest.mark.claim("ACT-031")
def test_artifact_id_is_generated() -> None:
    first, second = Artifact(), Artifact()
    assert first.id.startswith("art_")
    assert first.id != second.id


@pytest.mark.claim("ACT-032", "ACT-033")
def test_parts_and_metadata_default_to_own_empty_containers() -> None:
    first, second = Artifact(), Artifact()
    assert (first.parts, first.metadata) == ([], {})
    assert first.parts is not second.parts
    assert first.metadata is not second.metadata


@pytest.mark.claim("ACT-034")
def test_timestamp_defaults_to_now_in_utc() -> None:
    moment = datetime.fromisoformat(Artifact().timestamp)
    assert moment.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=1)


@pytest.mark.claim("ACT-035", "ACT-036", "ACT-037", "ACT-038", "ACT-039")
def test_kind_defaults_to_result_and_descriptors_to_none() -> None:
    artifact = Artifact()
    assert artifact.kind == "result"
    assert [artifact.name, artifact.uri, artifact.media_type, artifact.action_id] == [None] * 4


@pytest.mark.claim("ACT-040")
def test_add_part_appends_that_very_part_and_returns_self() -> None:
    artifact, part = Artifact(), Part.json(1)
    assert artifact.add_part(part) is artifact
    assert artifact.parts[-1] is part


@pytest.mark.claim("ACT-041")
def test_add_text_appends_text_part_and_returns_self() -> None:
    artifact = Artifact()
    assert artifact.add_text("hi") is artifact
    assert artifact.parts == [Part.text("hi")]


@pytest.mark.claim("ACT-042")
def test_for_action_replaces_action_id_in_place() -> None:
    artifact = Artifact(action_id="old")
    assert artifact.for_action("new") is artifact
    assert artifact.action_id == "new"


@pytest.mark.claim("ACT-043")
def test_to_dict_has_parts_and_all_descriptors() -> None:
    artifact = Artifact(
        id="a", parts=[Part.text("x")], metadata={"k": 1}, timestamp="t", kind="preview",
        name="n", uri="u", media_type="m", action_id="i",
    )  # fmt: skip
    record = artifact.to_dict()
    assert record == {
        "id": "a", "parts": [{"type": "text", "content": "x"}], "metadata": {"k": 1}, "timestamp": "t",
        "kind": "preview", "name": "n", "uri": "u", "media_type": "m", "action_id": "i",
    }  # fmt: skip
    assert list(record) == [field.name for field in dataclasses.fields(Artifact)]


@pytest.mark.claim("ACT-045")
def test_older_payload_without_descriptors_is_accepted() -> None:
    old = {"id": "a", "parts": [{"type": "text", "content": "x"}], "metadata": {}, "timestamp": "t"}
    assert Artifact.from_dict(old) == Artifact(id="a", parts=[Part.text("x")], timestamp="t")


@pytest.mark.parametrize("data", [None, {"parts": "x"}, {"metadata": []}, {"kind": 1}, {"parts": [3]}])
def test_malformed_artifact_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"Artifact|Part"):
        Artifact.from_dict(data)  # type: ignore[arg-type]
