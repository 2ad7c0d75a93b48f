"""Facts: what happened in a run, in the past tense. They are stored, and the run is the fold of them.

Only additions are safe here: a stored journal must fold for ever (golden journals in the tests watch that). A new field
needs a default; a field that lost its meaning stays. Random ids, times and configuration enter a run inside facts and
nowhere else.

A fact is *firm* when something outside may depend on it: it is stored before the driver waits for anything else. It is
*loose* when it can be had again without cost or effect; loose facts ride with the next firm one.

Who brings a fact: ``decide`` (as a Stage command), a performer's answer, the driver as the intent before an effect, the
application (resume, cancel, reconcile), or the driver on opening and parking.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from ..models.turn import Call
from ..models.value import value
from ..runtime import PolicyDecision, RunAction


@value
class Proposal:
    """A call with the id of the action it becomes."""

    action: str
    call: Call


@value
class Spec:
    """How a frame starts. A frame is one loop: a task part, a direct call, or a child.

    ``agent`` is the path in the tree of agents ("" is the root, "writer/checker" a grandchild). ``call`` makes it a
    frame for one call; otherwise ``prompt`` starts an inference loop. ``slice`` is the number of model turns per grant.
    ``run_id``, ``task_id`` and ``context`` are the child's own, empty for parts of the root.
    """

    frame: str
    agent: str = ""
    prompt: Any = None
    call: Proposal | None = None
    slice: int | None = None
    parallel: bool = False
    corrections: int = 2
    misspeaks: int = 3
    provider: str = ""
    model: str = ""
    output_schema: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    run_id: str = ""
    task_id: str = ""
    context: dict[str, Any] | None = None
    no_model: bool = False
    expose: bool = False


@value
class RunStarted:
    """A run begins. ``task`` is the submitted task; ``configuration`` maps each part of the contract to its digest.

    ``conversation``: the messages that its session had then, None for a run that is not part of a conversation.
    """

    firm: ClassVar[bool] = True
    run_id: str
    agent: str
    task: dict[str, Any]
    parts: tuple[Spec, ...]
    context: dict[str, Any]
    configuration: dict[str, str]
    durable: bool
    salt: str
    children: dict[str, int] = field(default_factory=dict)
    conversation: list[dict[str, Any]] | None = None


@value
class Resumed:
    """A new drive of a stored run. What was under way when the last one ended is settled here, and only here."""

    firm: ClassVar[bool] = False
    epoch: int = 0


@value
class Parked:
    """The drive ends: nothing runs, and nothing can be done now."""

    firm: ClassVar[bool] = True


@value
class CancelRequested:
    firm: ClassVar[bool] = True
    reason: str | None = None


@value
class BudgetWarned:
    """Usage nears a limit. One a limit and run tree, resumes included. ``decision`` is a BudgetDecision."""

    firm: ClassVar[bool] = False
    frame: str
    decision: dict[str, Any]


@value
class BudgetDenied:
    firm: ClassVar[bool] = False
    frame: str
    decision: dict[str, Any]


@value
class RunFinished:
    """``outcome``: completed, failed or canceled."""

    firm: ClassVar[bool] = True
    outcome: str
    error: dict[str, Any] | None = None


@value
class FrameOpened:
    """Part ``part`` of the task, or the child that ``parent``'s action asked for, starts."""

    firm: ClassVar[bool] = False
    part: int | None = None
    spec: Spec | None = None
    parent: str | None = None


@value
class FrameClosed:
    firm: ClassVar[bool] = False
    frame: str
    outcome: str
    error: dict[str, Any] | None = None


@value
class Composed:
    """The next request to the model is ready. ``tokens``: estimated system, tools, history and user tokens."""

    firm: ClassVar[bool] = False
    frame: str
    turn: int
    attempt: int
    tokens: tuple[int, int, int, int]
    window: int | None = None


@value
class ModelStarted:
    firm: ClassVar[bool] = True
    frame: str
    turn: int
    attempt: int
    tokens: int
    streaming: bool = False


@value
class ModelReplied:
    """Without ``calls`` the ``text`` is the frame's answer. ``raw`` only where it differs from the text."""

    firm: ClassVar[bool] = True
    frame: str
    text: str
    calls: tuple[Proposal, ...] = ()
    raw: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    latency_ms: float = 0.0
    native: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)


@value
class ModelMisspoke:
    """A reply that is no action."""

    firm: ClassVar[bool] = True
    frame: str
    error: str
    raw: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    latency_ms: float = 0.0
    native: bool = False
    metrics: dict[str, Any] = field(default_factory=dict)


@value
class ModelFailed:
    """An attempt failed. ``retry_at``: when the next attempt may start (Unix seconds), for transient failures.

    ``code`` is ``canceled`` or ``budget`` when the attempt was cut by us; ``partial`` is the text that had come until
    then in fragments. It is a record only: the conversation goes on without it.
    """

    firm: ClassVar[bool] = False
    frame: str
    code: str
    message: str
    transient: bool = False
    retry_at: float | None = None
    partial: str = ""


