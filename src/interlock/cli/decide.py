"""`interlock approve`, `deny` and `cancel`: decisions, each said with what became of it."""

from __future__ import annotations

import asyncio
from typing import Annotated

import msgspec
from cyclopts import Parameter

from interlock.cli import naming
from interlock.cli.asking import card, decided, vote
from interlock.cli.exit_status import Exit
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import print_json, result, say
from interlock.cli.trouble import Trouble, usage
from interlock.protocol.resources import Approval, Command, Decision


def approve(
    *ids: str,
    comment: Annotated[str | None, Parameter(help="Kept with the vote.")] = None,
    json: Annotated[bool, Parameter(help="Print the approvals as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Allow what waits for a yes.

    Parameters
    ----------
    ids
        Approvals: ids, unique beginnings of them, or @last (the newest that is pending).
    """
    return asyncio.run(_decide(_some(ids, "approval"), "grant", comment, where, json=json))


def deny(
    *ids: str,
    comment: Annotated[str | None, Parameter(name=("--reason", "--comment"), help="Why not; whoever asked is told.")]
    = None,
    json: Annotated[bool, Parameter(help="Print the approvals as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Refuse what waits for a yes.

    Parameters
    ----------
    ids
        Approvals: ids, unique beginnings of them, or @last (the newest that is pending).
    """
    return asyncio.run(_decide(_some(ids, "approval"), "deny", comment, where, json=json))


def cancel(
    *ids: str,
    reason: Annotated[str | None, Parameter(help="Kept with the command.")] = None,
    json: Annotated[bool, Parameter(help="Print the cancels as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """End commands.

    Parameters
    ----------
    ids
        Commands: ids, unique beginnings of them, or @last (the newest that has not ended).
    """
    return asyncio.run(_cancel(_some(ids, "command"), reason, where, json=json))


def _some(ids: tuple[str, ...], noun: str) -> tuple[str, ...]:
    # Nothing is decided or ended that was not named.
    if not ids:
        raise usage(f"No {noun} is named.", f"Name one by its id, or the newest with {naming.LAST}: "
                    f"interlock {noun}s lists them.")
    return tuple(dict.fromkeys(ids))


async def _decide(ids: tuple[str, ...], decision: Decision, comment: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        # All are found before any is decided: a mistyped id decides nothing.
        found = [await naming.approval(link, text) for text in ids]
        after: list[Approval] = []
        for approval in found:
            if approval.state != "pending":
                raise Trouble("Conflict", f"It is too late: {decided(approval)}.",
                              f"Look at it with: interlock approvals {approval.id}")
            say(card(approval))
            after.append(await vote(link, approval, decision, comment))
            if not json:
                result(_said(after[-1]))
        if json:
            print_json(msgspec.json.encode({"approvals": after}))
    return Exit.DONE


def _said(approval: Approval) -> str:
    if approval.state != "pending":
        return decided(approval)
    grants = sum(1 for one in approval.votes if one.decision == "grant")
    return f"approval {approval.id}: your vote counts, {grants} of {approval.required} needed"


async def _cancel(ids: tuple[str, ...], reason: str | None, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        found = [await naming.live_command(link, text) for text in ids]
        after: list[Command] = []
        for command in found:
            target = {"command_id": command.id}
            body = {"type": "cancel", "target": target, **({"reason": reason} if reason else {})}
            after.append(decoded(await link.send("/v1/commands", body), Command, "/v1/commands"))
            if not json:
                now = await link.read(f"/v1/commands/{command.id}", Command)
                result(f"{command.id} is {now.state.replace('_', ' ')}")
        if json:
            print_json(msgspec.json.encode({"commands": after}))
    return Exit.DONE
