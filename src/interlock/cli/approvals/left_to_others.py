"""What does not wait for the person at this terminal: pending approvals with their vote, and the tasks and sessions
that wait for these alone (G-7, P-3)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

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


class LeftToOthers(NamedTuple):
    """Ids of what waits for other people than the one at this terminal."""

    approvals: frozenset[str] = frozenset()
    tasks: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()


NOTHING_LEFT = LeftToOthers()


async def left_to_others(link: GatewayLink, approvals: Sequence[Approval]) -> LeftToOthers:
    """Return the pending approvals among `approvals` that do not wait for this person (they have voted, or their vote
    would not count), and the tasks and sessions that have none but such. Raises Trouble."""
    pending = [one for one in approvals if one.state == "pending"]
    if not any(one.votes or not one.self_approval for one in pending):
        return NOTHING_LEFT
    me = await link.read(WHOAMI.at(), Whoami)
    others, own = (_concerned([one for one in pending if is_up_to(one, me.principal, me.driver) is up_to_me])
                   for up_to_me in (False, True))
    return LeftToOthers(*(theirs - mine for theirs, mine in zip(others, own, strict=True)))


def _concerned(approvals: Sequence[Approval]) -> LeftToOthers:
    """Return the ids of these approvals, and of their tasks and sessions."""
    return LeftToOthers(
        frozenset(one.id for one in approvals),
        frozenset(one.command_id for one in approvals if one.command_id is not None),
        frozenset(one.session_id for one in approvals))
