"""Leases of lanes and instances, if several gateways work on one ledger (C-4).

Leases are stored in the ledger's own store, since every commit checks there that the epochs of its lanes are the
newest. There are two kinds of rows: an *instance* is one gateway process, which exists until its row expires; a lane's
*lease* names the instance that took it last. A lease is valid as long as its instance, so renewal is one write for an
instance, however many lanes it has. Time is the store's own clock: those of the gateways may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol

from interlock.ports.ledger import LaneName, LedgerError

INSTANCE_LIFE_MS = 3_000
"""An instance whose row was not renewed within this time is considered dead: any other may take over its lanes."""
RENEW_EVERY_MS = INSTANCE_LIFE_MS // 3
PASSED_ON = "passed-on"
"""The owner of a lane that was passed on. No instance has this id, so the lane is an orphan."""


class Gone(LedgerError):
    """Raised if the calling instance is considered dead: it must release everything it owned, and rejoin under another
    id."""


class Overtaken(LedgerError):
    """Raised if a link is not its runner's newest; `newest` is the number of the newest."""

    def __init__(self, runner_id: str, newest: int) -> None:
        super().__init__(f"The runner {runner_id} has opened a newer link, number {newest}.")
        self.newest = newest


class Instance(NamedTuple):
    """A gateway process. `address` is its location, for people."""

    instance_id: str
    address: str


class ClusterMember(NamedTuple):
    """A live instance as shown to operators. Times are the store's, in milliseconds since the epoch."""

    instance_id: str
    address: str
    since_ms: int
    """When it joined; 0 if its version did not store this."""
    renewed_ms: int
    """When its row was last renewed for INSTANCE_LIFE_MS."""
    lanes: int
    """Lanes that it owns."""


class Survey(NamedTuple):
    """The store and the instances that work on it."""

    version: str
    """Of the store's program."""
    members: list[ClusterMember]
    standby_wait_ms: int = 0
    """How long the oldest pending commit has waited for a synchronous standby; 0 if none waits."""
    trouble: str | None = None
    """Another problem with the store's servers, in one sentence."""


class Lease(NamedTuple):
    """A lane's owner. The lane is the caller's if `instance_id` is its own; its writes then carry the epoch."""

    epoch: int
    instance_id: str


class RunnerLocation(NamedTuple):
    """The gateway that a runner is attached to. `present` is that gateway's knowledge of it, as JSON."""

    runner_id: str
    tenant_id: str
    instance_id: str
    link_id: str
    present: bytes


class LinkChanges(NamedTuple):
    """Changes among the links. `upto` is the argument for the next call."""

    links: list[RunnerLocation]
    upto: int


MoveStep = Literal["announced", "frozen", "arriving", "arrived"]
"""The step of a tenant's move. At the source: it will be handed over soon; it is closed meanwhile. At the destination:
it will arrive; it has arrived, and is closed until the gateways have read its data."""
ACKNOWLEDGED: tuple[MoveStep, ...] = ("frozen", "arrived")
"""Steps after which a move continues once each live gateway has acknowledged them."""


class TenantMove(NamedTuple):
    """A tenant's move that is under way. A step whose gateways did not acknowledge it by `ends_ms` is over."""

    tenant_id: str
    move_id: str
    step: MoveStep
    ends_ms: int


