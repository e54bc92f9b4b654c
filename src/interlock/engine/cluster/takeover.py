"""Takeover of dead gateways' lanes: many with one claim, read later and a few at a time (C-4).

A claim is one statement for one lane as for CLAIM_LIMIT. Each gateway claims its share of the orphans, and those of the
others once it finds none of its own. Of a session only its clock is read, and again after the claim if it has none: a
session without a clock is left without an owner, and is read on demand. The others are read in the background, the
nearest deadline first. The next claim begins as soon as enough of them are being read, and its clocks are read during
the claim before. A gateway that is behind claims nothing, and passes on what it has claimed and not read.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Collection, Container, Mapping, Sequence
from typing import NamedTuple, Protocol
from zlib import crc32

import structlog

from interlock.ports.leases import Gone, Leases
from interlock.ports.ledger import LaneName
from interlock.ports.signals import Signal
from interlock.ports.stored_lanes import SessionClock

ORPHANS_SEEN = 2_048
"""Maximum number of orphaned lanes that one look returns, of all shares."""
CLAIM_LIMIT = 128
"""Maximum number of lanes in one claim."""
UNREAD_LIMIT = 128
"""Claimed lanes that are due and not read yet; from this number on no others are claimed."""
LOOK_AGAIN_S = 0.1
"""Maximum wait of a takeover for room in the queue of lanes to read, and its pause if it could claim none of many."""
CLAIM_FRESH_S = 3.0
"""A lane that is read within this time after its claim is read under the claim's epoch; later it is taken again."""
STEP_S = 5.0
"""A step of a takeover that takes longer is abandoned, and retried with the next beat."""
KEY_LANES = "key/"
DUTY_LANES = "duty/"
NAMED_LANES = (KEY_LANES, DUTY_LANES)
log = structlog.get_logger("interlock.cluster")


class Clocked(NamedTuple):
    """A session with a clock: in how many seconds it is due, and the row that shows it. A tenant's own lane is due at
    once, and has no such row."""

    lane: LaneName
    delay_s: float
    clock: SessionClock | None = None

    @property
    def runner_id(self) -> str | None:
        """Return the runner of the session."""
        return self.clock.runner_id if self.clock is not None else None


class Heir(Protocol):
    """The reader of claimed lanes."""

    async def clocked(self, lanes: Sequence[LaneName]) -> list[Clocked]:
        """Return the sessions of these lanes that have a clock, the nearest first. Raises LedgerError."""
        ...

    async def let_go_older(self, epochs: Mapping[LaneName, int]) -> None:
        """Drop those of these lanes that are in memory under an earlier epoch: another gateway may have written since
        they were read."""
        ...

    def take_up(self, one: Clocked) -> None:
        """Read the session when it is due, and run its clocks."""
        ...

    def unread(self) -> int:
        """Return how many sessions are due and not read yet."""
        ...

    async def fewer_unread(self, limit: int, within_s: float) -> None:
        """Wait until `unread` is below the limit, for `within_s` at most."""
        ...

    def put_off(self, lanes: Container[LaneName]) -> list[LaneName]:
        """Forget those of these sessions that are due and whose reading has not begun; returns each once. The others
        stay due."""
        ...


class LaneClaim(NamedTuple):
    """A lane that this gateway claimed and has not read."""

    epoch: int
    at_s: float


