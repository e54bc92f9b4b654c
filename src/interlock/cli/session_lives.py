"""`interlock sessions reset | set | history | archive | restore`: what a session's key carries (V-2)."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from interlock.cli import short_ids
from interlock.cli.columns import Layout
from interlock.cli.exit_status import ExitStatus
from interlock.cli.gateway_link import GatewayLink, decoded
from interlock.cli.options import Json, SessionNamed
from interlock.cli.place import NOWHERE, Here, Where
from interlock.cli.terminal import one_line, print_json, print_sentence, print_table
from interlock.cli.values import ago
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.answers import SessionHistory
from interlock.protocol.api.operation import Operation
from interlock.protocol.api.session_entries import (
    ARCHIVE_SESSION,
    LIST_SESSION_HISTORY,
    PATCH_SESSION,
    RESET_SESSION,
    RESTORE_SESSION,
)
from interlock.protocol.resources import Session
from interlock.session.entry import EDITABLE

COLUMNS = Layout(drop=("TOKENS", "BEGAN"))
SHORT = {"model": "modelOverride", "mode": "modeOverride", "thinking": "thinkingLevel", "reasoning": "reasoningLevel",
         "verbose": "verboseLevel", "send": "sendPolicy"}
"""What people say for some fields."""


def reset(session: SessionNamed, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """End a session's work, and begin a new one under its key; the old transcript stays."""
    return asyncio.run(_change(session, RESET_SESSION, "began", where, json=json))


def set_(session: SessionNamed, /, *fields: str, json: Json = False, where: Here = NOWHERE) -> int:
    """Set what a session's key carries: model, thinking, label, sendPolicy and more.

    Parameters
    ----------
    fields
        NAME=VALUE; NAME= clears it.
    """
    wanted = dict(_field(text) for text in fields)
    if not wanted:
        raise usage("Nothing is named to set.", f"Name one as NAME=VALUE; known: {', '.join(EDITABLE)}")
    return asyncio.run(_set(session, wanted, where, json=json))


def rename(session: SessionNamed, title: str, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Set a session's title, which lists and the console show in place of its first prompt.

    Parameters
    ----------
    title
        At most 500 characters on one line; "" goes back to the name of its chat or its first prompt.
    """
    return asyncio.run(_rename(session, title, where, json=json))


def archive(session: SessionNamed, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """End a session's work and put it away; it stays readable, and its key begins again."""
    return asyncio.run(_change(session, ARCHIVE_SESSION, "archived", where, json=json))


def restore(session: SessionNamed, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Take an archived session back."""
    return asyncio.run(_change(session, RESTORE_SESSION, "restored", where, json=json))


def history(session: str, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """List the sessions that a key has had, newest first.

    Parameters
    ----------
    session
        One of them: its id, a unique beginning of it, its key, or @last.
    """
    return asyncio.run(_history(session, where, json=json))


def _field(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    name = SHORT.get(name, name)
    if not equals or name not in EDITABLE:
        raise usage(f"{text!r} sets nothing.", f"Write NAME=VALUE; known: {', '.join((*SHORT, *EDITABLE))}")
    return name, value or None


async def _set(named: str, wanted: dict[str, str | None], where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        path = PATCH_SESSION.at((await short_ids.session(link, named)).session_id)
        changed = decoded(await link.send(path, wanted, method="PATCH"), Session, path)
    unset = [name for name, value in wanted.items() if changed.entry.get(name) != (value and value.strip())]
    if unset:
        raise Trouble("InternalError", f"The gateway took it, and {', '.join(unset)} is not so.")
    return _changed(changed, f"set {', '.join(wanted)} of {changed.session_key}", json=json)


async def _rename(named: str, title: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        path = PATCH_SESSION.at((await short_ids.session(link, named)).session_id)
        renamed = decoded(await link.send(path, {"label": title.strip() or None}, method="PATCH"), Session, path)
    shown = one_line(renamed.title or renamed.session_key, None)
    return _changed(renamed, f"{renamed.session_id} is called {shown}", json=json)


async def _change(named: str, operation: Operation[Any], done: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        session = await short_ids.session(link, named)
        path = operation.at(session.session_id)
        changed = decoded(await link.send(path, {}), Session, path)
    if operation is RESET_SESSION and changed.session_id == session.session_id:
        raise Trouble("InternalError", "The gateway took it, and the session is the same.")
    return _changed(changed, f"{done} {changed.session_id} ({changed.session_key})", json=json)


def _changed(session: Session, line: str, *, json: bool) -> int:
    if json:
        print_json(msgspec.json.encode(session))
    else:
        print_sentence(line)
    return ExitStatus.DONE


async def _history(named: str, where: Where, *, json: bool) -> int:
    async with GatewayLink(where) as link:
        path = LIST_SESSION_HISTORY.at((await short_ids.session(link, named)).session_id)
        found = await link.read(path, SessionHistory, {})
    if json:
        print_json(msgspec.json.encode(found))
        return ExitStatus.DONE
    print_table([[one.session_id, "archived" if "archivedAt" in one.entry else one.state, ago(one.created_at),
                  ago(one.updated_at), str(one.total_tokens)] for one in found.items],
                ("SESSION", "STATE", "BEGAN", "LAST", "TOKENS"), COLUMNS)
    return ExitStatus.DONE
