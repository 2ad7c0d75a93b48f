"""The gate between a prepared action and its effect."""

from __future__ import annotations

import inspect

from protolink.errors import ActionDeniedError, ApprovalRequiredError

from .action import RunAction
from .approval import ActionAuthorization, ApprovalDecision, ApprovalHandlerLike, ApprovalRequest
from .context import RunContext
from .policy import CapabilityPolicy, Policy, PolicyDecision, PolicyEffect


class ActionAuthorizer:
    """Asks policy, and a person where policy says so. It never runs the action.

    Without a policy everything is allowed; without a handler whatever needs approval is refused. The handler may be a
    plain function. TypeError when either is not of the right kind.
    """

    def __init__(self, policy: Policy | None = None, approval_handler: ApprovalHandlerLike | None = None) -> None:
        if policy is not None and not callable(getattr(policy, "evaluate", None)):
            raise TypeError("a policy needs an async method evaluate(action, context)")
        if approval_handler is not None and not callable(approval_handler):
            raise TypeError("an approval handler must be callable with (request, context)")
        self.policy: Policy = policy if policy is not None else CapabilityPolicy()
        self.approval_handler = approval_handler

    async def authorize(self, action: RunAction, context: RunContext) -> ActionAuthorization:
        """The proof that the action may run. Policy and handler get these very objects.

        ActionDeniedError when policy or person refuses, ApprovalRequiredError without a handler, TypeError for an
        argument or a result of the wrong type, ValueError for an answer to another request. Their own errors pass
        through.
        """
        if not isinstance(action, RunAction):
            raise TypeError(f"authorize takes a RunAction, not {type(action).__name__}")
        if not isinstance(context, RunContext):
            raise TypeError(f"authorize takes a RunContext, not {type(context).__name__}")
        decision = await self.policy.evaluate(action, context)
        if not isinstance(decision, PolicyDecision):
            raise TypeError(f"a policy must return a PolicyDecision, not {type(decision).__name__}")
        match decision.effect:
            case PolicyEffect.ALLOW:
                return ActionAuthorization(action, decision)
            case PolicyEffect.DENY:
                raise ActionDeniedError(action=action, decision=decision)
            case PolicyEffect.REQUIRE_APPROVAL:
                return await self._ask(ApprovalRequest(action, decision, context.run_id), context)

    async def _ask(self, request: ApprovalRequest, context: RunContext) -> ActionAuthorization:
        if self.approval_handler is None:
            raise ApprovalRequiredError(request)
        result = self.approval_handler(request, context)
        answer = await result if inspect.isawaitable(result) else result
        decision = correlated(answer, request)
        if decision.approved is not True:
            raise ActionDeniedError(
                action=request.action,
                decision=request.policy_decision,
                approval_request=request,
                approval_decision=decision,
            )
        return ActionAuthorization(request.action, request.policy_decision, request, decision)


def correlated(answer: object, request: ApprovalRequest) -> ApprovalDecision:
    """A handler's answer as a decision on this request. TypeError or ValueError when it is none."""
    if isinstance(answer, bool):
        return ApprovalDecision(approved=answer, request_id=request.request_id)
    if not isinstance(answer, ApprovalDecision):
        raise TypeError(f"an approval handler must return ApprovalDecision or bool, not {type(answer).__name__}")
    if answer.request_id != request.request_id:
        raise ValueError(f"the approval decision answers another request than '{request.request_id}'")
    return answer
