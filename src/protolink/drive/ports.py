"""What the driver needs from the outside: a model, tools, a policy, people, a clock and a journal.

Agents, tools, models and stores implement these; tests and simulations implement them too. A method that may answer at
once or later returns its value or an awaitable of it, so that what needs no waiting costs no task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypeVar

from ..models.value import value

if TYPE_CHECKING:
    from ..engine.facts import Proposal, Record, Spec
    from ..models import ConversationHistory
    from ..models.turn import Call
    from ..runtime import ApprovalRequest, PolicyDecision, RunAction, RunContext, RunEvent, UserInputRequest
    from .execution import ToolExecution

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


@value
class Reply:
    """A model's turn, ready for the engine. Token counts are the provider's, or estimates when ``estimated``."""

    text: str
    calls: tuple[Call, ...] = ()
    raw: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = True
    native: bool = False
    latency_ms: float = 0.0
    metrics: dict[str, Any] = field(default_factory=dict)


class Misspoken(Exception):
    """The model replied, but not in the action language. Costs a turn; feedback goes into the conversation."""

    def __init__(self, error: str, reply: Reply) -> None:
        super().__init__(error)
        self.error = error
        self.reply = reply


class ModelPort(Protocol):
    """The model of one agent in one run, with its prompt and its declarations bound."""

    provider: str
    model: str
    context_window: int | None
    max_tool_corrections: int
    max_parse_failures: int

    def sections(self, history: ConversationHistory, query: Any) -> tuple[int, int, int, int]:
        """Estimated tokens of the next call: system, tool prompt, history, user. No IO, constant time."""

    def reply(
        self, history: ConversationHistory, emit: Callable[[str], None] | None
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """Ask the model once; a model that need not be waited for answers at once. ``emit`` takes text fragments as
        they come; None asks for no streaming.

        Raises Misspoken for a reply that is no action, ConnectionError or TimeoutError for what may pass by itself,
        and anything else for a failure that asking again does not cure.
        """


class InvalidArguments(ValueError):
    """A call's arguments do not fit the tool. The model may correct them, unless the refusal ``ends`` its work.

    ``code`` says how it was refused.
    """

    def __init__(self, message: str, code: str = "invalid_arguments", *, ends: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.ends = ends


class NeverBegan(asyncio.CancelledError):
    """A tool was canceled before its function began: nothing changed."""


class AnswerTimedOut(TimeoutError):
    """The connected person did not answer in the time that the question has. Not a failure: the status says so."""


class ToolTraits(Protocol):
    """What the driver knows of every tool before it is used. ``probe`` looks up what became of an uncertain action."""

    @property
    def name(self) -> str: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def idempotent(self) -> bool: ...
    @property
    def probe(self) -> Callable[[RunAction], Any] | None: ...

    def prepare(self, arguments: Mapping[str, Any], context: RunContext) -> MaybeAwaitable[RunAction]:
        """Validate and describe the exact operation; change nothing.

        Raises InvalidArguments, or ToolRejectedError when the request cannot work as it is.
        """


class ToolPort(ToolTraits, Protocol):
    """A tool that does something. ``asks_user`` tells it from a QuestionTool, for type checkers too.

    One that looks at its action and at nothing else of its run may have ``alone``: what to call with the authorized
    action in place of ``invoke``, or None. Then no ToolExecution has to be put together.
    """

    @property
    def asks_user(self) -> Literal[False]: ...

    def invoke(self, execution: ToolExecution) -> MaybeAwaitable[Any]:
        """Perform the authorized action and return its result. Blocks only when the tool is declared to run inline."""


class PeerPort(ToolTraits, Protocol):
    """Carries out delegations to agents that are no frames of this run: their work is theirs, its effect foreign."""

    @property
    def asks_user(self) -> Literal[False]: ...

    def call(self, execution: ToolExecution, tell: Callable[[RunEvent], None]) -> Awaitable[Any]:
        """Have the authorized delegation done and return its answer. ``tell`` takes what the peer tells on the way.

        Raises UncertainExecutionError when it is not known what the peer did.
        """


class QuestionTool(ToolTraits, Protocol):
    """A tool that only asks a person: the run puts the question and takes the answer as the result."""

    @property
    def asks_user(self) -> Literal[True]: ...

    def question(self, action: RunAction, request_id: str, task_id: str, run_id: str) -> UserInputRequest:
        """The question that the prepared action puts."""

    def body(self, request: UserInputRequest) -> dict[str, Any]:
        """What a store keeps of a waiting question, as JSON: the request and the limits of its answer."""

    def accept(self, answer: Any) -> str | None:
        """The checked answer, None for a declined question. ValueError when it is no text, blank or oversized."""

    def ask(self, request: UserInputRequest) -> Awaitable[str | None] | None:
        """Ask the connected person, or None when nobody is connected. The answer is checked.

        The awaitable raises AnswerTimedOut, ValueError for a refused answer, and what the person's handler raises.
        """


class PolicyPort(Protocol):
    """The policies that judge an agent's actions, ancestors' included."""

    def judge(self, action: RunAction, context: RunContext) -> MaybeAwaitable[PolicyDecision]: ...


class Approver(Protocol):
    """Asks a connected person. The decision comes back with the request's id."""

    def __call__(self, request: ApprovalRequest, context: RunContext) -> Any: ...


class AgentPort(Protocol):
    """One agent of the tree, as its frames see it. ``path`` is its place: "" the root, "writer/checker" below it."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def policy(self) -> PolicyPort: ...
    @property
    def approver(self) -> Approver | None: ...
    @property
    def model(self) -> ModelPort | None: ...
    @property
    def children(self) -> Mapping[str, AgentPort]: ...

    def tool(self, name: str) -> ToolPort | QuestionTool | None:
        """The tool of that name, or None."""

    def tool_names(self) -> Sequence[str]:
        """What a model may call, to tell it when it calls something else."""

    @property
    def handles_itself(self) -> bool:
        """The agent has a handler of its own for its tasks; the caller's ``peers`` carry out delegations to it."""

    @property
    def peers(self) -> PeerPort | None:
        """Who carries out a delegation to an agent that is no child; None when there is nobody."""

    def worker(self, name: str) -> tuple[str, str | None] | None:
        """For a worker tool: the child it stands for, and the child's tool that it is bound to."""

    def spec(self, frame: str, *, prompt: Any = None, call: Proposal | None = None, **more: Any) -> Spec:
        """How a frame of this agent starts, with the agent's limits and model."""


class Journal(Protocol):
    """Where a run's facts go. A live run's journal keeps nothing."""

    durable: bool

    def append(self, records: Sequence[Record], status: str) -> Awaitable[None] | None:
        """Store the records, all or none, then return. None when that is done already.

        Raises RunBusyError when ownership was lost, StoreUnavailableError when the store cannot be written now (nothing
        was stored).
        """

    async def release(self) -> None:
        """Give up ownership. Never raises for ownership that is gone already."""


class Clock(Protocol):
    """Unix time, and ways to be told when it has come."""

    def now(self) -> float: ...

    async def sleep_until(self, when: float) -> None:
        """Return at ``when``. Used when nothing else can happen before, so a fake clock may jump there."""

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back in the running loop at ``when``; returns what takes that back."""
