"""The marks on a state directory whose ledger is in a database, or on its way from there: a gateway without that
database is refused.

Without them, a gateway that is started as before would create an empty ledger with a new id, and every runner would be
refused by it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.config import FILE_NAME
from interlock.durable_files import replace_file

MARK_NAME = f"{LEDGER_NAME}.moved"
MOVED_PATTERN = f"{LEDGER_NAME}.moved-*"
"""The renamed file that a move leaves. A directory from which a ledger was moved before marks existed has only this."""

DRAFT = "moving"
"""Directory below the state directory where a move from a database creates everything first; an existing one was left
by an interrupted move."""
READY = "ready.json"
"""Exists there once everything is created and verified, until everything is in its place."""


class DepartureMark(msgspec.Struct, frozen=True, kw_only=True):
    """The location of the ledger: the database's address without its password, and whether the move was completed."""

    to: str
    stage: Literal["committing", "moved"]


def mark(state: Path, to: str, stage: Literal["committing", "moved"]) -> None:
    """Mark a state directory, atomically and durably."""
    replace_file(state / MARK_NAME, msgspec.json.encode(DepartureMark(to=to, stage=stage)))


def unmark(state: Path) -> None:
    """Remove the mark: the ledger is, or stays, in this directory."""
    (state / MARK_NAME).unlink(missing_ok=True)


def why_not_here(state: Path) -> str | None:
    """Return the sentence that refuses a gateway on this directory's own ledger; None if it may run on it."""
    found = _read(state)
    if (state / LEDGER_NAME).exists():
        if found is None or found.stage == "moved":
            return None
        return (f"A move of {state / LEDGER_NAME} to {found.to} did not finish: run `interlock migrate --to` with that "
                f"database again, which completes it; or, to stay without it, drop that database and remove "
                f"{state / MARK_NAME}.")
    if (state / DRAFT / READY).exists():
        return (f"A move of a ledger into {state} did not finish: run `interlock migrate --from` with its database and "
                "this directory again, which completes it.")
    left = sorted(state.glob(MOVED_PATTERN))
    if found is None and not left:
        return None
    to = f'store = "{found.to}"' if found is not None else "store = the address of that database"
    return (f"The ledger of {state} was moved to {found.to if found is not None else 'a database'}: set {to} below "
            f"[cluster] in {state / FILE_NAME} (or give --store), or move it into "
            "another directory with `interlock migrate --from … --state …`.")


def _read(state: Path) -> DepartureMark | None:
    try:
        return msgspec.json.decode((state / MARK_NAME).read_bytes(), type=DepartureMark)
    except FileNotFoundError:
        return None
    except msgspec.MsgspecError:  # Damaged: that there was a move is still known.
        return DepartureMark(to="a database", stage="moved")
