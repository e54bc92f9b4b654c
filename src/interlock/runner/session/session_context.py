"""Dependencies that all sessions of a runner share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from interlock.ports.clock import Clock, Entropy
from interlock.ports.objects import Objects
from interlock.ports.process import SpawnBehind
from interlock.protocol.limits import AGENT_IDLE_MS, CANCEL_GRACE_MS, TERMINATE_GRACE_MS
from interlock.runner.agent_catalog import Offered
from interlock.runner.session.journal import Flow
from interlock.runner.session.session_box import NO_BOX, Boxing
from interlock.runner.turn.interactions import LivePresence, Waits


class SessionTimeouts(NamedTuple):
    """Time limits of a session in seconds; shorter in tests."""

    cancel_s: float = CANCEL_GRACE_MS / 1000
    """For the agent's own cancel (A-4)."""
    end_s: float = TERMINATE_GRACE_MS / 1000 + 2
    """Added for a program that can only be cancelled by ending it."""
    drain_s: float = 10.0
    """After the process's end its adapter must have written the rest within this."""
    idle_s: float = AGENT_IDLE_MS / 1000
    """An agent that is idle for this long is closed."""
    backstop_s: float = 30.0
    """The runner's timer for a prompt's timeout_ms is longer than the gateway's, which decides, by this."""


class Surroundings(NamedTuple):
    """The runner around its sessions. `environment` is the runner's own, of which agents get a part (A-1)."""

    flow: Flow
    objects: Objects
    clock: Clock
    entropy: Entropy
    presence: LivePresence
    spawn: SpawnBehind
    offered: Offered
    runner_id: str
    environment: Mapping[str, str]
    waits: Waits = Waits()
    timeouts: SessionTimeouts = SessionTimeouts()
    boxing: Boxing = NO_BOX
