"""What does not wait for the person at this terminal: pending approvals with their vote, and the tasks and sessions
that wait for these alone (G-7, P-3)."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.cli.link.gateway_link import GatewayLink
from interlock.command.card.votes import is_up_to
from interlock.protocol.access import Whoami
from interlock.protocol.api.access import WHOAMI
from interlock.protocol.api.approvals import LIST_APPROVALS
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.resources import Approval


async def pending_approvals(link: GatewayLink) -> list[Approval]:
    """Return the pending approvals, at most one page of them. Raises Trouble."""
    return await link.list(LIST_APPROVALS.at(), Approval, {"state": "pending"}, PAGE_MAX)


async def left_to_others(link: GatewayLink, approvals: Sequence[Approval]) -> frozenset[str]:
    """Return the ids of the pending approvals among `approvals` that do not wait for this person: they have voted, or
    their vote would not count. With them are the ids of the tasks and sessions that have none but such. Raises
    Trouble."""
    pending = [one for one in approvals if one.state == "pending"]
    if not any(one.votes or not one.self_approval for one in pending):
        return frozenset()
    me = await link.read(WHOAMI.at(), Whoami)
    others, own = set[str](), set[str]()
    for one in pending:
        concerned = own if is_up_to(one, me.principal, me.driver) else others
        concerned.update(id_ for id_ in (one.id, one.session_id, one.command_id) if id_ is not None)
    return frozenset(others - own)
