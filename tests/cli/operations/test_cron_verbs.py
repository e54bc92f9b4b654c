"""Cron jobs as lines: when each is due, ran last, what it missed, and why it did not run (R-4)."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.cli.operations.cron_verbs import _row  # pyright: ignore[reportPrivateUsage]
from interlock.protocol.inbound import CronJobShown

pytestmark = pytest.mark.req("R-4")


def job(**fields: Any) -> CronJobShown:
    own: dict[str, Any] = {"id": "nightly", "agent_id": "shell", "session_key": "k", "schedule": "0 3 * * *",
                           "time_zone": "UTC", "message": "tidy up", "enabled": True, "next_at": None, "last_at": None,
                           "missed": 0, "error": None, "command_id": None}
    return CronJobShown(**{**own, **fields})


def test_a_job_that_never_ran_and_is_not_due_is_shown_as_such() -> None:
    assert _row(job()) == ["nightly", "shell", "0 3 * * *", "UTC", "never", "never", "", ""]
    assert _row(job(enabled=False))[4] == "off"


def test_missed_runs_and_the_reason_come_before_the_command() -> None:
    row = _row(job(next_at="2999-01-01T00:00:00.000Z", last_at="2020-01-01T00:00:00.000Z", missed=3,
                   error="no runner", command_id="cmd_1"))

    assert (row[6], row[7]) == ("3", "no runner")
    assert "never" not in row
    assert _row(job(command_id="cmd_1"))[7] == "cmd_1"
