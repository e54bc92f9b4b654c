"""Sessions, runners and usage as REST shows them: unrequested groups are absent, unknown values are null."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.protocol.resources.places import (
    AuditErasureBody,
    AuditResumeBody,
    Session,
    UsageFigures,
    UsageItem,
    UsageReport,
)

FIGURES: dict[str, Any] = {"turns": 1, "estimated_turns": 0, "input_tokens": 2, "output_tokens": 3, "total_tokens": 5,
                           "cache_read_tokens": 0, "cache_write_tokens": 0, "cost_usd": "0.1"}


@pytest.mark.req("J-13")
def test_an_unknown_model_is_null_and_an_unrequested_one_absent() -> None:
    assert msgspec.to_builtins(UsageItem(**FIGURES, model=None)) == {**FIGURES, "model": None}
    assert msgspec.to_builtins(UsageItem(**FIGURES, day="2026-11-25")) == {**FIGURES, "day": "2026-11-25"}


@pytest.mark.req("J-13")
def test_a_report_names_its_days_from_and_to() -> None:
    report = UsageReport(first_day="2026-11-01", last_day="2026-11-02", by=["day"], items=[], left_out=0,
                         total=UsageFigures(**FIGURES))
    shown = msgspec.to_builtins(report)
    assert (shown["from"], shown["to"]) == ("2026-11-01", "2026-11-02")
    assert msgspec.convert(shown, UsageReport) == report


@pytest.mark.req("N-3")
def test_a_new_session_is_short_and_has_its_workspace_access() -> None:
    session = Session(session_id="s", session_key="k", tenant_id="t", agent_id="shell", state="idle", created_at="t",
                      updated_at="t")
    assert set(msgspec.to_builtins(session)) == {"session_id", "session_key", "tenant_id", "agent_id", "state",
                                                 "created_at", "updated_at"}
    assert session.workspace_access == "rw"


@pytest.mark.req("U-3", "U-4")
@pytest.mark.parametrize(("form", "wrong"), [
    (AuditResumeBody, {"size": -1, "root": "0" * 64}), (AuditResumeBody, {"size": 1, "root": "0" * 63}),
    (AuditResumeBody, {"size": 1, "root": "A" * 64}), (AuditResumeBody, {"size": 1, "root": "0" * 64 + "\n"}),
    (AuditResumeBody, {"size": 1, "root": "0" * 64, "reason": "x" * 1_001}), (AuditResumeBody, {"root": "0" * 64}),
    (AuditErasureBody, {"records": [1] * 501}), (AuditErasureBody, {"records": ["1"]}),
    (AuditErasureBody, {"person": "ann"}),
])
def test_a_body_about_the_log_is_validated(form: Any, wrong: dict[str, Any]) -> None:
    assert msgspec.convert({"size": 0, "root": "ab" * 32}, AuditResumeBody).size == 0
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, form)
