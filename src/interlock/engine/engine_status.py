"""The status of an engine, for operators and probes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class EngineStatus(NamedTuple):
    """The status at one instant."""

    up: bool
    """Whether its lanes accept jobs: it has started, and has not begun to stop."""
    inboxes: Sequence[int]
    """The number of waiting jobs of each lane in memory."""
    runners: int
    """Runners that are attached."""
