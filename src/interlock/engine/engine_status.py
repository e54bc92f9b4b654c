"""How an engine stands: what operators and probes ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class EngineStatus(NamedTuple):
    """At one instant."""

    up: bool
    """Its lanes take jobs: it has started, and has not begun to stop."""
    inboxes: Sequence[int]
    """What waits in each lane that is in memory."""
    runners: int
    """Runners that are attached."""
