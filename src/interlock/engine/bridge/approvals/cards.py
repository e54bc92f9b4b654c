"""The chats in which chat bridges report that they posted an approval (J-5)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from interlock.command.approval import named
from interlock.engine.bridge.lane import Lane
from interlock.protocol.limits import MAX_CARDS
from interlock.protocol.problems import Problem
from interlock.protocol.records import Principal
from interlock.protocol.resources import Approval, ApprovalCard


def report(lane: Lane, principal: Principal, approval_id: str, service: str, chats: Sequence[str]) -> Approval:
    """Replace the chats that a bridge reported for its service. This leaves no audit record, since no decision and no
    permission depends on it. Raises Problem Conflict if the approval has ended, QuotaExceeded above MAX_CARDS."""
    lane.check_controlled()
    record = lane.approvals.get(approval_id)
    if record is None or record.approval.state != "pending":
        raise Problem("Conflict", f"approval {approval_id} is decided; where it was posted is not kept")
    approval, by = record.approval, named(principal.actor)
    others = [card for card in approval.cards if (card.reported_by, card.service) != (by, service)]
    own = [ApprovalCard(service=service, chat=chat, reported_by=by) for chat in dict.fromkeys(chats)]
    if own and len(others) + len(own) > MAX_CARDS:
        raise Problem("QuotaExceeded", f"{len(others)} chats are named of approval {approval_id} already, of at most "
                      f"{MAX_CARDS}", hint="Name fewer chats in the bridge's config, or run fewer bridges.")
    reported = msgspec.structs.replace(approval, cards=[*others, *own])
    if reported == approval:
        return approval
    return lane.keep_approval(msgspec.structs.replace(record, approval=reported)).approval
