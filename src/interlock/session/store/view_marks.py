"""Marks in `sessions.json` that record the state each entry was written from, so that a text that an editor held for an
hour is compared with what that editor loaded (N-1). Pure.

Each entry has the field `interlock`: {revision, own, fields}. `revision` is the instant of the writing, in milliseconds
since 1970; `own` is a checksum of the fields that the gateway counts; `fields` has a checksum of each other field. A
field that a person changed differs from its checksum, however much the session has changed since, and no old text has
to be kept.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, cast

import msgspec

from interlock.session.store.entry import EDITABLE
from interlock.session.store.store_view import Differences, EntryEdit, field_refusal, is_the_entrys, quoted

MARK = "interlock"
LOST = "No entry is left: that is taken as a lost file, and nothing was deleted."
NO_ENTRY = "there is no such session; a message to a key begins one"
NO_OBJECT = "an entry is an object of fields; it stays as it was"
NO_MARK = f"its field `{MARK}`, which names what it was written from, is missing or changed; it stays as it was"
COUNTED = "what the gateway counts itself was changed (ids, times, tokens); it stays as it is"
MIXED = "The entries are of several versions of the file, so a missing one was not taken for deleted."


class OriginMark(msgspec.Struct, frozen=True):
    """The mark of an entry's origin."""

    revision: int
    own: str
    fields: dict[str, str]


def marked(key: str, entry: Mapping[str, Any], revision: int) -> dict[str, Any]:
    """Return an entry of the view with its mark."""
    fields = {name: _checksum(value) for name, value in entry.items() if not _is_counted(name)}
    return {**entry, MARK: {"revision": revision, "own": _own(key, entry), "fields": fields}}


def mark_of(entry: object) -> OriginMark | None:
    """Return an entry's mark; None if it has no readable one."""
    found = cast("dict[str, Any]", entry).get(MARK) if isinstance(entry, dict) else None
    try:
        return msgspec.convert(found, OriginMark)
    except msgspec.ValidationError:
        return None


def revision_of(view: Mapping[str, Any]) -> int | None:
    """Return the newest revision that a view's entries name; None if none of them has a mark."""
    return max((mark.revision for entry in view.values() if (mark := mark_of(entry)) is not None), default=None)


def marked_differences(last: Iterable[Mapping[str, Any]], after: Mapping[str, Any]) -> Differences:
    """Return a person's changes in a view whose entries have marks (N-1).

    `last` are the earlier texts of the file, the nearest first: they name the sessions that may have been deleted, and
    what was applied already of the same revision. A deletion in an older text carries that text's instant.
    """
    found = Differences([], [])
    known = [*last]
    if not after:
        found.refused.extend([LOST] if any(known) else [])
        return found
    revisions = set[int]()
    for key, entry in after.items():
        mark = mark_of(entry)
        if mark is not None:
            revisions.add(mark.revision)
        _compare(key, entry, mark, [view[key] for view in known if key in view], found)
    _find_deleted(revisions, known, after, found)
    found.refused.sort()
    return found


def _compare(key: str, entry: object, mark: OriginMark | None, before: list[object], found: Differences) -> None:
    if not isinstance(entry, dict):
        found.refused.append(f"{quoted(key)}: {NO_OBJECT}.")
    elif mark is None or mark.own != _own(key, cast("dict[str, Any]", entry)):
        why = NO_ENTRY if not before else NO_MARK if mark is None else COUNTED
        found.refused.append(f"{quoted(key)}: {why}.")
    if not isinstance(entry, dict) or mark is None:
        return
    fields = cast("dict[str, Any]", entry)
    same = [cast("dict[str, Any]", one) for one in before
            if (other := mark_of(one)) is not None and other.revision == mark.revision]
    wanted: dict[str, Any] = {}
    for name in dict.fromkeys([*mark.fields, *fields]):
        value = fields.get(name)
        if _is_counted(name) or mark.fields.get(name) == (None if value is None else _checksum(value)):
            continue
        if any(_checksum(one.get(name)) == _checksum(value) for one in same):
            continue  # An earlier text of this revision contained it already.
        refusal = field_refusal(name, value)
        if refusal is not None:
            found.refused.append(f"{quoted(key)}: {quoted(name)}: {refusal}.")
        else:
            wanted[name] = value
    if wanted and before:
        found.edits.append(EntryEdit(key, str(fields.get("sessionId")), wanted))


def _find_deleted(revisions: set[int], known: list[Mapping[str, Any]], after: Mapping[str, Any], found: Differences
                  ) -> None:
    base = next((view for view in known if revision_of(view) in revisions), known[0] if known else {})
    missing = [key for key in base if key not in after]
    if len(revisions) > 1 and missing:
        found.refused.append(MIXED)
    elif revisions:
        (revision,) = revisions
        as_of_ms = None if revision_of(base) == revision else revision
        found.edits.extend(EntryEdit(key, str(base[key].get("sessionId")), {}, deleted=True, as_of_ms=as_of_ms)
                           for key in missing)


def _is_counted(name: str) -> bool:
    return name == MARK or (is_the_entrys(name) and name not in EDITABLE)


def _own(key: str, entry: Mapping[str, Any]) -> str:
    counted = {name: entry[name] for name in sorted(entry) if _is_counted(name) and name != MARK}
    if isinstance(file := counted.get("sessionFile"), str):
        counted["sessionFile"] = file.rpartition("/")[2]  # A bare name, as older versions wrote it, is the same file.
    return _checksum([key, counted])


def _checksum(value: object) -> str:
    data = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return f"{zlib.crc32(data.encode()):08x}"
