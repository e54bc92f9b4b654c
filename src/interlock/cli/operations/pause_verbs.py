"""`interlock pause`, `resume`, `drain` and `undrain`: pause work, or do not start it (C-5, C-6)."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.terminal import print_sentence, say
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway
from interlock.cli.operations.drain_line import drained
from interlock.cli.options import Json
from interlock.cli.verb_answer import print_answer, print_value
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.answers import DrainList
from interlock.protocol.drains import DrainScope
from interlock.protocol.resources import Command
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import commands, gateway

OBEYED_S = 10
"""Maximum time that the verb waits for an agent to pause or continue."""
Reason = Annotated[str | None, Parameter(help="A comment, stored with the answer.")]


def pause(
    id_: Annotated[str, Parameter(name="ID", help="A task: an id, a unique beginning, or @last (default).")] = \
        short_ids.LAST,
    /,
    *,
    reason: Reason = None,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Pause a running command."""
    return _order("pause", id_, reason, where, json=json)


def resume(
    id_: Annotated[str, Parameter(name="ID", help="A task: an id, a unique beginning, or @last (default).")] = \
        short_ids.LAST,
    /,
    *,
    reason: Reason = None,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Resume a paused task."""
    return _order("resume", id_, reason, where, json=json)


def drain(
    scope: Annotated[DrainScope, Parameter(help="The runner, agent or session that shall start nothing "
                                                "new (default: gateway, all of them).")] = "gateway",
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
    scope: Annotated[DrainScope, Parameter(help="The runner, agent or session that may start work again (default: "
                                                 "gateway, all of them).")] = "gateway",
    id_: Annotated[str | None, Parameter(name="ID", help="The runner, agent or session.")] = None,
    /,
    *,
    json: Json = False,
    where: Here = NOWHERE,
) -> int:
    """Start again what waits since `interlock drain`."""
    return _drain("undrain", scope, id_, None, where, json=json)


class _Obeyed(msgspec.Struct):
    """The control command in its state after at most `OBEYED_S`, and the command that it is about."""

    order: Command
    command: Command


def _order(kind: Literal["pause", "resume"], text: str, reason: str | None, where: Where, *, json: bool) -> int:
    async def send(link: GatewayLink) -> _Obeyed:
        about = await short_ids.live_command(link, text)
        request = commands.pause if kind == "pause" else commands.resume
        order = await _ended(link, await link.ask(request(about.id, reason=reason or None)))
        return _Obeyed(order, await link.ask(commands.show(about.id)))

    def show(after: _Obeyed) -> None:
        if after.order.error is not None:
            return
        late = " · it pauses at its agent's next step" if after.command.state == "pausing" else ""
        print_sentence(f"{after.command.id} is {after.command.state}{late}")
        if after.command.state == "paused":
            say(f"continue with: interlock resume {after.command.id}", "dim")

    after = ask_gateway(where, send)
    status = print_value(after, show, json=json)
    if (error := after.order.error) is not None:
        raise Trouble(error.code, f"{after.command.id} was not {kind}d: {error.message}",
                      f"Look at it with: interlock tasks {after.command.id}")
    return status


async def _ended(link: GatewayLink, order: Command) -> Command:
    """Return the control command as it ended, or as it is when the wait ends."""
    until = time.monotonic() + OBEYED_S
    cursor: str | None = None
    while order.ended_at is None and (left_s := int(until - time.monotonic())) > 0:
        cursor = (await link.ask(commands.status(order.id, since=cursor, wait=left_s))).next_cursor
        order = await link.ask(commands.show(order.id))
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
