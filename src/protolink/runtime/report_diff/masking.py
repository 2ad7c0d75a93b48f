"""Differences with their secrets masked.

The path to a value may tell that it is a secret, and so may what stands beside it on the way. A value is masked
whenever masking the report as a whole would have masked it; only so much of the report is masked for it as may tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy

#: From the root to a value: the containers on the way, and the key that leads on in each. None: only the key is known.
Way = tuple[tuple[Any, Any], ...]

SIDES = ("baseline", "candidate")

#: Members whose neighbours may name them: ``{"name": "Authorization", "value": "..."}``.
_NAMED_BESIDE = frozenset({"value", "values"})


class DifferenceMask:
    """Masks the differences of one comparison; without a policy it leaves them as they are."""

    __slots__ = ("_fill", "_mask", "_policy", "_telling")

    def __init__(self, policy: RedactionPolicy | None) -> None:
        self._policy = policy
        self._mask = policy.replacement if policy else None
        #: Stands for a neighbour of which only matters that it is no number and was not masked before.
        self._fill = "x" if self._mask != "x" else "y"
        self._telling: dict[int, list[Any]] = {}

    def __call__(self, difference: dict[str, Any], ways: tuple[Way, Way] | None) -> dict[str, Any]:
        """The difference with masked values and a masked path."""
        policy = self._policy
        if policy is None:
            return difference
        found = {**difference, "path": policy.redact(difference["path"])}
        for side, way in zip(SIDES, ways or (_named(difference["path"]),) * 2, strict=True):
            if side in difference:
                found[side] = self._value(difference[side], way, policy)
        return found

    def _value(self, value: Any, way: Way, policy: RedactionPolicy) -> Any:
        """Redact the value where it stands: inside the names above it, among the texts beside it."""
        nested, steps = value, []
        for container, key in reversed(way):
            nested, position = self._among(container, key, nested)
            steps.append((position, len(nested)))
        found = policy.redact(nested)
        for position, size in reversed(steps):
            if not isinstance(found, (dict, list)):
                return found  # a name above masks everything below
            if len(found) != size:
                return policy.replacement  # names were masked too, and are alike now
            found = (list(found.values()) if isinstance(found, dict) else found)[position]
        return found

    def _among(self, container: Any, key: Any, value: Any) -> tuple[Any, int]:
        """A container of the value with what may tell what it is, and the value's position in it."""
        fill = self._fill if self._has_more_than_numbers(container, key) else None
        if not isinstance(container, list):
            named = container if container and str(key).lower() in _NAMED_BESIDE else {}
            texts = {name: text for name, text in named.items() if name != key and isinstance(text, str)}
            return {**texts, key: value} | ({_other(key): fill} if fill else {}), len(texts)
        if len(container) == 2:  # perhaps a name and what it names
            return [value if index == key else _text(item, fill) for index, item in enumerate(container)], key
        return [_text(container[key - 1], fill) if key else None, value, fill], 1  # perhaps behind a flag

    def _has_more_than_numbers(self, container: Any, key: Any) -> bool:
        """Whether there is anything else beside the value: a collection of nothing but numbers may be counts."""
        if container is None:
            return False
        telling = self._telling.get(id(container))
        if telling is None:
            items = container.items() if isinstance(container, dict) else enumerate(container)
            telling = [name for name, item in items if not self._may_be_count(item)]
            self._telling[id(container)] = telling = telling[:2]  # one of them may be the value itself
        return any(name != key for name in telling)

    def _may_be_count(self, item: Any) -> bool:
        return item is None or isinstance(item, (int, float)) or item == self._mask


def _named(path: str) -> Way:
    return tuple((None, part.replace("~1", "/").replace("~0", "~")) for part in path.split("/")[1:])


def _other(key: Any) -> str:
    return "-" if key != "-" else "+"


def _text(item: Any, fill: str | None) -> str | None:
    return item if isinstance(item, str) else fill
