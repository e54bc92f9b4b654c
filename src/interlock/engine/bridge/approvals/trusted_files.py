"""Checks before a dispatch for files that configure the session's agent (H-13); `workspace_trust` decides about
them."""

from __future__ import annotations

from interlock.engine.bridge.lane import Lane


def waits(lane: Lane) -> bool:
    """Return whether the session's agent may not start yet."""
    return any(record.approval.workspace_files and record.approval.state == "pending"
               for record in lane.approvals.values())


def trusted(lane: Lane) -> str | None:
    """Return the digest of the files that may configure the next start: a policy has just allowed them, or a person's
    yes is unused. It is never read from the session's row, which no audit record binds (H-5)."""
    digest = lane.take_trusted_files()
    granted = [record.approval.digest for record in lane.approvals.values()
               if record.approval.workspace_files and record.approval.state == "granted"]
    return digest or (granted[-1] if granted else None)
