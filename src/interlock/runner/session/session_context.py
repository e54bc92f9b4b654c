"""Dependencies that all sessions of a runner share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from interlock.ports.clock import Clock, Entropy
from interlock.ports.objects import Objects
from interlock.ports.process import SpawnBehind
from interlock.runner.agent_catalog import Offered
from interlock.runner.journal import Flow
from interlock.runner.session.session_box import NO_BOX, Boxing
from interlock.runner.turn.interactions import LivePresence, Waits
from interlock.runner.turn.turn import SessionTimeouts


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
