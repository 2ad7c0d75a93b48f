"""Where redaction happens by itself, and where it has to be asked for."""

from __future__ import annotations

import pytest

from protolink import (
    DEFAULT_REDACTION_POLICY,
    ApprovalRequest,
    ContextManifest,
    PolicyDecision,
    RedactionPolicy,
    RunAction,
    RunEvent,
    RunReport,
    diff_run_reports,
)
from protolink.runtime import assert_run_matches

SECRET = "hunter2-hunter2"


def report(number: int) -> RunReport:
    return RunReport.from_events([], metadata={"password": f"{SECRET}{number}"})


@pytest.mark.claim("RED-013")
def test_the_default_policy_is_shared_by_diffs_and_assertions() -> None:
    assert isinstance(DEFAULT_REDACTION_POLICY, RedactionPolicy)
    assert RedactionPolicy() == DEFAULT_REDACTION_POLICY
    difference = diff_run_reports(report(1), report(2))
    assert difference.format() == difference.format(redaction_policy=DEFAULT_REDACTION_POLICY)
    assert SECRET not in difference.format()
    assert SECRET in difference.format(redaction_policy=None)
    with pytest.raises(AssertionError) as caught:
        assert_run_matches(report(1), report(2))
    assert SECRET not in str(caught.value)
    assert "/metadata/password" in str(caught.value)


@pytest.mark.claim("RED-014")
def test_plain_to_dict_redacts_nothing() -> None:
    secret = {"password": SECRET}
    action = RunAction(kind="tool.call", name="connect", payload=secret)
    request = ApprovalRequest(action, PolicyDecision("ask", "why", "policy"), "run_1")
    for value in (
        RunEvent(type="task.progress", payload=secret),
        ContextManifest(metadata=secret),
        request,
        RunReport(metadata=secret),
        diff_run_reports(report(1), report(2)),
    ):
        assert SECRET in str(value.to_dict())
        assert SECRET not in str(value.to_dict(redaction_policy=RedactionPolicy()))
