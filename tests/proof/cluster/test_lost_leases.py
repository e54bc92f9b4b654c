"""A gateway that had no core is distinguished from one that was falsely considered dead, with the figure."""

from __future__ import annotations

import pytest

from proof.cluster.cascade import Findings
from proof.cluster.lost_leases import LostLeases, lost_leases

pytestmark = pytest.mark.req("C-4")
LOGS = """\
12:00:01 [info     ] instance_joined                [interlock.cluster] instance_id=i_1
12:00:09 [warning  ] instance_taken_for_dead        [interlock.cluster] cause=starved instance_id=i_1 ran_ms=900 \
reason='Its host had no free processor.' since_ms=7400 waited_ms=6240
12:00:19 [warning  ] instance_taken_for_dead        [interlock.cluster] cause=early instance_id=i_2 ran_ms=3 \
reason='cause=starved is only quoted here' since_ms=900 waited_ms=2
12:00:20 [warning  ] instance_taken_for_dead        [interlock.cluster] instance_id=i_3
"""
WELL = Findings(10.0, {"nothing else": 1}, 9, 0, 0, 0, 0, [0.5])


def test_a_starved_gateway_is_not_counted_as_falsely_dead() -> None:
    assert lost_leases(LOGS) == LostLeases(falsely_dead=2, starved=1, starved_s=(6.24,))
    assert lost_leases("") == LostLeases()


def test_the_verdict_names_the_time_without_a_core() -> None:
    starved = WELL._replace(starved=1, starved_s=6.24)
    assert starved.passed
    assert "0 living gateways taken for dead, 1 starved of a core (for up to 6.2 s);" in starved.line()
    assert "0 starved of a core;" in WELL.line()
    assert not WELL._replace(falsely_dead=1).passed
