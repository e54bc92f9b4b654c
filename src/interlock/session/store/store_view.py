"""`sessions.json`: the editable view of an agent's sessions, and a person's changes in it (N-1, I-4). Pure.

The rows in the ledger are authoritative. The view states what they held when it was written; of an edited text only the
differences to that are applied, field by field, so that an old text reverts nothing that has changed since.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, cast

import msgspec

from interlock.protocol.clock import parse_iso
from interlock.protocol.resources import Session
from interlock.session.store.entry import EDITABLE, BadField, SessionFields, is_known, patched, shown, with_unknown

VIEW_MAX_BYTES = 128 * 1024 * 1024
"""A longer text is not read: a hundred thousand sessions fit four times."""
SHOWN_CHARS = 60
"""Characters of a person's own text in a sentence, at most."""

View = dict[str, dict[str, Any]]
"""Session key → the fields of its entry, by name in I-4."""


class BadView(ValueError):
    """Raised if a text is not a view; the message is one sentence without its full stop."""


class SessionFacts(NamedTuple):
    """The view's fields of a session besides its entry; times are milliseconds since 1970."""

    session_id: str
    updated_ms: int
    input_tokens: int = 0
    output_tokens: int = 0
    context_tokens: int | None = None
    session_file: str | None = None
    """The absolute path of the transcript's file: readers interpret a bare name as relative to their working directory.
    None if transcripts are not files."""


class EntryEdit(NamedTuple):
    """A person's change of one entry: set fields (None clears one), or deletion."""

    key: str
    session_id: str
    wanted: Mapping[str, Any]
    deleted: bool = False
    as_of_ms: int | None = None
    """When the text of a deletion was written, if it was not the last one: a session that was active since stays."""


class Differences(NamedTuple):
    """The accepted changes, and one sentence for each that is not."""

    edits: list[EntryEdit]
    refused: list[str]


def view_entry(entry: SessionFields, counted: SessionFacts) -> dict[str, Any]:
    """Return a session's entry as the view shows it."""
    return _fields(shown(entry), counted)


def view_of(sessions: Iterable[Session], agent_id: str) -> View:
    """Return the view of one agent from sessions as the API shows them: the newest of each key, without archived ones.

    Sorted by key, as the file is.
    """
    newest: dict[str, Session] = {}
    for session in sessions:
        known = newest.get(session.session_key)
        if session.agent_id == agent_id and (known is None or known.created_at < session.created_at):
            newest[session.session_key] = session
    return {key: _fields(one.entry, SessionFacts(one.session_id, parse_iso(one.updated_at), one.input_tokens,
                                                 one.output_tokens, one.context_tokens))
            for key, one in sorted(newest.items()) if "archivedAt" not in one.entry}


def _fields(entry: Mapping[str, Any], counted: SessionFacts) -> dict[str, Any]:
    context = {"contextTokens": counted.context_tokens} if counted.context_tokens is not None else {}
    file = {"sessionFile": counted.session_file} if counted.session_file is not None else {}
    return {"sessionId": counted.session_id, "updatedAt": counted.updated_ms, **file, **entry,
            "inputTokens": counted.input_tokens, "outputTokens": counted.output_tokens,
            "totalTokens": counted.input_tokens + counted.output_tokens, **context}


def written(entries: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterator[bytes]:
    """Yield a view piece by piece, indented as OpenClaw writes it."""
    before = b"{\n"
    for key, fields in entries:
        lines = msgspec.json.format(msgspec.json.encode(fields), indent=2).replace(b"\n", b"\n  ")
        yield before + b"  " + msgspec.json.encode(key) + b": " + lines
        before = b",\n"
    yield b"\n}\n" if before == b",\n" else b"{}\n"


def read_view(text: bytes) -> dict[str, Any]:
    """Parse a view. Values that are not entries are left for `differences` to refuse one by one. Raises BadView."""
    if len(text) > VIEW_MAX_BYTES:
        raise BadView(f"it is larger than {VIEW_MAX_BYTES} bytes")
    try:
        read = json.loads(text.decode("utf-8-sig"), object_pairs_hook=_object, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise BadView(f"it is not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        raise BadView(f"it is not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise BadView("it is nested too deeply") from None
    except BadView:
        raise
    except ValueError:  # An integer of thousands of digits.
        raise BadView("it holds a number that is too long") from None
    if not isinstance(read, dict):
        raise BadView("it is not an object of session keys and their entries")
    return cast("dict[str, Any]", read)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read = dict(pairs)
    if len(read) != len(pairs):
        seen = set[str]()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))
        raise BadView(f"{quoted(twice)} occurs twice in one object, so it is ambiguous")
    return read


def _no_number(name: str) -> NoReturn:
    raise BadView(f"it is not JSON: {name} is not a number")


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Differences:
    """Return a person's changes: `before` is what was written for them, `after` the edited text (N-1).

    A text without any entry is treated as lost, and deletes nothing.
    """
    found = Differences([], [])
    if before and not after:
        found.refused.append("No entry is left: that is taken as a lost file, and nothing was deleted.")
        return found
    for key, old in before.items():
        if key not in after:
            found.edits.append(EntryEdit(key, old["sessionId"], {}, deleted=True))
        elif not _same(old, after[key]):
            _entry(key, old, after[key], found)
    for key in after.keys() - before.keys():
        found.refused.append(f"{quoted(key)}: there is no such session; a message to a key begins one.")
    found.refused.sort()
    return found


def _entry(key: str, old: dict[str, Any], new: object, found: Differences) -> None:
    if not isinstance(new, dict):
        found.refused.append(f"{quoted(key)}: an entry is an object of fields; it stays as it was.")
        return
    changed = cast("dict[str, Any]", new)
    wanted: dict[str, Any] = {}
    for name in [*old, *(name for name in changed if name not in old)]:
        value = changed.get(name)
        if (name in old and name in changed and _same(old[name], value)) or (name not in old and value is None):
            continue
        refusal = field_refusal(name, value)
        if refusal is not None:
            found.refused.append(f"{quoted(key)}: {quoted(name)}: {refusal}.")
        else:
            wanted[name] = value
    if wanted:
        found.edits.append(EntryEdit(key, old["sessionId"], wanted))


def _same(one: object, other: object) -> bool:
    # To Python true is 1, and 1 is 1.0.
    return one == other and json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


_OWN = frozenset({"sessionId", "updatedAt", "sessionFile", "inputTokens", "outputTokens", "totalTokens",
                  "contextTokens", "archivedAt", "interlock"})


def is_the_entrys(name: str) -> bool:
    """Return whether a field has a meaning here, so that no other program's can have its name."""
    return name in _OWN or is_known(name)


def field_refusal(name: str, value: Any) -> str | None:
    """Return why a field cannot have a value; None if it can."""
    if name == "archivedAt":
        return "`interlock sessions archive` puts a session away"
    if is_the_entrys(name) and name not in EDITABLE:
        return "the gateway counts it itself"
    try:
        if is_known(name):
            patched(SessionFields(), {name: value})
        else:
            with_unknown(SessionFields(), {name: value})
    except BadField as bad:
        return str(bad).removeprefix(f"{name}: ")
    return None


def quoted(text: str) -> str:
    """Return a name from an untrusted text on one line."""
    short = text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in short)
