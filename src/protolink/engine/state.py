"""The state of a run: what the fold of its facts leaves in memory.

Only ``evolve`` writes it. Everything here is control state, cheap to keep and to read; what people see (the task with
its artifacts, the stored view) is made from it by ``task`` and ``view``.
"""

from __future__ import annotations

from collections import deque
from dataclasses import field
from typing import Any

from ..models import ConversationHistory, Task
from ..models.turn import Call
from ..models.value import dataclass
from ..runtime import BudgetPolicy, BudgetPolicyLike, PolicyDecision, RunAction
from .facts import Record, Spec
from .ledger import Ledger

#: States of an action in which nothing more will happen to it by itself.
SETTLED = frozenset({"succeeded", "rejected", "denied", "failed", "canceled", "edited"})

#: States that a new drive takes back to ``proposed``: prepared and judged again before anything happens.
REOPENED = frozenset({"prepared", "asking", "authorized"})

DUPLICATE_WINDOW = 5
DEFAULT_STEPS = 10
TRANSIENT_ATTEMPTS = 3


@dataclass(slots=True)
class Action:
    """One call on its way from proposal to receipt.

    proposed → prepared → asking → asked → authorized → executing → succeeded | rejected | denied | failed | canceled |
    uncertain, or delegated while its child frame is open.
    """

    id: str
    frame: str
    turn: int
    index: int
    call: Call
    state: str = "proposed"
    prepared: RunAction | None = None
    route: str = "tool"
    opens: Spec | None = None
    question: dict[str, Any] | None = None
    key: str = ""
    read_only: bool = False
    idempotent: bool = False
    decision: PolicyDecision | None = None
    request: str | None = None
    request_at: str | None = None
    expires: float | None = None
    stale: bool = False
    approved: dict[str, Any] | None = None
    changed: list[str] | None = None
    child: str | None = None
    result: Any = None
    error: dict[str, Any] | None = None
    rejection: dict[str, Any] | None = None
    counted: bool = True
    reconciled: bool = False
    started_at: float | None = None
    edited_from: str | None = None

    @property
    def settled(self) -> bool:
        return self.state in SETTLED


@dataclass(slots=True)
class Request:
    """A question that waits for somebody outside."""

    id: str
    kind: str
    frame: str
    action: str | None
    body: dict[str, Any]
    fingerprint: str
    expires: float | None = None


@dataclass(slots=True)
class Frame:
    """One loop: a task part, a direct call, or a child.

    ``model``: idle, composed or calling. ``turn`` counts the model's finished turns; ``attempt`` numbers the attempts
    of the one to come. ``fault`` ends the frame as soon as nothing of it runs.
    """

    id: str
    spec: Spec
    scope: str
    parent: str | None = None
    part: int | None = None
    history: ConversationHistory = field(default_factory=ConversationHistory)
    open: bool = True
    outcome: str | None = None
    model: str = "idle"
    turn: int = 0
    attempt: int = 0
    last_output: int = 0
    unjudged: bool = False
    tokens: tuple[int, int, int, int] = (0, 0, 0, 0)
    window: int | None = None
    actions: list[str] = field(default_factory=list)
    unsettled: int = 0
    answer: str | None = None
    corrections: int = 0
    misspeaks: int = 0
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=DUPLICATE_WINDOW))
    failures: int = 0
    down: dict[str, Any] | None = None
    retry_at: float | None = None
    retries: int = 0
    slice_turns: int = 0
    waiting: str | None = None
    fault: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    output: Any = None
    children: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Scope:
    """Whose work a frame is: the root's, or one child's, with its own run id, task and agent."""

    run_id: str
    task: Task
    agent: str
    context: dict[str, Any]
    parent_action: str | None = None
    parent_run: str | None = None


@dataclass(slots=True)
class Run:
    """``phase``: active, parked or finished. ``uncertain``: ids of actions whose effect is unknown.
    ``parking``: somebody wants this process back, so the run yields before its next model turn. It is never stored.
    ``conversation``: what the session's earlier runs and this run's earlier parts have said; ``recalled`` counts the
    messages of the earlier runs.
    """

    id: str
    agent: str
    durable: bool
    salt: str
    parts: tuple[Spec, ...]
    configuration: dict[str, str]
    ledger: Ledger
    limits: dict[str, int]
    policy: BudgetPolicyLike | None = field(default_factory=BudgetPolicy)
    scopes: dict[str, Scope] = field(default_factory=dict)
    frames: dict[str, Frame] = field(default_factory=dict)
    open: dict[str, Frame] = field(default_factory=dict)
    actions: dict[str, Action] = field(default_factory=dict)
    requests: dict[str, Request] = field(default_factory=dict)
    responses: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked_by: dict[str, str] = field(default_factory=dict)
    receipts: list[Record] = field(default_factory=list)
    exported: int = 0
    uncertain: set[str] = field(default_factory=set)
    phase: str = "active"
    next_part: int = 0
    outputs: dict[int, Any] = field(default_factory=dict)
    cancel: CancelState | None = None
    outcome: str | None = None
    fault: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    output: Any = None
    epoch: int = 0
    n: int = 0
    seq: int = 1
    at: float = 0.0
    parking: bool = False
    conversation: ConversationHistory | None = None
    recalled: int = 0

    @property
    def children(self) -> int:
        """How many children were ever opened on this run's budget."""
        return self.ledger.children

    @property
    def root(self) -> Scope:
        return self.scopes[""]

    @property
    def task(self) -> Task:
        return self.scopes[""].task

    def abandoned(self, frame: Frame) -> bool:
        """True when a frame above has failed: the work of this one is not wanted any more."""
        while frame.parent is not None:
            frame = self.frames[self.actions[frame.parent].frame]
            if frame.fault is not None:
                return True
        return False

    def waits(self, frame: Frame) -> bool:
        """True when nothing in the frame can go on before somebody outside answers."""
        if frame.waiting is not None:
            return True
        unsettled = [action for key in frame.actions if not (action := self.actions[key]).settled]
        return bool(unsettled) and all(
            action.state == "asked"
            or (action.state == "delegated" and action.child is not None and self.waits(self.frames[action.child]))
            for action in unsettled
        )

    def scope(self, frame: Frame) -> Scope:
        return self.scopes[frame.scope]


@dataclass(slots=True)
class CancelState:
    reason: str | None = None


def status(run: Run) -> str:
    """The run's status as stores list it."""
    if run.uncertain:
        return "uncertain"
    if run.outcome is not None:
        return run.outcome
    if run.phase == "active":
        return "working"
    return "input-required" if run.requests else "ready"
