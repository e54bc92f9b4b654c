"""An unreachable server is logged once, then as a summary at intervals, and once more when it is back."""

from __future__ import annotations

import itertools

import pytest
import structlog
from structlog.testing import capture_logs

from interlock.ports.outage_log import SUMMARY_MAX_S, SUMMARY_MIN_S, OutageLog

pytestmark = pytest.mark.req("C-4")


class Outage:
    """An outage on a clock that a test sets."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.outage = OutageLog(structlog.get_logger(), "away", "back", lambda: self.now_s)


def test_repeated_failures_are_one_line_and_then_ever_rarer_summaries() -> None:
    clock = Outage()
    with capture_logs() as lines:
        for _ in range(4 * 3_600):
            clock.outage.failed("No one answers.")
            clock.now_s += 0.25
    assert lines[0] == {"event": "away", "log_level": "warning", "reason": "No one answers."}
    after = [line["for_s"] for line in lines[1:]]
    assert after[:3] == [SUMMARY_MIN_S, 3 * SUMMARY_MIN_S, 7 * SUMMARY_MIN_S]
    assert max(b - a for a, b in itertools.pairwise(after)) == SUMMARY_MAX_S
    assert len(lines) < 20, "an hour with 14,400 failures"
    assert lines[1]["failures"] == 41


def test_the_return_is_logged_once_and_the_next_outage_starts_again() -> None:
    clock = Outage()
    with capture_logs() as lines:
        clock.outage.ended()
        clock.outage.failed("one", left_s=1.5)
        clock.now_s += 2.0
        clock.outage.failed("two", left_s=0.0)
        clock.outage.ended()
        clock.outage.ended()
        clock.outage.failed("three")
    assert lines == [
        {"event": "away", "log_level": "warning", "reason": "one", "left_s": 1.5},
        {"event": "back", "log_level": "info", "failures": 2, "after_s": 2.0},
        {"event": "away", "log_level": "warning", "reason": "three"}]
