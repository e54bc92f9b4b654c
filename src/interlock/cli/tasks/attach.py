"""`interlock attach`: follow a command again, from the last event that this terminal showed (G-4)."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.approvals.approval_prompt import Answering, check_may_vote
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.terminal import say
from interlock.cli.link.gateway_link import GatewayLink
from interlock.cli.tasks.cursors import Cursors, ShownCursor
from interlock.cli.tasks.run import CommandRun
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.commands import GET_COMMAND, LIST_COMMANDS
from interlock.protocol.resources import Command


def attach(
    target: str = short_ids.LAST,
    /,
    *,
    from_start: Annotated[bool, Parameter(help="Show it from the start.")] = False,
    yes: Annotated[bool, Parameter(help="Allow every tool call of this task.")] = False,
    no_input: Annotated[bool, Parameter(help="Do not prompt here.")] = False,
    full: Annotated[bool, Parameter(help="Show the whole output of tools, not only its first lines.")] = False,
    json: Annotated[bool, Parameter(help="Print the ended task as one JSON document.")] = False,
    jsonl: Annotated[bool, Parameter(help="Print every event as a line of JSON.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Follow a task again, from where this terminal left off.

    Parameters
    ----------
    target
        A task's or session's id, a unique beginning of it, a session's key, or @last (default).
    """
    if json and jsonl:
        raise usage("--json and --jsonl exclude each other.", "Give one of them.")
    how: Answering = "yes" if yes else "elsewhere" if no_input else "ask"
    running = CommandRun(where, how, json=json, jsonl=jsonl, full=full)
    cursors = Cursors(where.directory())

    async def follow() -> int:
        async with GatewayLink(where) as link:
            if yes:
                await check_may_vote(link)
            command = await _command_of(link, target)
            place = None if from_start else cursors.command(command.id)
            say(f"{command.id} · session {command.target.session_id}", "dim")
            if place is not None and place.phase == "after":
                say("all of it was shown; see it again with --from-start", "dim")
            return await running.follow(link, command, place or ShownCursor())

    return running.drive(follow())


async def _command_of(link: GatewayLink, text: str) -> Command:
    """Return the command of that name, or the newest of the session of that name."""
    try:
        return await _execute(link, await short_ids.command(link, text))
    except Trouble as trouble:
        if trouble.code != "NotFound" or text == short_ids.LAST:
            raise
    try:
        session = await short_ids.session(link, text)
    except Trouble as trouble:
        if trouble.code != "NotFound":
            raise
        raise Trouble("NotFound", f"There is no task or session {short_ids.quoted(text)}.",
                      "List them with: interlock tasks, interlock sessions") from None
    found = [one for one in await link.list(LIST_COMMANDS.at(), Command, {"session": session.session_id})
             if one.type == "execute"]
    if not found:
        raise Trouble("NotFound", f"Session {session.session_id} has had no task.",
                      "Give it one with: interlock run")
    return max(found, key=lambda one: one.created_at)


async def _execute(link: GatewayLink, command: Command) -> Command:
    """Return the command to follow: the target of a cancel."""
    if command.type != "execute" and command.target.command_id is not None:
        return await link.read(GET_COMMAND.at(command.target.command_id), Command)
    return command
