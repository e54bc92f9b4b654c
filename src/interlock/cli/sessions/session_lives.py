"""`interlock sessions reset | set | history | archive | restore`: change and list the sessions of a key (V-2)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from interlock.cli import short_ids
from interlock.cli.config.place import NOWHERE, Here
from interlock.cli.display.columns import Layout
from interlock.cli.display.terminal import one_line, print_sentence
from interlock.cli.display.values import ago
from interlock.cli.options import Json, SessionNamed
from interlock.cli.verb_answer import ListTable, ask, print_answer
from interlock.cli.verb_error import Trouble, usage
from interlock.protocol.answers import SessionHistory
from interlock.protocol.api.session_entries import RESET_SESSION
from interlock.protocol.bodies import EntryBody
from interlock.protocol.resources import Session
from interlock.sdk.requests import sessions
from interlock.session.store.entry import EDITABLE

HISTORY = ListTable[SessionHistory](
    header=("SESSION", "STATE", "BEGAN", "LAST", "TOKENS"),
    rows=lambda answer: [[one.session_id, "archived" if "archivedAt" in one.entry else one.state, ago(one.created_at),
                          ago(one.updated_at), str(one.total_tokens)] for one in answer.items],
    layout=Layout(drop=("TOKENS", "BEGAN")))
SHORT = {"model": "modelOverride", "mode": "modeOverride", "thinking": "thinkingLevel", "reasoning": "reasoningLevel",
         "verbose": "verboseLevel", "send": "sendPolicy"}
"""Short forms of some field names."""
FIELDS = {field.encode_name: field.name for field in msgspec.structs.fields(EntryBody)}
"""Attributes of the request body, by the fields' stored names."""


def reset(session: SessionNamed, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """End a session's work, and begin a new one under its key; the old transcript stays."""
    answer = ask(where, short_ids.of_session(session, sessions.reset))
    if answer.request.path == RESET_SESSION.at(answer.value().session_id):
        raise Trouble("InternalError", "The gateway accepted it, but the session is the same.")
    return answer.print(_sentence("began"), json=json)


def set_(session: SessionNamed, /, *fields: str, json: Json = False, where: Here = NOWHERE) -> int:
    """Set what a session's key carries: model, thinking, label, sendPolicy and more.

    Parameters
    ----------
    fields
        NAME=VALUE; NAME= clears it.
    """
    wanted = dict(_field(text) for text in fields)
    if not wanted:
        raise usage("No field is named.", f"Write NAME=VALUE; known: {', '.join((*SHORT, *EDITABLE))}.")
    fields_set: dict[str, Any] = {FIELDS[name]: value for name, value in wanted.items()}
    body = EntryBody(**fields_set)
    answer = ask(where, short_ids.of_session(session, lambda id_: sessions.patch(id_, body)))
    entry = answer.value().entry
    unset = [name for name, value in wanted.items() if entry.get(name) != (value and value.strip())]
    if unset:
        raise Trouble("InternalError", f"The gateway accepted it, but {', '.join(unset)} did not change.")
    return answer.print(lambda one: print_sentence(f"set {', '.join(wanted)} of {one.session_key}"), json=json)


def rename(session: SessionNamed, title: str, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Set a session's title, which lists and the console show in place of its first prompt.

    Parameters
    ----------
    title
        At most 500 characters on one line; "" restores the name of its chat or its first prompt.
    """
    def show(renamed: Session) -> None:
        print_sentence(f"{renamed.session_id} is called {one_line(renamed.title or renamed.session_key, None)}")

    body = EntryBody(label=title.strip() or None)
    return print_answer(where, short_ids.of_session(session, lambda id_: sessions.patch(id_, body)), show, json=json)


def archive(session: SessionNamed, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """End a session's work and put it away; it stays readable, and its key begins again."""
    return print_answer(where, short_ids.of_session(session, sessions.archive), _sentence("archived"), json=json)


def restore(session: SessionNamed, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """Take an archived session back."""
    return print_answer(where, short_ids.of_session(session, sessions.restore), _sentence("restored"), json=json)


def history(session: str, /, *, json: Json = False, where: Here = NOWHERE) -> int:
    """List the sessions that a key has had, newest first.

    Parameters
    ----------
    session
        A session: its id, a unique beginning of it, its key, or @last.
    """
    return print_answer(where, short_ids.of_session(session, sessions.history), HISTORY.show, json=json)


def _field(text: str) -> tuple[str, str | None]:
    name, equals, value = text.partition("=")
    name = SHORT.get(name, name)
    if not equals or name not in EDITABLE:
        raise usage(f"{text!r} sets nothing.", f"Write NAME=VALUE; known: {', '.join((*SHORT, *EDITABLE))}.")
    return name, value or None


def _sentence(done: str) -> Callable[[Session], None]:
    return lambda session: print_sentence(f"{done} {session.session_id} ({session.session_key})")
