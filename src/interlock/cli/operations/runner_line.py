"""A runner in `interlock status`, and whether the local one is about to connect (L-6, Y-8)."""

from __future__ import annotations

import os
import time
from pathlib import Path

from interlock.cli.config.place import LOCAL_RUNNER, UP_LOCK
from interlock.cli.display.terminal import one_line
from interlock.protocol.limits import READY_TIMEOUT_S
from interlock.protocol.resources import Node


def runner_line(node: Node, *, starting: bool = False) -> str:
    """Return name, status, agents and roots, as far as they are known. `starting` means that `interlock up` has just
    begun: its runner is offline, but about to connect."""
    is_coming = starting and node.node_id == LOCAL_RUNNER and node.status == "offline"
    agents = ", ".join(str(one.get("agent_id", "?")) for one in node.agents)
    offers = agents or ("no agents" if node.status != "offline" else "")
    parts = (f"{one_line(node.device_name or node.node_id)} ({one_line(node.node_id)})",
             "starting" if is_coming else node.status, one_line(offers, 300), one_line(", ".join(node.roots), 300))
    return " · ".join(part for part in parts if part)


def up_is_starting(state: Path, now_s: float | None = None) -> bool:
    """Return whether an `interlock up` on this state directory began less than `READY_TIMEOUT_S` ago."""
    try:
        began_s = (state / UP_LOCK).stat().st_mtime
    except OSError:
        return False
    return up_process(state) is not None and 0 <= (time.time() if now_s is None else now_s) - began_s < READY_TIMEOUT_S


def up_process(state: Path) -> int | None:
    """Return the process of the `interlock up` that works on this state directory, or None."""
    try:
        holder = int((state / UP_LOCK).read_text("ascii"))
        if holder <= 0:
            return None
        os.kill(holder, 0)
    except (OSError, ValueError, OverflowError):
        return None
    return holder
