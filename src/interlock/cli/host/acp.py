"""`interlock acp`: an agent for editors that speak the Agent Client Protocol, on standard input and output (O-1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link import trust
from interlock.cli.link.gateway_link import locate, renewed_key
from interlock.cli.verb_error import Trouble, usage

if TYPE_CHECKING:
    from interlock.sdk import AsyncInterlock

RECONNECT_MAX_S = 24 * 3600.0
"""An editor stays open over a night; a gateway that returns within this time is followed again."""


def acp(
    agent: str | None = None,
    /,
    *,
    runner: Annotated[str | None, Parameter(help="The runner to use: its id, its name or a unique beginning.")] = None,
    on_exit: Annotated[Literal["detach", "cancel"], Parameter(
        help="When the editor ends: leave the agent's work running, or cancel it (default: detach, leave it).")] = \
        "detach",
    where: Here = NOWHERE,
) -> int:
    """Serve an editor over ACP, on standard input and output.

    Parameters
    ----------
    agent
        The agent of new sessions (default: the only agent of the runners).
    """
    from interlock.doors.acp.door import checked_agent

    try:
        checked_agent(agent)
    except ValueError as error:
        raise usage(str(error), "List the agents with: interlock agents") from None
    try:
        asyncio.run(_serve(where, agent, runner, on_exit))
    except ValueError as error:
        raise usage(f"{error}.", "Name it in the editor's settings; docs/how-to/editors.md shows where.") from None
    return ExitStatus.DONE


async def _serve(where: Where, agent: str | None, runner: str | None, on_exit: Literal["detach", "cancel"]) -> None:
    from interlock.doors.acp.door import AcpDoor
    from interlock.doors.acp.stdio import Stdio

    await AcpDoor(await Stdio.open(), lambda: _client(where), agent, runner, on_exit).run()


def _client(where: Where) -> AsyncInterlock:
    """Connect to the gateway as every verb does. Raises DoorError."""
    from interlock.doors.acp.door import AUTH_REQUIRED, DoorError
    from interlock.sdk import AsyncInterlock, RetryPolicy

    try:
        address = locate(where)
        tls = trust.tls(address.url, where.directory(), address.ca)
        return AsyncInterlock(address.url, renewed_key(address, where), in_clear=True, tls=tls or True,
                              retries=RetryPolicy(stream_give_up_s=RECONNECT_MAX_S))
    except Trouble as trouble:
        raise DoorError(AUTH_REQUIRED, f"{trouble.sentence} {trouble.remedy}".strip(), {"code": trouble.code}) from None
    except ValueError as error:
        raise DoorError(AUTH_REQUIRED, str(error)) from None
