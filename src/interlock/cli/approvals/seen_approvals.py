"""Which approvals this terminal printed: `@last` may only vote on one of them (Y-3)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from interlock.cli.config.place import write_private

SEEN_FILE = "seen-approvals.json"
TERMINALS_KEPT = 32
IDS_KEPT = 500
"""Approvals that are kept of one terminal; the oldest go first."""


class SeenApprovals:
    """The file `<state>/seen-approvals.json`, by terminal and login session. Losing it makes `@last` stricter."""

    def __init__(self, state: Path, terminal: str | None = None) -> None:
        self._path = state / SEEN_FILE
        self._terminal = terminal or _terminal()

    def printed(self) -> frozenset[str] | None:
        """Return the ids that this terminal printed; None if it printed none yet."""
        found = self._read().get(self._terminal)
        return None if found is None else frozenset(found)

    def add(self, ids: Iterable[str]) -> None:
        """Record ids that were printed just now."""
        kept = self._read()
        before = kept.pop(self._terminal, [])
        kept[self._terminal] = list(dict.fromkeys([*before, *ids]))[-IDS_KEPT:]
        with contextlib.suppress(OSError):
            write_private(self._path, msgspec.json.encode(dict(list(kept.items())[-TERMINALS_KEPT:])))

    def _read(self) -> dict[str, list[str]]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, list[str]])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}


def _terminal() -> str:
    """Name the terminal by its device and login session; without one, by the session alone."""
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            return f"{os.ttyname(descriptor)} {os.getsid(0)}"
    return str(os.getsid(0))
