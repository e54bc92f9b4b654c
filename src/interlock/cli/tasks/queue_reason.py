"""Why a queued task waits, in a sentence (Y-6)."""

from __future__ import annotations

import asyncio
from typing import get_args

from interlock.cli.exit_status import BY_STATE
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.operations.drain_line import drained
from interlock.protocol.api.commands import LIST_COMMANDS
from interlock.protocol.api.gateway import GET_STATUS_OF_GATEWAY, LIST_NODES
from interlock.protocol.resources import Command, CommandState
from interlock.sdk.requests.base import read

_AT_WORK = [state for state in get_args(CommandState) if state not in BY_STATE
            and state not in ("queued", "pending_approval")]
"""The states of a session's active task; its other tasks wait for that one."""


async def queue_reason(link: GatewayLink, command: Command) -> str | None:
    """Return what a queued command waits for: the task before it in its session, a drain, or its runner; None if it is
    about to start. Raises Trouble."""
    session = command.target.session_id or ""
    at_work = await asyncio.gather(*(
        link.list(LIST_COMMANDS.at(), Command, {"session": session, "state": state}, 2) for state in _AT_WORK))
    before = next((one for some in at_work for one in some if one.type == "execute" and one.id != command.id), None)
    if before is not None:
        return f"queued behind {before.id}, which is {before.state.replace('_', ' ')}"
    concerned = (None, session, command.target.runner_id, command.target.agent_id)
    drains = (await link.ask(read(GET_STATUS_OF_GATEWAY))).drains
    drain = next((one for one in drains if one.id in concerned), None)
    if drain is not None:
        return f"queued: {drained(drain)}"
    nodes = (await link.ask(read(LIST_NODES))).nodes
    away = next((node for node in nodes if node.node_id == command.target.runner_id and node.status == "offline"), None)
    return f"queued until runner {away.device_name} is online again" if away is not None else None
