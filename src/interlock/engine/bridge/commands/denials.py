"""Denied tool calls, stored with their command: who or which rule denied each, and why (Y-5)."""

from __future__ import annotations

import msgspec

from interlock.engine.bridge.lane import SYSTEM, Lane
from interlock.protocol.denial_text import MAX_REASON_CHARS
from interlock.protocol.records import CommandRecord
from interlock.protocol.resources import Approval, Denial
from interlock.session.turn_output import MAX_DENIALS, DeniedCall

MAX_TITLE_CHARS = 200
NOT_ANSWERED = "no one answered in time"


def keep_denial(lane: Lane, command_id: str | None, denial: Denial) -> None:
    """Store a denial with its command while the command is live."""
    record = lane.commands.get(command_id or "")
    if record is not None:
        command = msgspec.structs.replace(record.command, denials=[*record.command.denials, denial][-MAX_DENIALS:])
        lane.keep(msgspec.structs.replace(record, command=command))


def denial_of(approval: Approval, at: str) -> Denial:
    """Return the denial for a denied or expired approval."""
    expired = approval.state == "expired"
    return Denial(
        tool_name=approval.tool_name or approval.agent_id, title=approval.title[:MAX_TITLE_CHARS],
        by="gateway" if expired else approval.decided_by or SYSTEM["id"], rule=approval.rule,
        reason=NOT_ANSWERED if expired else approval.comment and approval.comment[:MAX_REASON_CHARS],
        approval_id=approval.id, invocation_id=approval.invocation_id, at=at)


def with_refused(record: CommandRecord, refused: list[DeniedCall], at: str) -> list[Denial]:
    """Add the calls that the runner denied by itself to a command's denials."""
    own = [Denial(tool_name=one.tool_name, title=one.title[:MAX_TITLE_CHARS], by="runner",
                  reason=one.reason and one.reason[:MAX_REASON_CHARS], invocation_id=one.invocation_id, at=at)
           for one in refused]
    return [*record.command.denials, *own][-MAX_DENIALS:]

