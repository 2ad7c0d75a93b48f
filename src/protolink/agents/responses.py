"""Checking an answer to a stored run before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..engine.facts import Answered, Proposal
from ..engine.state import Request, Run
from ..errors import DurableExecutionError
from ..models import new_id
from ..models.json import detached
from ..models.turn import Call
from ..models.unset import UNSET, Unset
from ..runtime.fields import unless_blank
from .checks import text


@dataclass(frozen=True)
class Response:
    """What ``resume`` was called with. ``answer`` None means declined; UNSET means no answer was given.

    A blank ``reason`` is none.
    """

    request_id: str | None = None
    approved: bool | None = None
    answer: Any = UNSET
    fingerprint: str | None = None
    arguments: dict[str, Any] | None = None
    reason: str | None = None

    def __post_init__(self) -> None:
        if self.approved is not None and not isinstance(self.approved, bool):
            raise ValueError("approved must be True or False")
        if self.approved is not None and self.answers:
            raise ValueError("give either answer or approved, not both")
        if self.given and not (isinstance(self.request_id, str) and self.request_id.strip()):
            raise ValueError("a response needs the request_id of the pending request")
        if not self.given and any(found is not None for found in (self.request_id, self.fingerprint, self.reason)):
            raise ValueError("request_id, fingerprint and reason come with a response: give answer or approved")
        if self.answer is not None and self.answers and not (isinstance(self.answer, str) and self.answer.strip()):
            raise ValueError("answer must be nonblank text, or None to decline")
        text("answer", self.answer if self.answers else None)
        object.__setattr__(self, "reason", unless_blank(text("reason", self.reason)))
        if self.arguments is not None:
            self._check_arguments()

    def _check_arguments(self) -> None:
        if not (self.approved and isinstance(self.arguments, dict)):
            raise ValueError("arguments (a dict) edit an action that is approved: approved=True")
        try:
            detached(self.arguments)
        except TypeError as error:
            raise ValueError(f"arguments are no JSON: {error}") from None

    @property
    def answers(self) -> bool:
        return not isinstance(self.answer, Unset)

    @property
    def given(self) -> bool:
        return self.approved is not None or self.answers

    @property
    def value(self) -> Any:
        return self.answer if self.answers else self.approved


def answer_to(run: Run, response: Response, now: float) -> Answered | None:
    """The fact that the response means; None when the very same response is recorded already.

    ValueError for a response of the wrong kind, DurableExecutionError for one that fits no pending request.
    """
    request = run.requests.get(response.request_id or "")
    if request is None:
        _check_recorded(run, response)
        return None
    _check_kind(request, response)
    if response.fingerprint is not None and response.fingerprint != request.fingerprint:
        raise DurableExecutionError(
            f"Request '{request.id}' is not what was displayed (other fingerprint); show it again before answering"
        )
    if request.expires is not None and request.expires <= now:
        raise DurableExecutionError(
            f"The time to answer request '{request.id}' has passed; resume('{run.id}') without an answer closes it"
        )
    edit = _edit(run, request, response)
    return Answered(request.id, response.value, response.reason, None, edit)


def _check_recorded(run: Run, response: Response) -> None:
    recorded = run.responses.get(response.request_id or "")
    if recorded is None:
        pending = ", ".join(run.requests) or "none"
        raise DurableExecutionError(
            f"Run '{run.id}' has no pending request '{response.request_id}'. Pending: {pending}"
        )
    same = recorded.get("response") == response.value and "status" not in recorded and response.arguments is None
    if same and run.outcome is None:
        return
    raise DurableExecutionError(
        f"Request '{response.request_id}' was closed already; the response on record stands",
        recorded={**recorded, "outcome": run.outcome},
    )


def _check_kind(request: Request, response: Response) -> None:
    if request.kind in ("yield", "retry"):
        raise ValueError(f"a {request.kind} takes no response; call resume with the run id alone")
    if request.kind == "approval" and response.approved is None:
        raise ValueError(f"request '{request.id}' is an approval: give approved=True or False")
    if request.kind == "input" and not response.answers:
        raise ValueError(f"request '{request.id}' is a question: give answer=")
    limit = request.body.get("max_answer_chars")
    if request.kind == "input" and isinstance(response.answer, str) and limit and len(response.answer) > limit:
        raise ValueError(f"the answer has {len(response.answer)} characters; at most {limit} are taken")


def _edit(run: Run, request: Request, response: Response) -> Proposal | None:
    if response.arguments is None:
        return None
    assert request.action is not None
    call = run.actions[request.action].call
    return Proposal(new_id("action"), Call(call.id, call.tool, response.arguments))
