"""Gaps of a ledger that was restored from an older copy, as `status` and `doctor` show them (D-5)."""

from __future__ import annotations

import pytest

from interlock.cli.operations.ledger_gaps import SHOWN, restored_lines
from interlock.protocol.answers import MissingSession, RestoredLedger

pytestmark = pytest.mark.req("D-5")


def missing(number: int, known: bool = True) -> MissingSession:
    return MissingSession(session_id=f"s{number}", runner_id="r", known=known, frames=3, controls=1)


def test_each_gap_is_a_line() -> None:
    lines = list(restored_lines(RestoredLedger(records_signed=9, records_kept=4, commands_closed=2, session_count=2,
                                               sessions=[missing(1), missing(2, known=False)])))
    assert lines == [
        "An older copy of the ledger was put back.",
        "5 audit records that were signed are missing: 9 were signed, 4 were there.",
        "Commands closed as LedgerRestored: 2.", "Session s1 on runner r lacks 3 frames and 1 control frames.",
        "Session s2 on runner r is not in the ledger; restart that runner to end its agent."]


def test_no_line_is_shown_without_a_gap() -> None:
    assert len(list(restored_lines(RestoredLedger()))) == 1


def test_a_single_runners_report_is_not_a_fact() -> None:
    [line, _] = restored_lines(RestoredLedger(session_count=1, sessions=[missing(1)]))
    assert line.startswith("Runner r alone reports that")
    assert "interlock runners revoke r" in line
    other = MissingSession(session_id="s2", runner_id="q")
    for found in (RestoredLedger(session_count=2, sessions=[missing(1), other]),
                  RestoredLedger(session_count=1, sessions=[missing(1)], records_signed=9, records_kept=4)):
        assert next(iter(restored_lines(found))) == "An older copy of the ledger was put back."


def test_many_sessions_are_counted_and_hostile_names_stay_on_one_line() -> None:
    lines = list(restored_lines(RestoredLedger(session_count=50, sessions=[missing(n) for n in range(50)])))
    assert len(lines) == 1 + SHOWN + 1
    assert lines[-1].startswith("45 more sessions")
    [_, line] = restored_lines(RestoredLedger(session_count=1, sessions=[MissingSession(session_id="a\n\x1b[2J",
    runner_id="r")]))
    assert line.isprintable()
