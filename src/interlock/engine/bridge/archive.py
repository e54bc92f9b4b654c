"""Archiving of a session: by a person, or after a reset of its key (I-1, I-3, V-2)."""

from __future__ import annotations

import msgspec

from interlock.command.audit.record_seal import target
from interlock.engine.bridge.commands.cancellation import close_session
from interlock.engine.bridge.commands.command_end import close_agent
from interlock.engine.bridge.lane import Lane
from interlock.protocol.problems import Problem


def archive(lane: Lane, who: dict[str, str], reason: str) -> None:
    """End the agent and archive the session: it stays readable and accepts no commands (V-2). An observed session is
    archived here only: the gateway that controls it is not contacted, and may not exist any more (D-5)."""
    if not lane.state.controller:
        close_session(lane, who, reason)
    if lane.state.entry.archived_at is None:
        lane.state.patch_entry(archived_at=lane.wall)
        lane.audit("session_change", who, {"fields": ["archivedAt"]}, personal={"reason": reason})


def put_away(lane: Lane, who: dict[str, str]) -> None:
    """Archive a session whose entry a person deleted. Raises Problem Conflict while it has work: deleting a line of a
    file must not end running work (N-1)."""
    lane.check_controlled()
    if lane.commands:
        raise Problem("Conflict", "It has work under way, so it stays",
                      hint="End it with `interlock sessions archive`.")
    archive(lane, who, "its entry was deleted")


def restore(lane: Lane, who: dict[str, str]) -> None:
    """Restore an archived session."""
    if lane.state.entry.archived_at is not None:
        lane.state.patch_entry(archived_at=None)
        lane.audit("session_change", who, {"fields": ["archivedAt"]})


def retire(lane: Lane, who: dict[str, str], *, asked: bool) -> None:
    """End the old session's agent: at once if a person requested the reset, otherwise when its work has ended."""
    lane.check_controlled()
    if asked:
        close_session(lane, who, "reset")
        return
    live = [record for record in lane.commands.values() if record.command.type == "execute"]
    for record in live:
        if record.close_after:
            continue
        kept = lane.keep(msgspec.structs.replace(record, close_after=True))
        # The audit record of its submission names another target, so a restart would treat the row as tampered with
        # (H-5).
        lane.audit("reevaluate", who, {"reason": "reset", "target_sha256": target(kept)}, command_id=kept.command.id)
    if not live:
        close_agent(lane, who, "reset")
