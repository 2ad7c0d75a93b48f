"""Approvals of live runs: who waits, who decided what, and what became of it."""

from __future__ import annotations

from .broker import ApprovalBroker
from .record import ApprovalRecord, ApprovalResolution, ApprovalScope
from .subscription import ApprovalSubscription

__all__ = ["ApprovalBroker", "ApprovalRecord", "ApprovalResolution", "ApprovalScope", "ApprovalSubscription"]
