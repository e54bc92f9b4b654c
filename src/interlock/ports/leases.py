"""Who is there, and who owns what, where several gateways work on one ledger (C-4).

Leases are kept in the ledger's own store, since every commit checks there that the epoch of its lanes is still the
newest. Two kinds of rows: an *instance* is one gateway process, there until its row expires; a lane's *lease* names
the instance that took it last. A lease is alive as long as its instance is, so staying alive is one
write for an instance, however many lanes it has. Time is the store's own clock: those of the gateways may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple, Protocol

from interlock.ports.ledger import LaneName, LedgerError

INSTANCE_LIFE_MS = 3_000
"""An instance whose row was not renewed within this time is considered dead: any other may take its lanes."""
RENEW_EVERY_MS = INSTANCE_LIFE_MS // 3
PASSED_ON = "passed-on"
"""The owner of a lane that was passed on. No instance has this id, so the lane is an orphan."""


class Gone(LedgerError):
    """The instance that asks is taken for dead: it must let go of all it had, and come back under another id."""


class Overtaken(LedgerError):
    """A link is not its runner's newest; `newest` is the number of the one that is."""

    def __init__(self, runner_id: str, newest: int) -> None:
        super().__init__(f"The runner {runner_id} has opened a newer link, number {newest}.")
        self.newest = newest


class Instance(NamedTuple):
    """One gateway process. `address` is its place, for people."""

    instance_id: str
    address: str


class ClusterMember(NamedTuple):
    """A live instance as operators see it. Times are the store's, in milliseconds since the epoch."""

    instance_id: str
    address: str
    since_ms: int
    """When it joined; 0 if it is of a version that did not store this."""
    renewed_ms: int
    """When its row was last renewed for INSTANCE_LIFE_MS."""
    lanes: int
    """Lanes that it owns."""


class Survey(NamedTuple):
    """The store and who works on it."""

    version: str
    """Of the store's program."""
    members: list[ClusterMember]
    standby_wait_ms: int = 0
    """How long the oldest commit under way has waited for a synchronous standby; 0 if none does."""
    trouble: str | None = None
    """What else is wrong with the store's servers, in one sentence."""


class Lease(NamedTuple):
    """Whose a lane is. It is the asker's where `instance_id` is its own; its writes then carry the epoch."""

    epoch: int
    instance_id: str


class RunnerLocation(NamedTuple):
    """Where a runner is attached. `present` is what the gateway there knows of it, as JSON."""

    runner_id: str
    tenant_id: str
    instance_id: str
    link_id: str
    present: bytes


class LinkChanges(NamedTuple):
    """What has changed among the links. `upto` is what to ask with the next time."""

    links: list[RunnerLocation]
    upto: int


MoveStep = Literal["announced", "frozen", "arriving", "arrived"]
"""Where a tenant is on its way. At the source: it will be handed over soon; it is closed while it is. At the
destination: it will come; it is there, and closed until the gateways have read what it has."""
ACKNOWLEDGED: tuple[MoveStep, ...] = ("frozen", "arrived")
"""Steps after which a move goes on once each live gateway has acknowledged them."""


class TenantMove(NamedTuple):
    """A move of a tenant that is under way. A step whose gateways did not acknowledge it by `ends_ms` is over."""

    tenant_id: str
    move_id: str
    step: MoveStep
    ends_ms: int


