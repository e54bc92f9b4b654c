"""Instances and leases in dicts, beside the ledger in dicts: gateways of one process share both. For tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import takewhile

from interlock.ports.clock import Clock
from interlock.ports.leases import (
    INSTANCE_LIFE_MS,
    PASSED_ON,
    ClusterMember,
    Gone,
    Instance,
    Lease,
    Leases,
    LinkChanges,
    Overtaken,
    RunnerLocation,
    Survey,
    TenantMove,
)
from interlock.ports.ledger import LaneName, NameTaken


class MemoryLeases(Leases):
    """See `interlock.ports.leases.Leases`. `epochs` is `MemoryLedger.lanes`, which its commits are compared with."""

    def __init__(self, epochs: dict[LaneName, int], clock: Clock) -> None:
        self._epochs = epochs
        self._clock = clock
        self._owners: dict[LaneName, str] = {}
        self._instances: dict[str, tuple[Instance, int]] = {}
        self._since: dict[str, int] = {}
        self._links: dict[str, RunnerLocation] = {}
        self._numbers: dict[str, int] = {}
        self._changed: dict[str, int] = {}
        """The number of each link's last change; the newest change is last."""
        self._changes = 0
        self.under_way: dict[str, TenantMove] = {}
        """Moves of tenants, as a test has them."""
        self.acknowledged: list[tuple[TenantMove, str]] = []

    @property
    def joined(self) -> int:
        """Return how many instances there have been."""
        return len(self._instances)

    async def now_ms(self) -> int:
        return self._clock.now_ms()

    async def join(self, instance: Instance, life_ms: int = INSTANCE_LIFE_MS) -> None:
        if instance.instance_id in self._instances:
            raise NameTaken(f"There was an instance {instance.instance_id} already.")
        self._since[instance.instance_id] = self._clock.now_ms()
        self._instances[instance.instance_id] = instance, self._clock.now_ms() + life_ms

    async def renew(self, instance_id: str, life_ms: int = INSTANCE_LIFE_MS) -> bool:
        if not self._alive(instance_id):
            return False
        self._instances[instance_id] = self._instances[instance_id][0], self._clock.now_ms() + life_ms
        return True

    async def leave(self, instance_id: str) -> None:
        self._instances.pop(instance_id, None)

    async def instances(self) -> list[Instance]:
        return [one for name, (one, _) in sorted(self._instances.items()) if self._alive(name)]

    async def next_expiry_ms(self) -> int | None:
        now_ms = self._clock.now_ms()
        return min((ends_ms - now_ms for _, ends_ms in self._instances.values() if ends_ms > now_ms), default=None)

    async def survey(self) -> Survey:
        lanes = Counter(self._owners.values())
        return Survey("in memory", [
            ClusterMember(name, one.address, self._since[name], expires_ms - INSTANCE_LIFE_MS, lanes[name])
            for name, (one, expires_ms) in sorted(self._instances.items()) if self._alive(name)])

    async def take(self, lane: LaneName, instance_id: str, runner_id: str | None = None) -> Lease:
        self._check(instance_id)
        link = self._links.get(runner_id) if runner_id is not None else None
        if link is not None and link.tenant_id != lane.tenant_id:
            link = None
        linked = link.instance_id if link is not None and self._alive(link.instance_id) else None
        holder = linked or await self.owner(lane)
        if holder not in (None, instance_id):
            return Lease(self._epochs.get(lane, 0), holder)
        self._epochs[lane] = self._epochs.get(lane, 0) + 1
        self._owners[lane] = instance_id
        return Lease(self._epochs[lane], instance_id)

    async def release(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
        for lane, epoch in lanes:
            if self._owners.get(lane) == instance_id and self._epochs.get(lane) == epoch:
                del self._owners[lane]

    async def claim(self, lanes: Sequence[tuple[LaneName, str | None]], instance_id: str) -> dict[LaneName, int]:
        self._check(instance_id)
        leases = {lane: await self.take(lane, instance_id, runner_id) for lane, runner_id in lanes
                  if lane in self._owners and await self.owner(lane) is None}
        return {lane: lease.epoch for lane, lease in leases.items() if lease.instance_id == instance_id}

    async def pass_on(self, lanes: Sequence[tuple[LaneName, int]], instance_id: str) -> None:
        for lane, epoch in lanes:
            if self._owners.get(lane) == instance_id and self._epochs.get(lane) == epoch:
                self._owners[lane] = PASSED_ON

    async def owned(self, lanes: Sequence[LaneName], instance_id: str) -> dict[LaneName, int]:
        return {lane: self._epochs[lane] for lane in lanes if self._owners.get(lane) == instance_id}

    async def owner(self, lane: LaneName) -> str | None:
        owner = self._owners.get(lane)
        return owner if owner is not None and self._alive(owner) else None

    async def orphans(self, limit: int) -> list[LaneName]:
        return [lane for lane, owner in self._owners.items() if not self._alive(owner)][:limit]

    async def attach(self, link: RunnerLocation, number: int = 0) -> None:
        self._check(link.instance_id)
        newest = self._numbers.get(link.runner_id, 0)
        if 0 < number <= newest:
            raise Overtaken(link.runner_id, newest)
        self._numbers[link.runner_id] = max(number, newest)
        self._put(link)

    async def update(self, link: RunnerLocation) -> bool:
        if not self._is_newest(link.tenant_id, link.runner_id, link.link_id):
            return False
        self._put(link)
        return True

    async def detach(self, tenant_id: str, runner_id: str, link_id: str) -> bool:
        if not self._is_newest(tenant_id, runner_id, link_id):
            return False
        self._put(self._links[runner_id]._replace(instance_id="", present=b""))
        return True

    async def links_since(self, upto: int) -> LinkChanges:
        changed = takewhile(lambda one: self._changed[one] > upto, reversed(self._changed))
        found = [self._links[runner_id] for runner_id in changed]
        return LinkChanges([link for link in found if upto or link.instance_id], self._changes)

    async def moves(self) -> list[TenantMove]:
        return [move for _, move in sorted(self.under_way.items()) if move.ends_ms > self._clock.now_ms()]

    async def acknowledge(self, move: TenantMove, instance_id: str) -> None:
        self.acknowledged.append((move, instance_id))

    def _put(self, link: RunnerLocation) -> None:
        self._links[link.runner_id] = link
        self._changes += 1
        self._changed.pop(link.runner_id, None)
        self._changed[link.runner_id] = self._changes

    def _is_newest(self, tenant_id: str, runner_id: str, link_id: str) -> bool:
        known = self._links.get(runner_id)
        return (known is not None and known.tenant_id == tenant_id and known.link_id == link_id
                and known.instance_id != "")

    def _alive(self, instance_id: str) -> bool:
        found = self._instances.get(instance_id)
        return found is not None and found[1] > self._clock.now_ms()

    def _check(self, instance_id: str) -> None:
        if not self._alive(instance_id):
            raise Gone(f"The instance {instance_id} did not renew for too long, and is taken for dead.")
