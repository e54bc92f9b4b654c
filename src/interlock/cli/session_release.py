"""`interlock sessions release`: the gateway in control of a session hands it over to another (D-5)."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.options import SessionNamed
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import print_json, result, say
from interlock.cli.verb_error import Trouble
from interlock.protocol.api.sessions import GET_SESSION, RELEASE_SESSION
from interlock.protocol.resources import Session

PATIENCE_S = 10.0
"""The runner hands over behind what the session acts on at the moment, which takes no longer while it is there."""
POLL_S = 0.2


def release(
    session: SessionNamed,
    /,
    *,
    to: Annotated[str, Parameter(help="Id of the gateway that is to control it, as `interlock doctor` shows there.")],
    json: Annotated[bool, Parameter(help="Print the session as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Hand control of a session to another gateway of its runner; this one observes it from then on."""
    return asyncio.run(_release(session, to, where, json=json))


async def _release(named: str, to: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        session = await short_ids.session(link, named)
        path = RELEASE_SESSION.at(session.session_id)
        after = decoded(await link.send(path, {"to": to}), Session, path)
        until = time.monotonic() + PATIENCE_S
        while after.controller != to:
            if time.monotonic() > until:
                raise Trouble("Timeout", f"The runner has not handed {session.session_id} to gateway {to}.",
                              "It does so only for a gateway that it is attached to; without it being online it waits. "
                              f"Look at it with: interlock sessions {session.session_id}")
            await asyncio.sleep(POLL_S)
            after = await link.read(GET_SESSION.at(session.session_id), Session)
    if json:
        print_json(msgspec.json.encode(after))
        return ExitStatus.DONE
    result(after.session_id)
    say(f"gateway {to} controls it now; questions that wait are asked there again")
    return ExitStatus.DONE
