"""How many children a run may have."""

from __future__ import annotations

from ..models.value import dataclass


@dataclass(frozen=True, slots=True)
class SubagentLimits:
    """Bounds on the owned children of one run tree. ``max_children`` counts every child ever created.

    ``max_depth`` 1 allows children, 2 grandchildren. ValueError for anything but positive whole numbers.
    """

    max_children: int = 8
    max_concurrency: int = 4
    max_depth: int = 1
    background: bool = False

    def __post_init__(self) -> None:
        for name in ("max_children", "max_concurrency", "max_depth"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise ValueError(f"SubagentLimits.{name} must be a whole number above 0")
        if not isinstance(self.background, bool):
            raise ValueError("SubagentLimits.background must be True or False")

    def below(self) -> dict[str, int]:
        """The same for the run of a child: ``above`` is how deep it stands itself."""
        return {**self.to_dict(), "above": 1}

    def to_dict(self) -> dict[str, int]:
        return {
            "max_children": self.max_children,
            "max_concurrency": self.max_concurrency,
            "max_depth": self.max_depth,
        }
