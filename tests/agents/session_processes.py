"""Processes that an agent's session left behind."""

from __future__ import annotations

import os
from pathlib import Path


def left_of(session_id: str) -> list[str]:
    """Living processes that carry the session's id in their environment (A-4)."""
    found: list[str] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if f"RAWP_SESSION_ID={session_id}".encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue
    return found
