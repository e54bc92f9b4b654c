"""A runner in `interlock status`, and which processes of this host are at work (L-6, Y-8)."""

from __future__ import annotations

import os
import time
from pathlib import Path

from interlock.backends.sqlite.lock import LOCK_NAME
from interlock.cli.config.place import LOCAL_RUNNER, UP_LOCK, GatewayFile, gateway_file, holder
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
        written = int((state / UP_LOCK).read_text("ascii"))
        if written <= 0:
            return None
        os.kill(written, 0)
    except (OSError, ValueError, OverflowError):
        return None  # Without a look at the lock: an `up` that begins at this moment finds it free.
    return holder(state / UP_LOCK)


def running_gateway(state: Path) -> GatewayFile | None:
    """Return the gateway that runs on this state directory, or that `interlock up` is about to restart there.

    The file of one that was killed is not believed: any program may listen at its address now, and would receive the
    key. The kernel releases the lock of a gateway with its process, in whichever container that runs.
    """
    announced = gateway_file(state)
    if announced is None or up_process(state) is not None or not os.access(state / LOCK_NAME, os.R_OK):
        return announced
    return announced if holder(state / LOCK_NAME) is not None else None
