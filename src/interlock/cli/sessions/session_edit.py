"""`interlock sessions edit`: edit the view of an agent's sessions in an editor, and apply the changes through the API
(N-1)."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.progress import suspended
from interlock.cli.display.terminal import is_terminal, one_line, print_json, print_sentence, say
from interlock.cli.exit_status import ExitStatus
from interlock.cli.link.gateway_link import LIST_MAX, GatewayLink
from interlock.cli.options import Json
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.api.session_entries import ARCHIVE_SESSION, PATCH_SESSION
from interlock.protocol.api.sessions import LIST_SESSIONS
from interlock.protocol.resources import Session
from interlock.session.store.entry import is_known
from interlock.session.store.store_view import (
    BadView,
    Differences,
    EntryEdit,
    View,
    differences,
    read_view,
    view_of,
    written,
)

AT_WORK = ("running", "paused", "waiting_approval")
"""States of a session in which deleting its entry is refused, since that would end its work."""
NAME = "sessions.json"


def edit(agent: Annotated[str | None, Parameter(name="AGENT", help="The agent (default: the only one "
                                                                   "with sessions).")] = None, /, *,
         json: Json = False, where: Here = NOWHERE) -> int:
    """Edit what an agent's sessions carry, all at once, in $VISUAL or $EDITOR.

    Only what you changed is taken, field by field; deleting an entry archives its session.
    """
    editor = _editor()
    return asyncio.run(_edit(GatewayLink(where), agent, editor, json=json))


def _editor() -> list[str]:
    named = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not named and not (is_terminal(sys.stdin) and is_terminal(sys.stdout)):
        raise usage("There is no terminal here to edit in.", "Name a program that changes the file in $EDITOR.")
    named = named or "vi"
    words = shlex.split(named)
    if not words or shutil.which(words[0]) is None:
        raise usage(f"There is no editor {one_line(named)!r}.", "Name one in $EDITOR.")
    return words


async def _edit(link: GatewayLink, agent: str | None, editor: list[str], *, json: bool) -> int:
    async with link:
        sessions = await link.list(LIST_SESSIONS.at(), Session)
        if len(sessions) >= LIST_MAX:
            say(f"only the {LIST_MAX} sessions that changed last are shown; those that are not shown stay", "bold",
                "only")
        agent_id = _agent(agent, sessions)
        before = view_of(sessions, agent_id)
        draft = Path(tempfile.mkdtemp(prefix="interlock-")) / NAME  # 0700: labels and names are private to this user.
        text = b"".join(written(before.items()))
        draft.write_bytes(text)
        with suspended():
            done = await asyncio.to_thread(subprocess.run, [*editor, str(draft)], check=False)
        if done.returncode:
            raise Trouble("Failed", f"{editor[0]} ended with status {done.returncode}, so nothing was changed.",
                          f"Your text is in {draft}.")
        found = _differences(before, draft)
        taken, refused = await _apply(link, agent_id, found)
    if refused and draft.read_bytes() != text:
        say(f"your text is kept in {draft}", "dim")
    else:
        shutil.rmtree(draft.parent)
    if json:
        print_json(msgspec.json.encode({"agent_id": agent_id, "changed": taken, "refused": refused}))
    else:
        for line in taken:
            print_sentence(line)
        if not taken and not refused:
            say("nothing was changed", "dim")
        for sentence in refused:
            say(f"not taken: {one_line(sentence)}", "red", "not taken:")
    return ExitStatus.FAILED if refused else ExitStatus.DONE


def _agent(named: str | None, sessions: list[Session]) -> str:
    known = sorted({one.agent_id for one in sessions})
    remedy = f"Known: {', '.join(known) or 'none'}."
    if named is not None and named not in known:
        raise Trouble("NotFound", f"No agent {one_line(named)!r} has sessions.", remedy)
    if named is None and len(known) != 1:
        raise usage(f"{len(known)} agents have sessions, so say whose you mean.", remedy)
    return named or known[0]


def _differences(before: View, draft: Path) -> Differences:
    try:
        return differences(before, read_view(draft.read_bytes()))
    except BadView as bad:
        raise usage(f"Nothing was changed: your text cannot be read: {bad}.", f"It is in {draft}.") from None
    except OSError as error:
        raise usage(f"Nothing was changed: {draft} cannot be read: {error.strerror}.") from None


async def _apply(link: GatewayLink, agent_id: str, found: Differences) -> tuple[list[str], list[str]]:
    """Apply each edit to the current session of its key; returns the applied edits and the refused ones. A refusal does
    not prevent the others."""
    taken: list[str] = []
    refused = [*found.refused]
    if not found.edits:
        return taken, refused
    sessions = await link.list(LIST_SESSIONS.at(), Session)
    view = view_of(sessions, agent_id)
    states = {one.session_id: one.state for one in sessions}
    for edit in found.edits:
        session_id = view.get(edit.key, {}).get("sessionId")
        if session_id is None or (edit.deleted and session_id != edit.session_id):
            refused.append(f"{edit.key}: Its key has gone on to another session since.")
        elif edit.deleted and states[session_id] in AT_WORK:
            refused.append(f"{edit.key}: It has work under way, so it stays.")
        else:
            try:
                await _send(link, session_id, edit)
            except Trouble as trouble:
                refused.append(f"{edit.key}: {trouble.sentence}")
                continue
            taken.append(f"{edit.key}: {'archived' if edit.deleted else ', '.join(edit.wanted)}")
    return taken, refused


async def _send(link: GatewayLink, session_id: str, edit: EntryEdit) -> None:
    if edit.deleted:
        await link.send(ARCHIVE_SESSION.at(session_id), {"reason": "its entry was deleted"})
        return
    body: dict[str, Any] = {name: value for name, value in edit.wanted.items() if is_known(name)}
    others = {name: value for name, value in edit.wanted.items() if not is_known(name)}
    await link.send(PATCH_SESSION.at(session_id), {**body, **({"unknownFields": others} if others else {})},
                    method="PATCH")
