"""`interlock pause`, `resume`, `drain` and `undrain`: work that is paused or not started (C-5, C-6)."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.drain_line import drained
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.options import Json
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import print_json, print_sentence, say
from interlock.cli.verb_answer import print_answer
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.answers import DrainList
from interlock.protocol.api.commands import GET_COMMAND, GET_STATUS, SUBMIT_COMMAND
from interlock.protocol.drains import DrainScope
from interlock.protocol.resources import Command
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import gateway

OBEYED_S = 10
"""How long the verb waits at most until an agent has paused or continued."""
Reason = Annotated[str | None, Parameter(help="Kept with it.")]


def pause(
    id_: Annotated[str, Parameter(name="ID", help="A task: an id, a unique beginning, or @last.")] = short_ids.LAST,
    /,
    *,
    reason: Reason = None,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Pause a running command."""
    return asyncio.run(_order("pause", id_, reason, where, json=json))


def resume(
    id_: Annotated[str, Parameter(name="ID", help="A task: an id, a unique beginning, or @last.")] = short_ids.LAST,
    /,
    *,
    reason: Reason = None,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Let a paused task continue."""
    return asyncio.run(_order("resume", id_, reason, where, json=json))


def drain(
    scope: Annotated[DrainScope, Parameter(help="What starts nothing new.")] = "gateway",
    id_: Annotated[str | None, Parameter(name="ID", help="The runner, agent or session.")] = None,
    /,
    *,
    reason: Reason = None,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Let what runs finish, and start nothing new until `interlock undrain`."""
    return _drain("drain", scope, id_, reason, where, json=json)


def undrain(
    scope: Annotated[DrainScope, Parameter(help="What may start again.")] = "gateway",
    id_: Annotated[str | None, Parameter(name="ID", help="The runner, agent or session.")] = None,
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Start again what waits since `interlock drain`."""
    return _drain("undrain", scope, id_, None, where, json=json)


async def _order(kind: str, text: str, reason: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        about = await short_ids.live_command(link, text)
        body = {"type": kind, "target": {"command_id": about.id}, **({"reason": reason} if reason else {})}
        order = decoded(await link.send(SUBMIT_COMMAND.at(), body), Command, SUBMIT_COMMAND.at())
        order = await _ended(link, order)
        about = await link.read(GET_COMMAND.at(about.id), Command)
    if json:
        print_json(msgspec.json.encode({"order": order, "command": about}))
    if order.error is not None:
        raise Trouble(order.error.code, f"{about.id} was not {kind}d: {order.error.message}",
                      f"Look at it with: interlock tasks {about.id}")
    if not json:
        late = " · it stands at its agent's next step" if about.state == "pausing" else ""
        print_sentence(f"{about.id} is {about.state}{late}")
        if about.state == "paused":
            say(f"continue with: interlock resume {about.id}", "dim")
    return ExitStatus.DONE


async def _ended(link: GatewayLink, order: Command) -> Command:
    """The order as it ends, or as it is when nothing more is waited for."""
    path, until = GET_COMMAND.at(order.id), time.monotonic() + OBEYED_S
    asked: dict[str, str] = {}
    while order.ended_at is None and (left_s := int(until - time.monotonic())) > 0:
        page = await link.read(GET_STATUS.at(order.id), dict[str, Any], {**asked, "wait": str(left_s)})
        asked = {"since": page["next_cursor"]}
        order = await link.read(path, Command)
    return order


def _drain(verb: str, scope: DrainScope, id_: str | None, reason: str | None, where: Where, *, json: bool) -> int:
    if (scope == "gateway") != (id_ is None):
        raise usage(f"{verb} {scope} " + ("needs the id of one." if id_ is None else "takes no id."),
                    f"Write: interlock {verb} {scope}" + ("" if scope == "gateway" else " ID"))

    async def request(link: GatewayLink) -> RequestSpec[DrainList]:
        whole = (await short_ids.session(link, id_)).session_id if scope == "session" and id_ is not None else id_
        return (gateway.drain(scope, id=whole, reason=reason or None) if verb == "drain"
                else gateway.undrain(scope, id=whole))

    def show(answer: DrainList) -> None:
        for one in answer.drains:
            print_sentence(drained(one))
        if not answer.drains:
            print_sentence("nothing is drained")

    return print_answer(where, request, show, json=json)
