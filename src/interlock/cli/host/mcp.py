"""`interlock mcp`: serve tools for a model that commands agents and never approves, on standard input and output
(O-8)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link import trust
from interlock.cli.link.gateway_link import locate, renewed_key
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.extras import install
from interlock.protocol.problems import full_sentence

if TYPE_CHECKING:
    from interlock.doors.mcp.tools import GatewayTools


def mcp(*, where: Here = NOWHERE) -> int:
    """Serve a model's program that speaks MCP, on standard input and output. No tool decides an approval."""
    try:
        from interlock.doors.mcp.server import serve_stdio
    except ModuleNotFoundError as error:
        raise usage(f"The MCP library is not installed ({error.name}).", f"Install it: {install('mcp')}") from None
    asyncio.run(serve_stdio(lambda: _tools(where)))
    return ExitStatus.DONE


def _tools(where: Where) -> GatewayTools:
    """Connect to the gateway as every verb does. Raises ValueError with a sentence."""
    from interlock.doors.mcp.tools import GatewayTools
    from interlock.sdk import AsyncInterlock

    try:
        address = locate(where)
        tls = trust.tls(address.url, where.directory(), address.ca)
        client = AsyncInterlock(address.url, renewed_key(address, where), in_clear=True, tls=tls or True)
        return GatewayTools(client, address.url)
    except Trouble as trouble:
        raise ValueError(f"{full_sentence(trouble.sentence)} {trouble.remedy}".strip()) from None
