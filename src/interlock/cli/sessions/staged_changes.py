"""`interlock changes`, `land` and `discard`: staged changes of an agent, and their outcome (H-17)."""

from __future__ import annotations

import asyncio
import time
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli import short_ids
from interlock.cli.approvals.decide import Yes, decide
from interlock.cli.config.place import NOWHERE, Here, Where
from interlock.cli.display.columns import Layout, cut_middle
from interlock.cli.display.terminal import one_line, print_table, result, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import GatewayLink, ask_gateway, decoded
from interlock.cli.options import LatestSession, SessionNamed
from interlock.cli.verb_answer import VerbAnswer, answered, print_answer
from interlock.cli.verb_error import Trouble, usage
from interlock.command.card.landing_request import UNASKED_LATER
from interlock.command.card.permission_request import lines_of_approval
from interlock.command.staged_choice import chosen_input
from interlock.protocol.answers import StagedChanges
from interlock.protocol.api.approvals import GET_APPROVAL
from interlock.protocol.api.commands import GET_COMMAND, SUBMIT_COMMAND
from interlock.protocol.api.session_entries import GET_STAGED_CHANGES
from interlock.protocol.payloads import StagedFile
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Approval, Command, Session
from interlock.sdk.requests import sessions
from interlock.sdk.requests.base import read

COLUMNS = Layout(text=("PATH", "NOTE"), extra=("SHA256", "MODE"), drop=("BYTES",), shorten=cut_middle)
DIGEST_CHARS = 12
QUESTION_S = 60.0
"""Maximum time until the question of a repeated landing is asked; it includes the agent's start."""
LOOK_S = 0.3


def changes(
    session: LatestSession = short_ids.LAST,
    /,
    *,
    diff: Annotated[bool, Parameter(help="Show the pending question, with its diffs.")] = False,
    json: Annotated[bool, Parameter(help="Print it as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """List what a session's agent staged and what has not landed."""
    async def find(link: GatewayLink) -> tuple[VerbAnswer[StagedChanges], Approval | None]:
        answer = await answered(link, await short_ids.of_session(session, sessions.changes)(link))
        waits = answer.value().approval_id if diff and not json else None
        return answer, await link.ask(read(GET_APPROVAL, waits)) if waits is not None else None

    answer, question = ask_gateway(where, find)
    return answer.print(lambda found: _show(found, question), json=json)


def land(
    session: SessionNamed,
    /,
    *files: str,
    comment: Annotated[str | None, Parameter(help="A comment, stored with the vote.")] = None,
    yes: Yes = False,
    json: Annotated[bool, Parameter(help="Print the approval as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Allow what is staged to land in the workspace: all of it, or the named files. It is a vote like `approve`.

    If no question waits, as after a turn that failed, it is asked again first.

    Parameters
    ----------
    files
        Paths in the workspace, each with everything below it (default: all).
    """
    return asyncio.run(_land(session, files, comment, where, yes=yes, json=json))


def discard(
    session: SessionNamed,
    /,
    *files: str,
    yes: Annotated[bool, Parameter(name="--yes", negative=(), help="Discard everything, without naming "
                                                                   "files.")] = False,
    json: Annotated[bool, Parameter(help="Print the session as one JSON document.")] = False,
    where: Here = NOWHERE,
) -> int:
    """Throw away what is staged: the named files, or, with --yes, all of it. The agent's process is ended first.

    Parameters
    ----------
    files
        Paths in the workspace, each with everything below it.
    """
    if not files and not yes:
        raise usage("Nothing is named.", "Name files, or throw all away with --yes.")
    def show(after: Session) -> None:
        result(after.session_id)
        say(f"asked the runner to throw {'these files' if files else 'all staged changes'} away; see what is left: "
            f"interlock changes {after.session_id}")

    named = [name.removeprefix("./") for name in files] or None
    return print_answer(where, short_ids.of_session(session, lambda id_: sessions.discard(id_, named)), show, json=json)


def _show(found: StagedChanges, question: Approval | None) -> None:
    if not found.count and not found.refused:
        say(f"nothing is staged in session {found.session_id}")
        return
    rows = [(file.change, file.path, "" if file.change == "deleted" else str(file.size), file.mode,
             file.sha256[:DIGEST_CHARS], _note(file)) for file in found.files]
    rows += [("never", file.path, "", "", "", file.why or "") for file in found.refused]
    print_table(rows, ("CHANGE", "PATH", "BYTES", "MODE", "SHA256", "NOTE"), COLUMNS)
    if found.count > len(found.files):
        say(f"and {found.count - len(found.files)} more; sha256 {found.digest} covers all")
    if found.approval_id is None:
        say(f"not asked about now; to have it asked about: interlock land {found.session_id}")
        return
    for line in lines_of_approval(question) if question is not None else ():
        result(line.text)
    say(f"waits for a yes: interlock land {found.session_id} [FILES]", "bold", "waits for a yes:")


def _note(file: StagedFile) -> str:
    """Return why a change does not land, or what a tool does with it later without asking."""
    later = f"{UNASKED_LATER}: {file.unasked}" if file.unasked else ""
    return one_line("; ".join(note for note in (file.why or "", later) if note))


async def _land(named: str, files: tuple[str, ...], comment: str | None, where: Where, *, yes: bool, json: bool) -> int:
    async with GatewayLink(where) as link:
        session = await short_ids.session(link, named)
        found = await link.read(GET_STAGED_CHANGES.at(session.session_id), StagedChanges)
        if found.approval_id is None:
            found = await _asked(link, session.session_id, found)
        if found.approval_id is None:
            say(f"nothing waits for a yes; see what is left: interlock changes {session.session_id}")
            return ExitStatus.DONE
        more: dict[str, Any] = {}
        if files:
            approval = await link.read(GET_APPROVAL.at(found.approval_id), Approval)
            try:
                more = {"updated_input": msgspec.json.decode(chosen_input(approval, files))}
            except Problem as problem:
                raise usage(problem.detail, problem.hint or "") from None
    return await decide((found.approval_id,), "grant", comment, where, more, sign=False, yes=yes, json=json)


async def _asked(link: GatewayLink, session_id: str, found: StagedChanges) -> StagedChanges:
    """Have the runner ask whether the staged changes land; returns them with the question, or without one if the
    command ended first, as when a rule lets them land. Raises Trouble."""
    if not found.count:
        raise Trouble("Conflict", f"Nothing is staged in session {session_id}.", "See it with: interlock changes "
                      f"{session_id}")
    body: dict[str, Any] = {"type": "execute", "target": {"session_id": session_id},
                            "payload": {"messages": [], "land": True}}
    command = decoded(await link.send(SUBMIT_COMMAND.at(), body), Command, SUBMIT_COMMAND.at())
    say("the question is asked again; the agent starts, but gets no prompt", "dim")
    end = time.monotonic() + QUESTION_S
    while not command.ended_at:
        found = await link.read(GET_STAGED_CHANGES.at(session_id), StagedChanges)
        if found.approval_id is not None:
            return found
        if time.monotonic() > end:
            raise Trouble("Timeout", f"The question did not come within {QUESTION_S:g} s.",
                          f"Follow it with: interlock attach {command.id}")
        await asyncio.sleep(LOOK_S)
        command = await link.read(GET_COMMAND.at(command.id), Command)
    if command.error is not None:
        raise Trouble(command.error.code, command.error.message, "The changes stay staged. See them with: interlock "
                      f"changes {session_id}")
    return await link.read(GET_STAGED_CHANGES.at(session_id), StagedChanges)
