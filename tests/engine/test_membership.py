"""A gateway alone: every lane and duty is its own, and no notices are sent."""

from __future__ import annotations

import pytest

from interlock.backends.memory.ledger import MemoryLedger
from interlock.engine.membership import Alone, Elsewhere
from interlock.ports.ledger import LaneName

pytestmark = pytest.mark.anyio


async def test_a_single_gateway_owns_each_lane_under_a_new_epoch_and_leads_all() -> None:
    alone = Alone(MemoryLedger())
    s1, s2, s3 = (LaneName("t1", name) for name in ("s1", "s2", "s3"))
    first, again, other = await alone.take(s1), await alone.take(s1), await alone.take(s2)

    assert (again - first, other) == (1, first)
    assert (alone.shared, alone.begins, await alone.leads("retention")) == (False, False, True)
    assert (await alone.begin(s3, "r"), await alone.begin_new(s3, "r")) == (None, None)


async def test_a_name_is_held_without_fencing_and_hints_are_not_sent() -> None:
    alone, received = Alone(MemoryLedger()), list[bytes]()
    alone.on_hint("rules", received.append)
    alone.hint("rules", b"x")
    async with alone.hold("t1", "key") as hold:
        assert hold is None

    assert received == []


def test_the_owner_of_a_lane_is_named_in_the_error() -> None:
    elsewhere = Elsewhere("g2")

    assert (elsewhere.instance_id, str(elsewhere)) == ("g2", "the gateway g2 has it")
