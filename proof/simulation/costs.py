"""What an operation costs on a network: round trips to PostgreSQL, one after the other, on the connection that it uses.

Without a round trip time every operation takes some random milliseconds, side by side with all others, as an engine in
one process would see it. A real gateway has a few connections, and an operation that has many statements delays all
operations after it on that connection. Cascades are caused by these costs, so a simulation must have them.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, NamedTuple

from interlock.backends.postgres.database import LANE_CONNECTIONS, READ_CONNECTIONS

Way = Literal["alone", "together", "beside"]

class Readers(NamedTuple):
    """Connections for reading, as `backends/postgres/database.py` has them."""

    any: int = READ_CONNECTIONS
    lanes: int = LANE_CONNECTIONS
    """For reading many lanes at once. None of their own: they wait among all others, as they once did."""


READERS = Readers()


class Cost(NamedTuple):
    """The round trips of an operation and the connection that it occupies meanwhile. Operations that are handed over
    `together` share a transaction with all that wait; those of `alone` have one each; `beside` are reads."""

    connection: str
    trips: int
    way: Way = "alone"


READ = Cost("readers", 1, "beside")
_LANES = Cost("lanes", 1, "beside")
LEDGER = {"commit": Cost("ledger", 3, "together"),
          **dict.fromkeys(("session_clocks", "stored_lanes", "lane_histories", "runner_sessions"), _LANES)}
"""Operations that write to the ledger, and those that read lanes. All others read."""
LEASES = {"renew": Cost("lease_renewal", 1), "take": Cost("leases", 5, "together"), "claim": Cost("leases", 1),
          "begin": Cost("leases", 1), "release": Cost("leases", 1), "pass_on": Cost("leases", 1),
          "join": Cost("leases", 1), "leave": Cost("leases", 1), "attach": Cost("leases", 1),
          "update": Cost("leases", 1), "detach": Cost("leases", 1)}
"""The same of the leases."""


class Connections:
    """The connections of one gateway: until when each is occupied. Times are seconds of the loop."""

    def __init__(self, rtt_s: float, costs: dict[str, Cost], readers: Readers = READERS) -> None:
        self._rtt_s = rtt_s
        self._costs = costs
        self._until: dict[str, float] = {}
        self._group: dict[str, tuple[float, float]] = {}
        """Begin and end of the last transaction that several share."""
        every = [0.0] * readers.any
        self.reading = {"readers": every, "lanes": [0.0] * readers.lanes if readers.lanes else every}
        self._unsent: dict[Hashable, tuple[float, float]] = {}
        """Begin and end of a read that is shared by equal requests before it is sent."""

    def answered_s(self, operation: str, now_s: float, asked: Hashable = None) -> float:
        """When an operation that is called now has its answer; `asked` identifies equal requests."""
        cost = self._costs.get(operation, READ)
        takes_s = cost.trips * self._rtt_s
        if cost.way == "beside":
            began_s, ends_s = self._unsent.get(asked, (-1.0, -1.0))
            if asked is not None and now_s < began_s:
                return ends_s
            reading = self.reading[cost.connection]
            free = reading.index(min(reading))
            begins_s = max(now_s, reading[free])
            reading[free] = begins_s + takes_s
            if asked is not None and begins_s > now_s:
                self._unsent[asked] = (begins_s, reading[free])
            return reading[free]
        begins_s = max(now_s, self._until.get(cost.connection, 0.0))
        if cost.way == "together":
            began_s, ends_s = self._group.get(cost.connection, (-1.0, -1.0))
            if now_s <= began_s:  # It waits for the connection still: one more has room in it.
                return ends_s
            self._group[cost.connection] = (begins_s, begins_s + takes_s)
        self._until[cost.connection] = begins_s + takes_s
        return begins_s + takes_s