class Leases(Protocol):
    """Guarantees: each call is one transaction of the ledger's store; of two that take one lane at the same time one
    gets it and the other receives its owner. An epoch of a lane is never given twice. Raises LedgerError."""

    async def now_ms(self) -> int:
        """The store's own time: the one line that the deadlines of all gateways stand on."""
        ...

    async def join(self, instance: Instance, life_ms: int = INSTANCE_LIFE_MS) -> None:
        """Be there for `life_ms`. An id is used once."""
        ...

    async def renew(self, instance_id: str, life_ms: int = INSTANCE_LIFE_MS) -> bool:
        """Be there for `life_ms` from now. False if the row has expired, which nothing takes back. It waits behind no
        other call, and raises before the lease has run out if the store does not answer."""
        ...

    async def leave(self, instance_id: str) -> None:
        """Be dead at once: its lanes are anyone's, its runners attached nowhere."""
        ...

    async def instances(self) -> list[Instance]:
        """Those that are alive, by their ids."""
        ...

    async def survey(self) -> Survey:
        """The live instances by their ids, with the lanes of each, and the store's version. One round trip."""
        ...

    async def take(self, lane: LaneName, instance_id: str, runner_id: str | None = None) -> Lease:
        """Own a lane, under a new epoch that fences every earlier one, if it may be had: no one alive has it, or the
        asker itself, or it is a session of this runner of the tenant, which is attached to the asker. Where that runner
        is attached to another live instance, the lane is to be had there alone. Else nothing changes, and the lease
        names whose it is. Raises Gone."""
        ...

    begins: ClassVar[bool] = False
    """Whether `begin` is quicker than `take`: a store behind a network."""

    async def begin(self, lane: LaneName, instance_id: str, runner_id: str) -> bool:
        """Own a lane that never had an owner, under FIRST_EPOCH, if the asker is alive and the tenant's runner is not
        attached to another live instance; returns whether it was had. If not, nothing changes, and `take` finds out
        why. Stores for which `take` is as fast leave it at that."""
        return False

    async def release(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
        """Give back lanes that are still the asker's under these epochs."""
        ...

    async def claim(self, lanes: Sequence[tuple[LaneName, str | None]], instance_id: str) -> dict[LaneName, int]:
        """Own many orphaned lanes at once, each by the rule of `take` with the runner beside it; returns the new epochs
        of those that were had. Lanes that have a live owner, the asker too, and lanes that another transaction holds at
        this moment are left out. Raises Gone."""
        ...

    async def pass_on(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
        """Give back lanes that are still the asker's under these epochs and that somebody has to go on with: they are
        orphans at once."""
        ...

    async def owner(self, lane: LaneName) -> str | None:
        """The instance whose lane it is, if that is alive."""
        ...

    async def orphans(self, limit: int) -> list[LaneName]:
        """Lanes that were not given back, of instances that are dead."""
        ...

    async def attach(self, link: RunnerLocation, number: int = 0) -> None:
        """A runner is attached here, and nowhere else any more. `number` is that of its hello: it is kept when the
        link is gone, and a hello of the same or a smaller one, which arrived late, changes nothing and raises
        Overtaken. 0 is a runner that does not number its links: the last to arrive counts. Raises Gone."""
        ...

    async def update(self, link: RunnerLocation) -> bool:
        """Keep what has changed of a link; False where a newer one has taken its place."""
        ...

    async def detach(self, tenant_id: str, runner_id: str, link_id: str) -> bool:
        """A link is gone; False where a newer one has taken its place."""
        ...

    async def links(self, tenant_id: str | None = None) -> list[RunnerLocation]:
        """Links to instances that are alive, of a tenant or of all, by their runners' ids."""
        ...

    async def links_since(self, upto: int) -> LinkChanges:
        """The newest link of each runner where that has changed since a call that answered `upto`, be its instance
        alive or dead; its `instance_id` is "" where the runner has detached. With 0, each that has not detached. None
        is left out; one may be given again."""
        ...

    async def moves(self) -> list[TenantMove]:
        """The moves of tenants that are under way from this store or to it, by their tenants."""
        return []

    async def acknowledge(self, move: TenantMove, instance_id: str) -> None:
        """Say that an instance goes by a step of a move: in `frozen` and `arrived` it does nothing for the tenant."""

    async def end_overdue_moves(self) -> list[str]:
        """Give up the moves from this store that have been `frozen` for longer than announced: their tenants are open
        here again, as before. Returns them."""
        return []