class Leases(Protocol):
    """Guarantees: each call is one transaction of the ledger's store; if two instances take one lane at the same time,
    one gets it and the other receives its owner. An epoch of a lane is never reused. Raises LedgerError."""

    async def now_ms(self) -> int:
        """Return the store's own time, which the deadlines of all gateways are compared with."""
        ...

    async def join(self, instance: Instance, life_ms: int = INSTANCE_LIFE_MS) -> None:
        """Register an instance for `life_ms`. An id is used once."""
        ...

    async def renew(self, instance_id: str, life_ms: int = INSTANCE_LIFE_MS) -> bool:
        """Extend an instance's life to `life_ms` from now. False if its row has expired, which is final. It does not
        queue behind other calls, and raises before the lease expires if the store does not answer."""
        ...

    async def leave(self, instance_id: str) -> None:
        """Mark an instance dead at once: its lanes are orphans, its runners detached."""
        ...

    async def instances(self) -> list[Instance]:
        """Return the live instances, by id."""
        ...

    async def next_expiry_ms(self) -> int | None:
        """Return in how many milliseconds the first of the live instances is dead, unless it renews its lease; None if
        none is alive."""
        ...

    async def survey(self) -> Survey:
        """Return the live instances by id, with the number of lanes of each, and the store's version. One round
        trip."""
        ...

    async def take(self, lane: LaneName, instance_id: str, runner_id: str | None = None) -> Lease:
        """Take ownership of a lane under a new epoch that fences every earlier one. This succeeds if the lane has no
        live owner, if the caller owns it already, or if it is a session of this runner of the tenant, which is attached
        to the caller. If that runner is attached to another live instance, only that instance can take the lane.
        Otherwise nothing changes, and the lease names the owner. Raises Gone."""
        ...

    begins: ClassVar[bool] = False
    """Whether `begin` is quicker than `take`: a store behind a network."""

    async def begin(self, lane: LaneName, instance_id: str, runner_id: str) -> bool:
        """Take ownership of a lane that never had an owner, under FIRST_EPOCH, if the caller is alive and the tenant's
        runner is not attached to another live instance; returns whether this succeeded. If not, nothing changes, and
        `take` finds the reason. Stores whose `take` is as fast do not implement it."""
        return False

    async def release(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
        """Release those of these lanes that the caller still owns under these epochs."""
        ...

    async def claim(self, lanes: Sequence[tuple[LaneName, str | None]], instance_id: str) -> dict[LaneName, int]:
        """Take ownership of many orphaned lanes at once, each by the rule of `take` with its runner; returns the new
        epochs of the lanes that were taken. Lanes with a live owner, including the caller, and lanes that another
        transaction locks at this moment are left out. Raises Gone."""
        ...

    async def pass_on(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
        """Release those of these lanes that the caller still owns under these epochs and that another gateway has to
        continue: they become orphans at once."""
        ...

    async def owned(self, lanes: Sequence[LaneName], instance_id: str) -> dict[LaneName, int]:
        """Return those of these lanes that the instance has taken last, with their epochs."""
        ...

    async def owner(self, lane: LaneName) -> str | None:
        """Return the instance that owns the lane, if it is alive."""
        ...

    async def orphans(self, limit: int) -> list[LaneName]:
        """Return the lanes that dead instances did not release."""
        ...

    async def attach(self, link: RunnerLocation, number: int = 0) -> None:
        """Record that a runner is attached here, and nowhere else. `number` is its hello's: it outlives the link, and a
        hello with the same or a smaller number, which arrived late, changes nothing and raises Overtaken. 0 is a runner
        that does not number its links: the last to arrive counts. Raises Gone."""
        ...

    async def update(self, link: RunnerLocation) -> bool:
        """Store the changes of a link; False if a newer link has replaced it."""
        ...

    async def detach(self, tenant_id: str, runner_id: str, link_id: str) -> bool:
        """Record that a link has closed; False if a newer link has replaced it."""
        ...

    async def links_since(self, upto: int) -> LinkChanges:
        """Return the newest link of each runner whose link has changed since a call that returned `upto`, whether its
        instance is alive or dead; its `instance_id` is "" if the runner has detached. With 0, every runner that has not
        detached. None is omitted; one may be returned again."""
        ...

    async def moves(self) -> list[TenantMove]:
        """Return the moves of tenants that are under way from or to this store, by tenant."""
        return []

    async def acknowledge(self, move: TenantMove, instance_id: str) -> None:
        """Record that an instance observes a step of a move: in `frozen` and `arrived` it does nothing for the
        tenant."""

    async def end_overdue_moves(self) -> list[str]:
        """Abandon the moves from this store that have been `frozen` for longer than announced: their tenants are open
        here again. Returns them."""
        return []