class Takeover:
    """Claims lanes of dead gateways. `behind` returns whether this gateway should take on nothing more."""

    def __init__(self, leases: Leases, instance_id: Callable[[], str], behind: Callable[[], bool]) -> None:
        self._leases = leases
        self._instance_id = instance_id
        self._behind = behind
        self._claims: dict[LaneName, LaneClaim] = {}
        self.counted = Signal[[int, int]]()
        """Sent with the numbers of sessions that were claimed and passed on."""

    def epoch_of(self, lane: LaneName) -> int | None:
        """Return the epoch of a lane that was claimed a moment ago; each is returned once."""
        claim = self._claims.pop(lane, None)
        fresh = claim is not None and asyncio.get_running_loop().time() < claim.at_s + CLAIM_FRESH_S
        return claim.epoch if claim is not None and fresh else None

    def forget(self) -> None:
        """Forget all claims, since this gateway was considered dead."""
        self._claims.clear()

    async def run(self, heir: Heir, found: Sequence[LaneName], live: Collection[str] = ()) -> bool:
        """Claim those of the found lanes that this gateway can read soon, first its share among the `live` gateways;
        returns whether more may be claimable now. If so and none was claimed, it has paused before. Raises LedgerError,
        TimeoutError."""
        if self._behind():
            await self.pass_on(heir)
            return False
        share = self._share(found, live)
        claimed = await self._claim_each(heir, share)
        if not claimed and self._has_room(heir):
            # One claim of the rest, since its gateways probably claim it in a moment. Each starts at another offset.
            rest = sorted(set(found).difference(share), key=self._place)
            claimed = await self._claim_each(heir, rest[:CLAIM_LIMIT])
        if self._behind():
            return False
        if not claimed and self._has_room(heir):
            if len(found) < ORPHANS_SEEN:
                return False
            await asyncio.sleep(LOOK_AGAIN_S)  # Others lock them, or their tenants are being moved.
        return bool(found)

    def _has_room(self, heir: Heir) -> bool:
        return not self._behind() and heir.unread() < UNREAD_LIMIT

    def _share(self, found: Sequence[LaneName], live: Collection[str]) -> list[LaneName]:
        """Return this gateway's share of the lanes: each live gateway has another one."""
        mine = self._instance_id()
        gateways = sorted({*live, mine})
        return [lane for lane in found if gateways[crc32(lane.name.encode()) % len(gateways)] == mine]

    def _place(self, lane: LaneName) -> bytes:
        return hashlib.sha256(f"{self._instance_id()}/{lane.name}".encode()).digest()

    async def _claim_each(self, heir: Heir, lanes: Sequence[LaneName]) -> int:
        """Claim these lanes, CLAIM_LIMIT at a time, while there is room to read them; returns how many were claimed.
        The clocks of the next portion are read during a claim."""
        claimed, idle = 0, dict[LaneName, LaneClaim]()
        portions = deque(lanes[start:start + CLAIM_LIMIT] for start in range(0, len(lanes), CLAIM_LIMIT))
        reading: asyncio.Task[Mapping[LaneName, Clocked]] | None = None
        mine = self._instance_id()
        try:
            while portions:
                await heir.fewer_unread(UNREAD_LIMIT, LOOK_AGAIN_S)
                if not self._has_room(heir) or mine != self._instance_id():
                    break
                portion = portions.popleft()
                clocked = await (reading or _clocked(heir, _sessions(portion)))
                reading = asyncio.create_task(_clocked(heir, _sessions(portions[0]))) if portions else None
                epochs = await self._claim(heir, portion, clocked)
                claimed += len(epochs)
                idle |= {lane: claim for lane, claim in epochs.items() if lane not in clocked}
        except Gone:
            idle.clear()  # They are orphans again.
            raise
        finally:
            if reading is not None:
                await asyncio.gather(reading, return_exceptions=True)
            if idle and mine == self._instance_id():
                await self._release_idle(heir, idle, mine)
        return claimed

    async def _claim(self, heir: Heir, lanes: Sequence[LaneName], clocked: Mapping[LaneName, Clocked]
                     ) -> dict[LaneName, LaneClaim]:
        """Claim these lanes together; returns those that were claimed. Those with a clock are read."""
        mine = self._instance_id()
        named = [(lane, clocked[lane].runner_id if lane in clocked else None) for lane in lanes]
        try:
            async with asyncio.timeout(STEP_S):
                epochs = await self._leases.claim(named, mine)
        except Gone:
            raise
        except Exception:
            # Whether they were claimed is unknown: reading one takes it, or finds its owner.
            for one in clocked.values():
                heir.take_up(one)
            raise
        await heir.let_go_older(epochs)
        if mine != self._instance_id():
            return {}  # This gateway was considered dead meanwhile, so these are orphans again.
        now_s = asyncio.get_running_loop().time()
        claims = {lane: LaneClaim(epoch, now_s) for lane, epoch in epochs.items()}
        for one in clocked.values():
            if one.lane in claims:
                self._claims[one.lane] = claims[one.lane]
                heir.take_up(one)
        self.counted(len(_sessions(list(claims))), 0)
        return claims

    async def _release_idle(self, heir: Heir, idle: Mapping[LaneName, LaneClaim], mine: str) -> None:
        """Release claimed lanes without a clock. Those that have one now are read: their owner may be alive without
        knowing that it is considered dead, and could write until they were claimed. Raises LedgerError,
        TimeoutError."""
        rest, sessions = dict(idle), _sessions(list(idle))
        try:
            found = await _clocked(heir, sessions)
        except Exception:
            for lane in sessions:
                heir.take_up(Clocked(lane, 0.0))
            raise
        for one in found.values():
            self._claims[one.lane] = rest.pop(one.lane)
            heir.take_up(one)
        if rest:
            await self._leases.release([(lane, claim.epoch) for lane, claim in rest.items()], mine)

    async def pass_on(self, heir: Heir) -> None:
        """Pass on what was claimed, is due and was not read. Raises LedgerError."""
        lanes = [(lane, self._claims.pop(lane).epoch) for lane in heir.put_off(self._claims)]
        if not lanes:
            return
        try:
            await self._leases.pass_on(lanes, self._instance_id())
        except Exception:
            # No other gateway may find them: reading one takes it, or finds its owner.
            for lane, _ in lanes:
                heir.take_up(Clocked(lane, 0.0))
            raise
        self.counted(0, len(lanes))
        log.warning("lanes_passed_on", lanes=len(lanes))


def _sessions(lanes: Sequence[LaneName]) -> list[LaneName]:
    return [lane for lane in lanes if not lane.name.startswith(NAMED_LANES)]


async def _clocked(heir: Heir, sessions: Sequence[LaneName]) -> Mapping[LaneName, Clocked]:
    """Return those of these sessions that have a clock. Raises LedgerError, TimeoutError."""
    if not sessions:
        return {}
    async with asyncio.timeout(STEP_S):
        return {one.lane: one for one in await heir.clocked(sessions)}