@value
class Prepared:
    """The exact operation is known.

    ``route``: tool, input, child (a frame of this run), handler (a child that does its tasks itself) or peer (an agent
    elsewhere). ``opens`` is the frame of the child it would start, ``question`` the request it would put
    to a person, ``key`` what the duplicate guard compares ("" for tools that it leaves alone).
    """

    firm: ClassVar[bool] = False
    action: str
    prepared: RunAction
    route: str = "tool"
    opens: Spec | None = None
    key: str = ""
    read_only: bool = False
    idempotent: bool = False
    question: dict[str, Any] | None = None
    expires: float | None = None


@value
class Refused:
    """The proposal was turned down before any intent. ``counts``: it spends a correction; ``ends``: the whole frame."""

    firm: ClassVar[bool] = False
    action: str
    code: str
    message: str
    counts: bool = True
    phase: str = "validation"
    details: Any = None
    suggestion: str | None = None
    ends: bool = False


@value
class PreparationFailed:
    """Application code failed before the intent: preparation, policy, or who was asked. Nothing happened."""

    firm: ClassVar[bool] = False
    action: str
    code: str
    message: str


@value
class Decided:
    """Policy's word on the prepared action. ``request`` and ``created_at``: the question to a person, if one is due."""

    firm: ClassVar[bool] = False
    action: str
    decision: PolicyDecision
    request: str | None = None
    created_at: str | None = None
    expires: float | None = None


@value
class Asked:
    """Somebody outside has to answer. ``kind``: approval, input, yield or retry. ``body`` is what may be shown."""

    firm: ClassVar[bool] = True
    request: str
    kind: str
    frame: str
    action: str | None
    body: dict[str, Any]
    fingerprint: str = ""
    expires: float | None = None


@value
class Answered:
    """``response``: a bool for an approval, text or None for an input, None for a yield or retry.

    ``edit`` replaces the action by one with other arguments; it is judged from the start.
    """

    firm: ClassVar[bool] = True
    request: str
    response: Any = None
    reason: str | None = None
    by: str | None = None
    edit: Proposal | None = None


@value
class Expired:
    """The question was closed without an answer."""

    firm: ClassVar[bool] = True
    request: str
    reason: str


@value
class ToolStarted:
    """The intent. From here to the receipt the outcome is unknown to anybody who only reads the journal."""

    firm: ClassVar[bool] = True
    action: str


@value
class ToolReturned:
    firm: ClassVar[bool] = True
    action: str
    result: Any = None


@value
class ToolRejected:
    """The executor refused; nothing changed."""

    firm: ClassVar[bool] = True
    action: str
    code: str
    message: str
    details: Any = None
    suggestion: str | None = None


@value
class ToolFailed:
    """The executor failed and nothing is unknown: a live tool, a read, or one that says so. Code: also canceled."""

    firm: ClassVar[bool] = True
    action: str
    code: str
    message: str


@value
class EffectUnknown:
    """A durable tool ended without telling what it changed."""

    firm: ClassVar[bool] = True
    action: str
    code: str
    message: str


@value
class Reconciled:
    """Somebody looked at the outside system and supplied the receipt: its result, or why all is ``unchanged``."""

    firm: ClassVar[bool] = True
    action: str
    result: Any = None
    by: str | None = None
    unchanged: str | None = None


@value
class RerunAllowed:
    """The owner of an idempotent, uncertain action asks for it to run again."""

    firm: ClassVar[bool] = True
    action: str


@value
class Emitted:
    """A tool told something about its progress."""

    firm: ClassVar[bool] = False
    action: str
    type: str
    payload: dict[str, Any]


@value
class Relayed:
    """A peer that works on a delegation told something. ``event``: a serialized RunEvent, with the peer's own ids."""

    firm: ClassVar[bool] = False
    action: str
    event: dict[str, Any]


@value
class Adopted:
    """The stored view was edited by hand; these parts of it are taken over. ``actions``: by action id."""

    firm: ClassVar[bool] = True
    actions: dict[str, dict[str, Any]] = field(default_factory=dict)
    usage: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None


Fact = (
    RunStarted
    | Resumed
    | Parked
    | CancelRequested
    | BudgetWarned
    | BudgetDenied
    | RunFinished
    | FrameOpened
    | FrameClosed
    | Composed
    | ModelStarted
    | ModelReplied
    | ModelMisspoke
    | ModelFailed
    | Prepared
    | Refused
    | PreparationFailed
    | Decided
    | Asked
    | Answered
    | Expired
    | ToolStarted
    | ToolReturned
    | ToolRejected
    | ToolFailed
    | EffectUnknown
    | Reconciled
    | RerunAllowed
    | Emitted
    | Relayed
    | Adopted
)


@value
class Record:
    """A fact in its place: number in the run, number of its first event, and the time (Unix seconds)."""

    n: int
    seq: int
    at: float
    fact: Fact
