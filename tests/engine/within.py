"""A test's own input: its function runs in a lane, as a decision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from interlock.engine.bridge.inputs import LaneInput
from interlock.engine.bridge.kernel import HANDLERS
from interlock.engine.bridge.lane import Lane


class Within(LaneInput, frozen=True):
    """Run `do` in the lane; its result is the answer. It is not data, and so can be in no log."""

    do: Callable[[Lane], Any]


cast("dict[Any, Any]", HANDLERS)[Within] = lambda lane, given: given.do(lane)
