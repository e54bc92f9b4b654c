"""The kernel decides a closed union of inputs, each by one handler."""

from __future__ import annotations

from typing import get_args

import pytest

from engine.conversation import Table
from engine.within import Within
from interlock.engine.bridge.inputs import AnyInput, LaneInput
from interlock.engine.bridge.inputs.gateway import ClockTicked
from interlock.engine.bridge.kernel import HANDLERS

pytestmark = pytest.mark.anyio
def test_every_input_is_in_the_union_and_has_one_handler() -> None:
    union = set(get_args(AnyInput))
    assert set(HANDLERS) - {Within} == union
    assert set(LaneInput.__subclasses__()) - {Within} == union


async def test_a_decision_needs_no_shell() -> None:
    table = Table()
    command = await table.execute()
    shell = await table.lane(command.target.session_id)
    lane = shell.lane
    table.clock.advance(table.limits.queue_ttl_ms)
    conditions = table.engine.lanes.conditions(lane.state, [ClockTicked()])
    assert table.decide(lane, [ClockTicked()], conditions, lambda _at, _answer: ()) == [None]
    assert lane.now == table.clock.now_ms()
