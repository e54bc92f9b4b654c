"""A gateway in a cluster: it renews its lease, owns lanes, receives notifications of changes, and takes over from dead
gateways (C-4).

Three tasks run periodically, independently of each other: one renews the lease, one returns lanes and rereads what a
lost message would have reported, one takes over from dead gateways. A gateway that finds itself considered dead
releases everything and rejoins under a new id.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import msgspec
import structlog

from interlock.engine.cluster.relay import StreamRelay
from interlock.engine.cluster.renewal import Renewal
from interlock.engine.cluster.takeover import DUTY_LANES, KEY_LANES, ORPHANS_SEEN, Heir, Takeover
from interlock.engine.cluster.tenant_moves import TenantMoves
from interlock.engine.membership import Elsewhere, Hold, Room
from interlock.engine.viewers.viewers import Viewers
from interlock.ports.bus import Bus, BusError, BusTimeout, Subscription
from interlock.ports.clock import Entropy
from interlock.ports.leases import RENEW_EVERY_MS, Gone, Instance, Leases, LinkChanges, RunnerLocation
from interlock.ports.ledger import FIRST_EPOCH, LaneName, Ledger, LedgerError
from interlock.ports.outage_log import OutageLog
from interlock.ports.signals import Signal

STILL_THERE_S = 0.5
"""While a request to another gateway is pending, how often to check that this gateway is still alive."""
LOOK_EVERY_BEATS = 10
"""Beats after which everything that a lost message would have reported is read again."""
log = structlog.get_logger("interlock.cluster")

Receive = Callable[[bytes], Awaitable[None] | None]
Answer = Callable[[bytes], Awaitable[bytes]]


class Hint(msgspec.Struct, array_like=True):
    """A change of data that other gateways may cache."""

    instance_id: str
    kind: str
    what: bytes


_hints = msgspec.msgpack.Decoder(Hint)


class Holder(Heir, Protocol):
    """The owner of lanes and links, as the cluster uses it."""

    def epoch_of(self, session_id: str) -> int | None: ...

    def delivered_of(self, session_id: str) -> int | None: ...

    async def let_go(self) -> None:
        """Drop every lane and every link: other gateways own them now."""
        ...

    @property
    def ready(self) -> bool:
        """Return whether sessions of dead gateways may be taken over: drains and rules have been read."""
        ...


class Cluster(Room):
    """A cluster member; see `interlock.engine.membership.Room`. `name` distinguishes clusters on one bus, `address` is
    shown to people."""

    shared = True

    def __init__(self, leases: Leases, bus: Bus, ledger: Ledger, viewers: Viewers, entropy: Entropy, name: str,
                 address: str = "") -> None:
        self.bus = bus
        self._leases = leases
        self._entropy = entropy
        self._name = name
        self._address = address
        self.instance_id = ""
        self._holder: Holder | None = None
        self.relay = StreamRelay(bus, ledger, viewers, self)
        viewers.share(self.relay)
        self._answers: dict[str, Answer] = {"text": self._answer_text}
        self._serving: list[Subscription] = []
        self._receivers: dict[str, list[Receive]] = {}
        self._unread: set[asyncio.Task[None]] = set()
        self._released: list[Hold] = []
        self._passed_on: list[Hold] = []
        self._duties: set[LaneName] = set()
        self._beats = 0
        self._tasks: list[asyncio.Task[None]] = []
        self.on_death = Signal[[]]()
        """Sent when the other gateways considered this one dead."""
        self.renewal = Renewal(leases, lambda: self.instance_id, self.come_back)
        self.takeover = Takeover(leases, lambda: self.instance_id, lambda: self.renewal.behind)
        self.tenant_moves = TenantMoves(leases, lambda: self.instance_id)
        self._coming_back = asyncio.Lock()

    def bind(self, holder: Holder) -> None:
        """Set the owner of the lanes and links; before `start`."""
        self._holder = holder

    # --- membership ---
    async def start(self) -> None:
        """Join the cluster; `run` keeps the membership. Raises LedgerError, BusError."""
        self.bus.on_gap(self.read_again)
        self._serving.append(await self.bus.subscribe(self.subject("hint"), self._receive_hint))
        await self._come()

    def run(self) -> None:
        """Run the periodic tasks."""
        self._tasks = [asyncio.create_task(self.renewal.run(), name="renewal"),
                       asyncio.create_task(self._each_beat(self.beat), name="cluster"),
                       asyncio.create_task(self._each_beat(self.take_over_all), name="takeover"),
                       asyncio.create_task(self._each_beat(self.tenant_moves.look), name="tenant moves")]

    async def stop(self) -> None:
        """Leave the cluster: others may take what was owned at once. The lanes have ended before."""
        self.abandon()
        await asyncio.gather(*self._tasks, *self._unread, return_exceptions=True)
        await self.relay.stop()
        for serving in self._serving:
            await serving.end()
        with suppress(LedgerError):
            await self._leases.leave(self.instance_id)

    def abandon(self) -> None:
        """End the tasks without notifying the ledger, whose leases then expire by themselves."""
        for task in (*self._tasks, *self._unread):
            task.cancel()

    async def _come(self) -> None:
        instance_id = "i_" + self._entropy(8).hex()
        # Before it joins: a bus that does not answer must not delay the renewal of a lease that has begun.
        for what, answer in self._answers.items():
            self._serving.append(await self.bus.serve(self._of(instance_id, what), answer))
        asked_s = asyncio.get_running_loop().time()
        await self._leases.join(Instance(instance_id, self._address))
        self.renewal.joined(asked_s)
        self.instance_id = instance_id
        log.info("instance_joined", instance_id=instance_id)

    async def _each_beat(self, step: Callable[[], Awaitable[float | None]]) -> None:
        """Run a step each second, or after the seconds that the last call returned."""
        loop = asyncio.get_running_loop()
        outage = OutageLog(log, "cluster_beat_failed", "cluster_beat_succeeds", loop.time)
        wait_s = None
        while True:
            await asyncio.sleep(RENEW_EVERY_MS / 1000 if wait_s is None else wait_s)
            wait_s = None
            try:
                wait_s = await step()
            except (LedgerError, BusError, TimeoutError) as error:
                outage.failed(str(error) or type(error).__name__)
            except Exception:
                log.exception("cluster_beat_failed")
            else:
                outage.ended()

    async def beat(self) -> None:
        """Return unneeded lanes, and periodically read everything again. Raises LedgerError, BusError."""
        await self._hand_over(self._passed_on, self._leases.pass_on)
        await self._hand_over(self._released, self._leases.release)
        self._beats += 1
        if self._beats % LOOK_EVERY_BEATS == 0:
            self.read_again()
            await self.relay.look()

    async def _hand_over(self, waiting: list[Hold], hand_over: Callable[[list[Hold], str], Awaitable[None]]) -> None:
        """Hand over the lanes that wait for it; those that cannot be handed over now keep waiting. Raises
        LedgerError."""
        lanes, mine = list(waiting), self.instance_id
        waiting.clear()
        if not lanes:
            return
        try:
            await hand_over(lanes, mine)
        except Exception:
            if mine == self.instance_id:  # Otherwise they are orphans now.
                waiting[:0] = lanes
            raise

    async def take_over_all(self) -> float:
        """Claim lanes of dead gateways until none is left; returns the seconds until the next look: a gateway that does
        not renew its lease is found as soon as it expires. Raises LedgerError, TimeoutError."""
        while await self.take_over():  # It waits for the ledger, and for room to read.
            pass
        expiry_ms = await self._leases.next_expiry_ms()
        return (RENEW_EVERY_MS if expiry_ms is None else min(RENEW_EVERY_MS, expiry_ms)) / 1000

    async def take_over(self) -> bool:
        """Claim lanes of dead gateways; returns whether more may be claimable now. Raises LedgerError,
        TimeoutError."""
        if self._holder is None or not self._holder.ready:
            return False
        mine = self.instance_id
        found = await self._leases.orphans(ORPHANS_SEEN)
        if found:  # A gateway has died: its runners are detached.
            self._read_again(("runners",))
        try:
            return await self.takeover.run(self._holder, found, await self.alive() if found else ())
        except Gone:
            await self.come_back(mine)
            return False

    async def come_back(self, former: str) -> None:
        """Release everything after being considered dead under an id, and rejoin under another. A second caller finds
        it done."""
        async with self._coming_back:
            if self.instance_id != former:
                return
            self._log_loss(former)
            self._duties.clear()
            self.takeover.forget()
            self.on_death()
            if self._holder is not None:
                await self._holder.let_go()
            self._released.clear()
            self._passed_on.clear()  # The lanes of dead gateways are found without it.
            hints = self._serving[0]
            for serving in self._serving[1:]:
                await serving.end()
            self._serving = [hints]
            await self._come()
        self.read_again()

    def _log_loss(self, former: str) -> None:
        loss = self.renewal.lost()
        spent = {} if loss.spent is None else {"waited_ms": round(loss.spent.waited_s * 1000),
                                               "ran_ms": round(loss.spent.ran_s * 1000)}
        log.warning("instance_taken_for_dead", instance_id=former, cause=loss.cause, reason=loss.sentence(),
                    since_ms=round(loss.since_s * 1000), **spent)

    # --- owning ---
    async def take(self, lane: LaneName, runner_id: str | None = None) -> int:
        if (epoch := self.takeover.epoch_of(lane)) is not None:
            return epoch
        while True:
            mine = self.instance_id
            try:
                lease = await self._leases.take(lane, mine, runner_id)
            except Gone:
                await self.come_back(mine)
                continue
            if lease.instance_id != mine:
                raise Elsewhere(lease.instance_id)
            return lease.epoch

    async def begin(self, lane: LaneName, runner_id: str) -> int | None:
        return await self.take(lane, runner_id)

    @property
    def begins(self) -> bool:
        return self._leases.begins

    async def begin_new(self, lane: LaneName, runner_id: str) -> int | None:
        had = await self._leases.begin(lane, self.instance_id, runner_id)
        return FIRST_EPOCH if had else None

    def give_back(self, lane: LaneName, epoch: int) -> None:
        self._released.append((lane, epoch))

    def pass_on(self, lane: LaneName, epoch: int) -> None:
        self._passed_on.append((lane, epoch))

    @asynccontextmanager
    async def hold(self, tenant_id: str, name: str) -> AsyncGenerator[Hold | None]:
        lane = LaneName(tenant_id, f"{KEY_LANES}{tenant_id}/{name}")
        epoch = await self.take(lane)
        try:
            yield lane, epoch
        finally:
            with suppress(LedgerError):  # Then no gateway owns it once this one has left.
                await self._leases.release([(lane, epoch)], self.instance_id)

    async def leads(self, duty: str) -> bool:
        lane = LaneName("", DUTY_LANES + duty)
        if lane in self._duties and await self._leases.owner(lane) == self.instance_id:
            return True
        try:
            await self.take(lane)
        except Elsewhere:
            return False
        self._duties.add(lane)
        return True

    async def lost(self, holds: Sequence[Hold]) -> list[LaneName]:
        """Return those of these lanes that this gateway does not own under these epochs any more. Raises
        LedgerError."""
        epochs = await self._leases.owned([lane for lane, _ in holds], self.instance_id) if holds else {}
        return [lane for lane, epoch in holds if epochs.get(lane) != epoch]

    def epoch_of(self, session_id: str) -> int | None:
        return self._holder.epoch_of(session_id) if self._holder is not None else None

    def delivered_of(self, session_id: str) -> int | None:
        return self._holder.delivered_of(session_id) if self._holder is not None else None

    # --- locations of runners ---
    async def links_since(self, upto: int) -> LinkChanges:
        """Return the changes among the links of all runners. Raises LedgerError."""
        return await self._leases.links_since(upto)

    async def alive(self) -> set[str]:
        """Return the live gateways. Raises LedgerError."""
        return {one.instance_id for one in await self._leases.instances()}

    async def attach(self, runner_id: str, tenant_id: str, link_id: str, present: bytes, number: int) -> None:
        """Record that a runner is attached here: only this gateway can own its sessions. Raises Overtaken,
        LedgerError."""
        mine = self.instance_id
        try:
            await self._leases.attach(RunnerLocation(runner_id, tenant_id, mine, link_id, present), number)
        except Gone:
            await self.come_back(mine)
            raise

    async def update(self, runner_id: str, tenant_id: str, link_id: str, present: bytes) -> None:
        """Record changed facts of an attached runner."""
        await self._leases.update(RunnerLocation(runner_id, tenant_id, self.instance_id, link_id, present))

    async def detach(self, tenant_id: str, runner_id: str, link_id: str) -> None:
        """Record that a link has closed."""
        await self._leases.detach(tenant_id, runner_id, link_id)

    # --- requests between gateways ---
    def answer(self, what: str, answer: Answer) -> None:
        """Register the handler of other gateways' requests; before `start`."""
        self._answers[what] = answer

    async def ask(self, instance_id: str, what: str, body: bytes, timeout_ms: int) -> bytes:
        """Send a request to another gateway. Raises BusError: BusTimeout after `timeout_ms`, whatever the bus and the
        ledger do, and earlier once the gateway is dead. A gateway that is killed during the request never answers, and
        its sessions are taken over long before `timeout_ms`."""
        asking = asyncio.ensure_future(self.bus.request(self._of(instance_id, what), body, timeout_ms))
        dying = asyncio.create_task(self._until_dead(instance_id), name="is it there")
        try:
            for one in (asking, dying):
                one.add_done_callback(_seen)
            await asyncio.wait({asking, dying}, timeout=timeout_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
            if asking.done():
                return asking.result()
            if dying.done():
                dying.result()
                raise BusError(f"The gateway {instance_id} died over it.")
            raise BusTimeout(f"The gateway {instance_id} did not answer within {timeout_ms / 1000:g} s.")
        finally:
            asking.cancel()
            dying.cancel()

    async def _until_dead(self, instance_id: str) -> None:
        """Return once a gateway is dead. A ledger that does not answer is no evidence of that."""
        while True:
            await asyncio.sleep(STILL_THERE_S)
            with suppress(LedgerError):
                if instance_id not in await self.alive():
                    return

    async def ask_owner(self, lane: LaneName, what: str, body: bytes, timeout_ms: int) -> bytes | None:
        if self.epoch_of(lane.name) is not None:
            return None
        owner = await self._leases.owner(lane)
        return None if owner in (None, self.instance_id) else await self.ask(owner, what, body, timeout_ms)

    async def _answer_text(self, body: bytes) -> bytes:
        return self.relay.so_far(body.decode())

    def subject(self, name: str) -> str:
        return f"{self._name}.{name}"

    def _of(self, instance_id: str, what: str) -> str:
        return self.subject(f"gateway.{instance_id}.{what}")

    # --- data that others may cache ---
    def hint(self, kind: str, what: bytes = b"") -> None:
        self.bus.publish(self.subject("hint"), msgspec.msgpack.encode(Hint(self.instance_id, kind, what)))

    def on_hint(self, kind: str, receive: Receive) -> None:
        self._receivers.setdefault(kind, []).append(receive)

    def _receive_hint(self, body: bytes) -> None:
        hint = _hints.decode(body)
        if hint.instance_id != self.instance_id:
            for receive in self._receivers.get(hint.kind, ()):
                self._deliver(hint.kind, receive, hint.what)

    def read_again(self) -> None:
        """Treat everything as changed: hints may have been lost."""
        self._read_again(self._receivers)

    def _read_again(self, kinds: Iterable[str]) -> None:
        for kind in kinds:
            for receive in self._receivers.get(kind, ()):
                self._deliver(kind, receive, b"")

    def _deliver(self, kind: str, receive: Receive, what: bytes) -> None:
        try:
            waiting = receive(what)
        except Exception:
            log.exception("hint_not_taken", kind=kind)
            return
        if waiting is None:
            return

        async def deliver(waiting: Awaitable[None]) -> None:
            try:
                await waiting
            except LedgerError as error:
                log.warning("hint_not_taken", kind=kind, error=str(error))
            except Exception:
                log.exception("hint_not_taken", kind=kind)

        task = asyncio.create_task(deliver(waiting), name=f"hint {kind}")
        self._unread.add(task)
        task.add_done_callback(self._unread.discard)
        if isinstance(waiting, Coroutine):
            # A task that is cancelled before its first step never awaits it.
            task.add_done_callback(lambda _: waiting.close())

    async def settled(self) -> None:
        """Return when every hint that was received is handled."""
        while self._unread:
            await asyncio.gather(*self._unread, return_exceptions=True)


def _seen(ended: asyncio.Future[Any]) -> None:
    """Retrieve the result of a task that is no longer awaited: the bus may be closed while it is abandoned."""
    if not ended.cancelled():
        ended.exception()
