"""Cursors of this terminal: how far each command's and session's stream was shown (G-4)."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Literal

import msgspec

from interlock.cli.config.place import CURSORS_FILE, write_private

KEPT = 200
"""Maximum number of commands, and of sessions, whose cursor is stored; the oldest is removed first."""

Phase = Literal["before", "inside", "after"]
"""Position in the session's stream relative to the command's part of it."""


class ShownCursor(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a command was shown. `shown` counts the code points of each open block that are on the screen."""

    cursor: str | None = None
    status_cursor: str | None = None
    phase: Phase = "before"
    turn_id: str | None = None
    shown: dict[str, int] = {}


class _Kept(msgspec.Struct, kw_only=True):
    commands: dict[str, ShownCursor] = {}
    sessions: dict[str, str] = {}


class Cursors:
    """The file `<state>/cursors.json`. Losing it loses no work: events are shown a second time."""

    def __init__(self, state: Path) -> None:
        self._path = state / CURSORS_FILE

    def command(self, command_id: str) -> ShownCursor | None:
        """Return how far a command was shown; None if it never was."""
        return self._read().commands.get(command_id)

    def session(self, session_id: str) -> str | None:
        """Return the newest cursor of a session that was shown; None if none was."""
        return self._read().sessions.get(session_id)

    def keep(self, session_id: str, command_id: str | None, place: ShownCursor) -> None:
        """Store how far the command or session was shown."""
        kept = self._read()
        if command_id is not None:
            kept.commands.pop(command_id, None)
            kept.commands[command_id] = place
        if place.cursor is not None:
            kept.sessions.pop(session_id, None)
            kept.sessions[session_id] = place.cursor
        kept.commands = dict(list(kept.commands.items())[-KEPT:])
        kept.sessions = dict(list(kept.sessions.items())[-KEPT:])
        with contextlib.suppress(OSError):
            write_private(self._path, msgspec.json.encode(kept))

    def _read(self) -> _Kept:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return _Kept()
