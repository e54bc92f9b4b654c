"""The requester of a request and where it would run, on every surface in the same order (H-4)."""

from __future__ import annotations

from interlock.command.card.text import one_line
from interlock.protocol.box import phrase as phrase_box
from interlock.protocol.hold import phrase
from interlock.protocol.resources import Approval

NAME_CHARS = 120
PATH_CHARS = 4_096
BOX_CHARS = 600


def names(approval: Approval) -> list[str]:
    """Return the person, the agent, the tool, the host with its directory, how the agent is held, and its box (H-18);
    each on one line."""
    asker = f"{approval.requested_by.type} {approval.requested_by.id}" if approval.requested_by else "the agent"
    found = [one_line(asker, NAME_CHARS)]
    if approval.agent_id:
        found.append(f"agent {one_line(approval.agent_id, NAME_CHARS)}")
    if approval.tool_name and approval.tool_name != approval.agent_id:
        found.append(f"tool {one_line(approval.tool_name, NAME_CHARS)}")
    if approval.verb is None or approval.runner_id:
        where = one_line(approval.workspace or "(its first root)", PATH_CHARS)
        found.append(f"{one_line(approval.runner_id or 'a runner', NAME_CHARS)}:{where}")
    if approval.holding is not None:
        found.append(f"held: {one_line(phrase(approval.holding), NAME_CHARS)}")
    if approval.box is not None and approval.verb is None and approval.budget is None:
        found.append(one_line(phrase_box(approval.box), BOX_CHARS))
    return found
