"""What every session of a runner shares, given once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from interlock.ports.clock import Clock, Entropy
from interlock.ports.objects import Objects
from interlock.ports.process import SpawnBehind
from interlock.protocol.limits import AGENT_IDLE_MS, CANCEL_GRACE_MS, TERMINATE_GRACE_MS
from interlock.runner.agent_catalog import Offered
from interlock.runner.interactions import LivePresence, Waits
from interlock.runner.journal import Flow
from interlock.runner.session_box import NO_BOX, Boxing


class Graces(NamedTuple):
    """How long a session waits, in seconds; tests shorten it."""

    cancel_s: float = CANCEL_GRACE_MS / 1000
    """The agent's own cancel (A-4)."""
    end_s: float = TERMINATE_GRACE_MS / 1000 + 2
    """A program whose only cancel is its end gets so long on top."""
    drain_s: float = 10.0
    """After the process's end its adapter must have told the rest within this."""
    idle_s: float = AGENT_IDLE_MS / 1000
    """An agent without a turn for so long is closed."""
    backstop_s: float = 30.0
    """The runner's own clock of a prompt's timeout_ms runs so much longer than the gateway's, which decides."""


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
    graces: Graces = Graces()
    boxing: Boxing = NO_BOX
