"""Gaps of a ledger that was restored from an older copy, as lines for `status` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.cli.display.terminal import one_line
from interlock.protocol.answers import MissingSession, RestoredLedger

SHOWN = 5
"""Sessions that are named; `status --json` has more."""


def restored_lines(restored: RestoredLedger) -> Iterator[str]:
    """Yield one sentence for the log, one for the commands, one for each of the first sessions."""
    yield _cause(restored)
    if restored.records_signed is not None and restored.records_kept is not None:
        yield (f"{restored.records_signed - restored.records_kept} audit records that were signed are missing: "
               f"{restored.records_signed} were signed, {restored.records_kept} were there.")
    if restored.commands_closed:
        yield f"Commands closed as LedgerRestored: {restored.commands_closed}."
    for one in restored.sessions[:SHOWN]:
        yield _session(one)
    if restored.session_count > SHOWN:
        yield f"{restored.session_count - SHOWN} more sessions: `interlock status --json`."


def _cause(restored: RestoredLedger) -> str:
    """Return what is known about the cause. A single runner may report anything about its own sessions."""
    runners = {one.runner_id for one in restored.sessions}
    if restored.records_signed is not None or len(runners) != 1:
        return "An older copy of the ledger was put back."
    runner = one_line(runners.pop())
    return (f"Runner {runner} alone reports that an older copy of the ledger was put back. If none was, its report is "
            f"false: look at that runner, and revoke it if you do not know the cause (interlock runners revoke "
            f"{runner}).")


def _session(one: MissingSession) -> str:
    where = f"Session {one_line(one.session_id)} on runner {one_line(one.runner_id)}"
    if not one.known:
        return f"{where} is not in the ledger; restart that runner to end its agent."
    return f"{where} lacks {one.frames} frames and {one.controls} control frames."
