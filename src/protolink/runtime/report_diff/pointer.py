"""JSON Pointers (RFC 6901) with one addition: the segment ``*`` stands for any one key or index.

There is no way to write a literal ``*`` key; ``**`` and brackets are ordinary text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

Segments = tuple[str, ...]

ANY = "*"
_BAD_ESCAPE = re.compile(r"~(?![01])")


class Place(NamedTuple):
    """Where something stands in a tree: the way to it, and what holds it at present."""

    above: tuple[Any, ...]
    container: Any
    key: Any
    value: Any

    def put(self, tree: Any) -> None:
        """Set the value again, in a tree whose containers may have been replaced."""
        for key in self.above:
            tree = tree[key]
        tree[self.key] = self.value


def parse(path: str, what: str) -> Segments:
    """The decoded segments. TypeError unless the path is text; ValueError for the root or a malformed pointer."""
    if not isinstance(path, str):
        raise TypeError(f"{what} must be a JSON Pointer text, not {type(path).__name__}")
    if path == "":
        raise ValueError(f"{what} must not be the root pointer: name a place inside the report, such as /metadata/key")
    if not path.startswith("/"):
        raise ValueError(f"{what} {path!r} must start with '/': it is a JSON Pointer, such as /metadata/key")
    if _BAD_ESCAPE.search(path):
        raise ValueError(f"{what} {path!r} has a '~' that is not '~0' (for ~) or '~1' (for /)")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))


def pointer(segments: Iterable[str | int]) -> str:
    """The text of a place."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in segments)


def matches(pattern: Segments, segments: Sequence[str | int]) -> bool:
    """Whether the pattern names exactly this place."""
    if len(pattern) != len(segments):
        return False
    return all(want == ANY or want == str(part) for want, part in zip(pattern, segments, strict=True))


def places(tree: Any, pattern: Segments, above: tuple[Any, ...] = ()) -> Iterator[Place]:
    """Every place of the tree that the pattern names."""
    head, rest = pattern[0], pattern[1:]
    for key in _keys(tree, head):
        if not rest:
            yield Place(above, tree, key, tree[key])
        else:
            yield from places(tree[key], rest, (*above, key))


def _keys(tree: Any, segment: str) -> Iterable[Any]:
    if isinstance(tree, dict):
        return list(tree) if segment == ANY else [segment] if segment in tree else []
    if isinstance(tree, list):
        return range(len(tree)) if segment == ANY else _index(segment, len(tree))
    return []


def _index(segment: str, size: int) -> list[int]:
    """The list index that a segment is, if it is one of these. "01" and "-" are keys, not indexes."""
    if not segment.isascii() or not segment.isdigit() or len(segment) > len(str(size)):
        return []
    return [int(segment)] if segment == str(int(segment)) and int(segment) < size else []
