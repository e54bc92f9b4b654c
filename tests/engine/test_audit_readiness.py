"""Whether a tenant's log can be signed: a reason is reported once, and its end wakes the waiting tasks."""

from __future__ import annotations

import pytest

from interlock.engine.audit_readiness import Signing


@pytest.mark.req("U-3")
def test_a_failure_is_reported_once_and_again_when_its_reason_changes() -> None:
    signing = Signing()

    assert [signing.failed("t1", why) for why in ("full", "full", "away")] == [True, False, True]
    assert (signing.reason("t1"), signing.reason("t2")) == ("away", None)


@pytest.mark.req("U-3")
def test_a_signature_wakes_waiting_tasks_only_if_the_log_was_stalled() -> None:
    signing, wakeups = Signing(), list[str]()
    signing.on_resumed(lambda: wakeups.append("first"))
    signing.on_resumed(lambda: wakeups.append("second"))

    signing.signed("t1")
    assert wakeups == []
    signing.failed("t1", "full")
    signing.signed("t1")
    signing.signed("t1")
    assert (wakeups, signing.reason("t1")) == (["first", "second"], None)
