"""Limits of a drive that nobody set."""

from __future__ import annotations

#: Of a result that is stored, in bytes.
MAX_RESULT_BYTES = 64 * 1024 * 1024
#: How long a store that is away is tried again, in seconds.
STORE_PATIENCE = 60.0
