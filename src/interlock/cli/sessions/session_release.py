"""`interlock sessions release`: hand control of a session to another gateway (D-5)."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.terminal import result, say
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.options import SessionNamed
from interlock.cli.verb_answer import print_value
from interlock.cli.verb_error import Trouble
from interlock.protocol.resources import Session
from interlock.sdk.requests import sessions

RELEASE_TIMEOUT_S = 10.0
"""The runner hands over after the input that the session is processing, which takes no longer while the runner is
connected."""
POLL_S = 0.2


def release(
    session: SessionNamed,
    /,
    *,
    to: Annotated[str, Parameter(help="Id of the gateway that shall control it, as shown by `interlock doctor` "
                                      "there.")],
    json: Annotated[bool, Parameter(help="Print the session as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Hand control of a session to another gateway of its runner; this one observes it from then on."""
    async def hand_over(link: GatewayLink) -> Session:
        named = await short_ids.session(link, session)
        after = await link.ask(sessions.release(named.session_id, to))
        until = time.monotonic() + RELEASE_TIMEOUT_S
        while after.controller != to:
            if time.monotonic() > until:
                raise Trouble("Timeout", f"The runner has not handed {named.session_id} to gateway {to}.",
                              "It does so only for a gateway that it is attached to; without it being online it waits. "
                              f"Look at it with: interlock sessions {named.session_id}")
            await asyncio.sleep(POLL_S)
            after = await link.ask(sessions.show(named.session_id))
        return after

    def show(after: Session) -> None:
        result(after.session_id)
        say(f"gateway {to} controls it now; questions that wait are asked there again")

    return print_value(ask_gateway(where, hand_over, plain=False), show, json=json)
