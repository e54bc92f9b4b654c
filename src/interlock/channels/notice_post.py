"""One POST of a notice, to an address that a config or a client names. No attempt is repeated here."""

from __future__ import annotations

from collections.abc import Mapping

from interlock.ports.channel import NotAsked
from interlock.ports.outbound_http import OutboundResponse, Outgoing, Unreached, UrlRefused

TIMEOUT_S = 10.0
REPLY_BYTES = 65_536
"""The reply is not read; a longer one counts as a failure."""
GONE = 410
"""The receiver refuses further messages: there is no retry."""


async def post(outgoing: Outgoing, url: str, headers: Mapping[str, str], body: bytes) -> OutboundResponse:
    """Send one POST, and return the response whatever its status. Raises NotAsked if there is none."""
    try:
        return await outgoing.send("POST", url, headers=headers, body=body, max_bytes=REPLY_BYTES, timeout_s=TIMEOUT_S)
    except UrlRefused as refused:
        raise NotAsked(str(refused), final=True) from None
    except Unreached as unreached:
        raise NotAsked(str(unreached)) from None


async def post_webhook(outgoing: Outgoing, url: str, headers: Mapping[str, str], body: bytes) -> None:
    """Send one POST according to Standard Webhooks. Raises NotAsked unless the receiver accepts it."""
    reply = await post(outgoing, url, headers, body)
    if not 200 <= reply.status < 300:
        raise NotAsked(f"the receiver answered with status {reply.status}", final=reply.status == GONE)
