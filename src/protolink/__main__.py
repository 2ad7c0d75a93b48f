"""``python -m protolink`` is the command ``protolink``."""

from __future__ import annotations

from .cli import main

main()
