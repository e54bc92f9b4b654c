"""Gaps of a ledger that was restored from an older copy, as lines for `status` and `doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from interlock.cli.display.terminal import one_line
from interlock.protocol.answers import MissingSession, RestoredLedger

SHOWN = 5
"""Sessions that are named; `status --json` has more."""


def restored_lines(restored: RestoredLedger) -> Iterator[str]:
    """Yield one sentence for the log, one for the commands, one for each of the first sessions."""
    yield "An older copy of the ledger was put back."
    if restored.records_signed is not None and restored.records_kept is not None:
        yield (f"{restored.records_signed - restored.records_kept} audit records that were signed are missing: "
               f"{restored.records_signed} were signed, {restored.records_kept} were there.")
    if restored.commands_closed:
        yield f"Commands closed as LedgerRestored: {restored.commands_closed}."
    for one in restored.sessions[:SHOWN]:
        yield _session(one)
    if restored.session_count > SHOWN:
        yield f"{restored.session_count - SHOWN} more sessions: `interlock status --json`."


def _session(one: MissingSession) -> str:
    where = f"Session {one_line(one.session_id)} on runner {one_line(one.runner_id)}"
    if not one.known:
        return f"{where} is not in the ledger; restart that runner to end its agent."
    return f"{where} lacks {one.frames} frames and {one.controls} control frames."
