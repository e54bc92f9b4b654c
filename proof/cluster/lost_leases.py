"""What the logs of gateways show of leases that were lost while the gateway lived, by cause.

Three gateways, PostgreSQL, NATS and all runners share the cores of one machine. A gateway that waited for a core for
longer than its lease could not answer anyone, and the others were right to take over; one that had a core was falsely
considered dead.
"""

from __future__ import annotations

import re
from typing import NamedTuple

DIED = "instance_taken_for_dead"
LOST = re.compile(rf"^.*\b{DIED}\b.*$", re.MULTILINE)
QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
FIELD = re.compile(r"\b(cause|waited_ms)=(\w+)")


class LostLeases(NamedTuple):
    """Counts of lost leases."""

    falsely_dead: int = 0
    starved: int = 0
    starved_s: tuple[float, ...] = ()
    """For each starved gateway how long it waited for a core since its last renewal."""


def lost_leases(logs: str) -> LostLeases:
    """Return what these logs of gateways show."""
    lines = [dict(FIELD.findall(QUOTED.sub("", line))) for line in LOST.findall(logs)]
    starved = [line for line in lines if line.get("cause") == "starved"]
    return LostLeases(len(lines) - len(starved), len(starved),
                      tuple(int(line["waited_ms"]) / 1000 for line in starved))
