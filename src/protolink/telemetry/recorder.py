"""LocalTraceRecorder: finished traces, in memory and in a file of one JSON line each."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..models.json import dumps, loads


class LocalTraceRecorder:
    """Keeps the newest ``max_traces`` in memory. ``path``: a file (mode 0600) to which each is appended.

    ValueError unless ``max_traces`` is above 0.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, max_traces: int = 1000) -> None:
        if isinstance(max_traces, bool) or not isinstance(max_traces, int) or max_traces < 1:
            raise ValueError("max_traces must be a whole number above 0")
        self.path = None if path is None else Path(path)
        self.max_traces = max_traces
        self._traces: deque[str] = deque(maxlen=max_traces)
        self._lock = threading.Lock()

    def record(self, trace: Mapping[str, Any]) -> None:
        """Keep a finished trace. TypeError when it has no JSON form, OSError when the file cannot be written."""
        line = dumps(trace)
        with self._lock:
            self._traces.append(line)
            if self.path is not None:
                handle = os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600)
                with os.fdopen(handle, "a", encoding="utf-8") as file:
                    file.write(line + "\n")

    def replay(self, trace_id: str | None = None) -> list[dict[str, Any]]:
        """The traces in the order of their ends, or those of one id; detached copies."""
        with self._lock:
            found = [loads(line) for line in self._traces]
        return [trace for trace in found if trace_id is None or trace.get("trace_id") == trace_id]

    def clear(self) -> None:
        """Forget the traces in memory. The file stays."""
        with self._lock:
            self._traces.clear()

    @staticmethod
    def load_jsonl(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
        """The traces of a file. OSError when it cannot be read, ValueError naming the line that is no trace."""
        found: list[dict[str, Any]] = []
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").split("\n"), 1):
            if not line.strip():
                continue
            try:
                trace = loads(line)
            except ValueError as error:
                raise ValueError(f"{path}, line {number} is no JSON: {error}") from None
            if not isinstance(trace, dict):
                raise ValueError(f"{path}, line {number} is no trace")
            found.append(trace)
        return found
