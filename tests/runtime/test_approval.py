"""Approvals: request, decision, proof, and the gate that uses them."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.errors import ActionDeniedError, ActionPolicyError, ApprovalRequiredError
from protolink.models import Artifact, Part, RedactionPolicy
from protolink.models.json import dumps, loads
from protolink.runtime import (
    ActionAuthorization,
    ActionAuthorizer,
    ApprovalDecision,
    ApprovalRequest,
    CapabilityPolicy,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunContext,
)

words = st.text(max_size=8)
members = st.dictionaries(words, st.integers(0, 9) | words, max_size=2)
actions = st.builds(
    RunAction,
    kind=st.just("tool.call"),
    name=st.just("write"),
    payload=members,
    capabilities=st.frozensets(words, max_size=2),
    metadata=members,
)
policy_decisions = st.builds(PolicyDecision, st.sampled_from(PolicyEffect), st.text(min_size=1), st.text(min_size=1))
requests = st.builds(
    ApprovalRequest, actions, policy_decisions, st.text(min_size=1).filter(str.strip), metadata=members
)
answers = st.builds(ApprovalDecision, st.booleans(), words, st.none() | words, st.none() | words, members)
proofs = st.builds(ActionAuthorization, actions, policy_decisions, st.none() | requests, st.none() | answers)

ASKING = CapabilityPolicy({"records.write": "require_approval"})
ASKED = PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "needs a person", "rules")


def write(**fields: Any) -> RunAction:
    return RunAction(
        **{"kind": "tool.call", "name": "write", "capabilities": frozenset({"records.write"})} | fields  # type: ignore[arg-type]
    )


def authorize(authorizer: ActionAuthorizer, action: RunAction | None = None) -> ActionAuthorization:
    return asyncio.run(authorizer.authorize(action or write(), RunContext(run_id="run_1")))


def is_now(text: str) -> bool:
    moment = datetime.fromisoformat(text)
    return moment.utcoffset() == timedelta(0) and abs(datetime.now(UTC) - moment) < timedelta(minutes=5)


class Desk:
    """Answers with what it was told to, and remembers what it was asked."""

    def __init__(self, answer: Any = True) -> None:
        self.answer = answer
        self.asked: list[tuple[ApprovalRequest, RunContext]] = []

    async def __call__(self, request: ApprovalRequest, context: RunContext) -> Any:
        self.asked.append((request, context))
        return self.answer(request) if callable(self.answer) else self.answer


@pytest.mark.claim("APR-001")
def test_an_effect_of_approval_asks_the_handler() -> None:
    desk = Desk()
    action = write()
    authorize(ActionAuthorizer(ASKING, desk), action)
    [(request, _)] = desk.asked
    assert isinstance(request, ApprovalRequest)
    assert request.action is action
    assert request.run_id == "run_1"
    assert request.policy_decision.effect is PolicyEffect.REQUIRE_APPROVAL


@pytest.mark.claim("APR-002", "APR-046", "APR-025")
@pytest.mark.parametrize("explicit", [True, False])
def test_a_denied_answer_raises(explicit: bool) -> None:
    def refuse(request: ApprovalRequest) -> ApprovalDecision | bool:
        return ApprovalDecision(False, request.request_id, reason="not on Fridays") if explicit else False

    desk = Desk(refuse)
    with pytest.raises(ActionDeniedError, match="not on Fridays" if explicit else "Approval required") as caught:
        authorize(ActionAuthorizer(ASKING, desk))
    assert caught.value.approval_request is desk.asked[0][0]
    assert caught.value.approval_decision is not None
    assert caught.value.approval_decision.approved is False


@pytest.mark.claim("APR-003", "APR-047")
def test_without_a_handler_the_gate_stays_closed() -> None:
    with pytest.raises(ApprovalRequiredError) as caught:
        authorize(ActionAuthorizer(ASKING))
    request = caught.value.request
    assert ApprovalRequest.from_dict(loads(dumps(request.to_dict()))) == request


@pytest.mark.claim("APR-004")
def test_the_handler_sees_the_complete_action() -> None:
    desk = Desk()
    preview = Artifact(kind="preview", parts=[Part.json({"id": 1})])
    action = write(
        payload={"arguments": {"id": 1}}, artifacts=(preview,), description="Writes", metadata={"tenant": "x"}
    )
    authorize(ActionAuthorizer(ASKING, desk), action)
    seen = desk.asked[0][0].action
    assert seen.to_dict() == action.to_dict()
    assert seen.artifacts == (preview,)


@pytest.mark.claim("APR-005")
@pytest.mark.parametrize("value", [1, "yes", None])
def test_only_a_true_approval_lets_the_action_proceed(value: Any) -> None:
    desk = Desk(lambda request: ApprovalDecision(value, request.request_id))
    with pytest.raises(ActionDeniedError):
        authorize(ActionAuthorizer(ASKING, desk))


@pytest.mark.claim("APR-012", "APR-013", "APR-014", "APR-015")
def test_a_request_is_frozen_with_generated_identity() -> None:
    one, two = ApprovalRequest(write(), ASKED, "run_1"), ApprovalRequest(write(), ASKED, "run_1")
    assert one.request_id.startswith("approval_")
    assert one.request_id != two.request_id
    assert is_now(one.created_at)
    assert one.metadata == {}
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.run_id = "other"  # type: ignore[misc]


@pytest.mark.claim("APR-016", "APR-018")
@given(requests)
def test_a_serialized_request_nests_action_and_decision(request: ApprovalRequest) -> None:
    found = request.to_dict()
    assert found["action"] == request.action.to_dict()
    assert found["policy_decision"] == request.policy_decision.to_dict()
    again = ApprovalRequest.from_dict(loads(dumps(found)))
    assert isinstance(again.action, RunAction)
    assert isinstance(again.policy_decision, PolicyDecision)
    assert again == request


@pytest.mark.claim("APR-017")
def test_a_redacted_request_masks_secrets_at_every_depth() -> None:
    action = write(payload={"arguments": {"deep": [{"api_key": "sk-1"}], "password": "hunter2"}})
    request = ApprovalRequest(action, ASKED, "run_1", metadata={"token": "t-1"})
    text = dumps(request.to_dict(redaction_policy=RedactionPolicy()))
    assert not any(secret in text for secret in ("sk-1", "hunter2", "t-1"))
    assert "sk-1" in dumps(request.to_dict())


@pytest.mark.claim("APR-019")
def test_a_request_without_identity_gets_one() -> None:
    request = ApprovalRequest.from_dict({"action": {}, "policy_decision": ASKED.to_dict(), "run_id": "r"})
    assert request.request_id.startswith("approval_")
    assert is_now(request.created_at)


def test_a_request_without_decision_is_denied() -> None:
    assert ApprovalRequest.from_dict({"action": {}, "run_id": "r"}).policy_decision.effect is PolicyEffect.DENY


@pytest.mark.claim("APR-020", "APR-021", "APR-022", "APR-023", "APR-024")
def test_a_decision_is_frozen_with_optional_details() -> None:
    decision = ApprovalDecision(True, "approval_1")
    assert (decision.reason, decision.decided_by, decision.metadata) == (None, None, {})
    assert is_now(decision.decided_at)
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.approved = False  # type: ignore[misc]


@pytest.mark.claim("APR-026")
@given(answers)
def test_a_serialized_decision_has_every_field_and_reads_back(decision: ApprovalDecision) -> None:
    found = decision.to_dict()
    assert set(found) == {item.name for item in dataclasses.fields(ApprovalDecision)}
    assert ApprovalDecision.from_dict(loads(dumps(found))) == decision


@pytest.mark.claim("APR-027", "APR-028")
def test_a_stored_decision_without_content_is_a_refusal() -> None:
    decision = ApprovalDecision.from_dict({})
    assert decision.approved is False
    assert decision.request_id == ""
    assert ApprovalDecision.from_dict({"approved": None}).approved is False


@pytest.mark.claim("APR-029", "APR-030", "APR-031")
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_sync_and_async_handlers_may_answer_with_a_boolean(kind: str) -> None:
    calls: list[tuple[Any, ...]] = []

    def plain(*arguments: Any) -> bool:
        calls.append(arguments)
        return True

    async def waiting(*arguments: Any) -> bool:
        await asyncio.sleep(0)
        return plain(*arguments)

    proof = authorize(ActionAuthorizer(ASKING, plain if kind == "sync" else waiting))
    [(request, context)] = calls
    assert isinstance(context, RunContext)
    assert proof.approval_decision is not None
    assert proof.approval_decision.request_id == request.request_id
    assert proof.approval_decision.approved is True


@pytest.mark.claim("APR-032", "APR-049")
def test_an_answer_to_another_request_is_refused() -> None:
    with pytest.raises(ValueError, match="another request"):
        authorize(ActionAuthorizer(ASKING, Desk(ApprovalDecision(True, "approval_other"))))
    mine = Desk(lambda request: ApprovalDecision(True, request.request_id, decided_by="op"))
    decision = authorize(ActionAuthorizer(ASKING, mine)).approval_decision
    assert decision is not None
    assert decision.decided_by == "op"


@pytest.mark.claim("APR-033", "APR-034", "APR-035")
def test_a_proof_is_frozen_with_optional_approval() -> None:
    proof = ActionAuthorization(write(), ASKED)
    assert (proof.approval_request, proof.approval_decision) == (None, None)
    assert is_now(proof.authorized_at)
    with pytest.raises(dataclasses.FrozenInstanceError):
        proof.action = write()  # type: ignore[misc]


@pytest.mark.claim("APR-036", "APR-037")
@given(proofs)
def test_a_serialized_proof_nests_its_records_and_reads_back(proof: ActionAuthorization) -> None:
    found = loads(dumps(proof.to_dict()))
    assert found["action"]["name"] == "write"
    assert (found["approval_request"] is None) == (proof.approval_request is None)
    assert ActionAuthorization.from_dict(found) == proof
    del found["authorized_at"]
    assert is_now(ActionAuthorization.from_dict(found).authorized_at)


@pytest.mark.parametrize("record", [ApprovalRequest, ApprovalDecision, ActionAuthorization])
@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        5,
        {"action": [], "request_id": 1},
        {"action": {"kind": ""}, "run_id": "r", "approved": "yes"},
        {"action": {}, "policy_decision": "allow", "run_id": "r", "metadata": []},
        {"action": {}, "approval_request": {}, "decided_at": 1, "run_id": 5},
    ],
)
def test_malformed_records_are_refused(record: Any, hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        record.from_dict(hostile)


@pytest.mark.claim("APR-038", "APR-044")
def test_a_proof_comes_only_from_an_allow_or_a_granted_checkpoint() -> None:
    allowed = authorize(ActionAuthorizer(CapabilityPolicy()))
    assert allowed.policy_decision.effect is PolicyEffect.ALLOW
    assert (allowed.approval_request, allowed.approval_decision) == (None, None)
    granted = authorize(ActionAuthorizer(ASKING, Desk()))
    assert granted.approval_request is not None
    assert granted.approval_decision is not None
    assert granted.policy_decision is granted.approval_request.policy_decision
    for refusing in (ActionAuthorizer(ASKING, Desk(False)), ActionAuthorizer(CapabilityPolicy(default_effect="deny"))):
        with pytest.raises(ActionPolicyError):
            authorize(refusing)


@pytest.mark.claim("APR-039", "APR-040")
def test_the_default_authorizer_allows_and_asks_nobody() -> None:
    authorizer = ActionAuthorizer()
    assert isinstance(authorizer.policy, CapabilityPolicy)
    assert authorizer.approval_handler is None
    assert authorize(authorizer).policy_decision.effect is PolicyEffect.ALLOW
    desk = Desk()
    assert authorize(ActionAuthorizer(None, desk)).approval_request is None
    assert desk.asked == []


@pytest.mark.parametrize("arguments", [("deny",), (None, "handler"), (object(),)])
def test_a_policy_or_handler_of_the_wrong_kind_is_refused_at_once(arguments: Any) -> None:
    with pytest.raises(TypeError):
        ActionAuthorizer(*arguments)


@pytest.mark.claim("APR-041", "ACT-005")
def test_authorizing_never_runs_the_action() -> None:
    ran: list[str] = []
    action = write(payload={"arguments": {"call": lambda: ran.append("ran")}}).with_artifacts(
        [Artifact(kind="preview")]
    )
    assert authorize(ActionAuthorizer(ASKING, Desk()), action).action is action
    assert ran == []


@pytest.mark.claim("APR-042", "APR-043")
def test_policy_and_handler_get_the_very_context() -> None:
    seen: list[RunContext] = []

    class Watching:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            seen.append(context)
            return ASKED

    desk, context = Desk(), RunContext()
    before = context.to_dict()
    proof = asyncio.run(ActionAuthorizer(Watching(), desk).authorize(write(), context))
    assert isinstance(proof, ActionAuthorization)
    assert seen[0] is context
    assert desk.asked[0][1] is context
    assert context.to_dict() == before


@pytest.mark.claim("APR-045")
def test_a_denying_policy_raises_without_asking() -> None:
    desk = Desk()
    with pytest.raises(ActionDeniedError) as caught:
        authorize(ActionAuthorizer(CapabilityPolicy({"records.write": "deny"}), desk))
    assert caught.value.decision.effect is PolicyEffect.DENY
    assert caught.value.approval_request is None
    assert desk.asked == []


@pytest.mark.claim("APR-048")
@pytest.mark.parametrize("answer", [None, 1, "yes", {"approved": True}])
def test_any_other_answer_is_a_type_error(answer: Any) -> None:
    with pytest.raises(TypeError, match="ApprovalDecision or bool"):
        authorize(ActionAuthorizer(ASKING, Desk(answer)))


def test_a_policy_that_returns_no_decision_is_a_type_error() -> None:
    class Careless:
        async def evaluate(self, action: RunAction, context: RunContext) -> Any:
            return True

    with pytest.raises(TypeError, match="PolicyDecision"):
        authorize(ActionAuthorizer(Careless()))


@pytest.mark.claim("APR-050")
@pytest.mark.parametrize("where", ["policy", "handler"])
def test_errors_of_application_code_pass_unchanged(where: str) -> None:
    error = KeyError("mine")

    class Failing:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            raise error

    def handler(request: ApprovalRequest, context: RunContext) -> bool:
        raise error

    authorizer = ActionAuthorizer(Failing()) if where == "policy" else ActionAuthorizer(ASKING, handler)
    with pytest.raises(KeyError) as caught:
        authorize(authorizer)
    assert caught.value is error


@pytest.mark.claim("APR-051", "APR-052", "APR-053", "APR-054")
def test_policy_errors_carry_action_and_decision() -> None:
    action, request = write(), ApprovalRequest(write(), ASKED, "run_1")
    base = ActionPolicyError("text", action=action, decision=ASKED)
    assert isinstance(base, RuntimeError)
    assert (str(base), base.action, base.decision) == ("text", action, ASKED)
    required = ApprovalRequiredError(request)
    assert isinstance(required, ActionPolicyError)
    assert (required.request, required.action, required.decision) == (request, request.action, ASKED)
    denied = ActionDeniedError(action=action, decision=ASKED)
    assert isinstance(denied, ActionPolicyError)
    assert (denied.approval_request, denied.approval_decision) == (None, None)
    with pytest.raises(TypeError):
        ActionDeniedError(action, ASKED)  # type: ignore[misc]


@pytest.mark.claim("APR-055")
def test_a_denial_speaks_with_the_approvers_reason_else_the_policys() -> None:
    def text(reason: str | None) -> str:
        decision = ApprovalDecision(False, "a", reason=reason)
        return str(ActionDeniedError(action=write(), decision=ASKED, approval_decision=decision))

    assert text("too late") == "too late"
    assert text(None) == "needs a person"
    assert str(ActionDeniedError(action=write(), decision=ASKED)) == "needs a person"


@pytest.mark.claim("APR-055")
@pytest.mark.parametrize("blank", ["", "  ", "\n\t"])
def test_a_blank_reason_is_none(blank: str) -> None:
    for decision in (ApprovalDecision(False, "a", reason=blank), ApprovalDecision.from_dict({"reason": blank})):
        assert decision.reason is None
        denied = ActionDeniedError(action=write(), decision=ASKED, approval_decision=decision)
        assert str(denied) == "needs a person"
