"""An engine in a cluster: what it releases, takes over, sends and receives (C-4). A single engine uses none of this.

The rows of the links show which runners are attached anywhere; their facts are sent as hints, and read again if a hint
may have been lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

import msgspec

from interlock.engine.bridge.tenant_lane import is_tenant_lane
from interlock.engine.cluster.cluster import Cluster, Holder
from interlock.engine.cluster.heartbeats import NoteReceiver, OthersBeats, OwnBeats
from interlock.engine.cluster.takeover import Clocked
from interlock.engine.drains import Drains
from interlock.engine.lanes.lanes import Lanes
from interlock.engine.presence import Links, Present, RunnerPresence, facts_of
from interlock.ports.clock import Clock
from interlock.ports.leases import RunnerLocation
from interlock.ports.ledger import LaneName
from interlock.ports.signals import Signal
from interlock.protocol.payloads import RunnerHeartbeat

WHOLE_EVERY_LOOKS = 60
"""Looks (some ten minutes of them) after which all links are read, not only the changed ones: a gateway of an earlier
version removes a link without a trace, and its hint may have been lost."""


class Joining(Protocol):
    """The engine, as it joins a cluster."""

    @property
    def lanes(self) -> Lanes: ...

    @property
    def presence(self) -> RunnerPresence: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def drains(self) -> Drains: ...

    async def read_rules(self) -> None: ...

    @property
    def up(self) -> bool: ...


_row = msgspec.msgpack.Decoder(RunnerLocation)


class ClusterPeers(Holder):
    """The connection of an engine to a cluster. `on_replaced` is called with a runner that has attached elsewhere."""

    def __init__(self, engine: Joining, cluster: Cluster, on_replaced: Callable[[str], None]) -> None:
        self._engine = engine
        self.cluster = cluster
        self._on_replaced = on_replaced
        self.on_let_go = Signal[[]]()
        """Sent when every runner's link is to be closed."""
        self._looking = asyncio.Lock()
        self._next_look: asyncio.Task[None] | None = None
        self._looks = self._upto = 0
        cluster.bind(self)
        engine.drains.on_changed.connect(partial(cluster.hint, "drains"))
        cluster.on_hint("drains", lambda _: engine.drains.learn())
        cluster.on_hint("rules", lambda _: engine.read_rules())
        cluster.on_hint("spending", lambda _: engine.lanes.learn_spending())
        cluster.on_hint("runners", self._runners_changed)
        presence, clock = engine.presence, engine.clock
        self._beats = OwnBeats(lambda: cluster.instance_id, partial(cluster.hint, "beats"), clock.now_ms)
        self._others = OthersBeats(NoteReceiver(presence.unchanged_elsewhere, presence.changed_elsewhere),
                                   lambda instance_id: cluster.hint("beats_wanted", instance_id.encode()),
                                   clock.monotonic_ms)
        cluster.on_hint("beats", self._receive_beats)
        cluster.on_hint("beats_wanted", self._asked_for_beats)

    # --- called by the cluster ---
    def epoch_of(self, session_id: str) -> int | None:
        shell = self._engine.lanes.peek(session_id)
        return shell.epoch if shell is not None and not shell.broken else None

    def delivered_of(self, session_id: str) -> int | None:
        shell = self._engine.lanes.peek(session_id)
        return shell.delivered if shell is not None and not shell.broken else None

    async def let_go(self) -> None:
        self.on_let_go()
        await self._engine.lanes.let_go()

    @property
    def ready(self) -> bool:
        return self._engine.up

    async def clocked(self, lanes: Sequence[LaneName]) -> list[Clocked]:
        known, here, now_ms = self._engine.lanes, self._engine.presence.is_here, self._engine.clock.now_ms()
        of_tenants = [Clocked(one, 0.0) for one in lanes if is_tenant_lane(one.name)]
        found = await known.ledger.session_clocks([one for one in lanes if not is_tenant_lane(one.name)])
        due = sorted((one.deadline_ms, one) for one in found if one.deadline_ms is not None)
        # What waits for a runner that is here already begins now, and not at the deadline of its wait.
        delays = (0.0 if here(one.runner_id) else known.delay_s(one.state, at_ms, now_ms) for at_ms, one in due)
        return [*of_tenants, *(Clocked(one.lane, delay_s, one)
                               for delay_s, (_, one) in zip(delays, due, strict=True))]

    async def let_go_older(self, epochs: Mapping[LaneName, int]) -> None:
        lanes = self._engine.lanes
        await lanes.let_go([shell for lane, epoch in epochs.items()
                            if (shell := lanes.peek(lane.name)) is not None and shell.epoch < epoch])

    def take_up(self, one: Clocked) -> None:
        if one.delay_s > 0:
            self._engine.lanes.wake(one.lane, one.delay_s)
        elif one.clock is None:
            self._engine.lanes.due.read_soon([one.lane])
        else:
            self._engine.lanes.due.read_claimed(one.clock)

    def unread(self) -> int:
        return self._engine.lanes.due.unread()

    async def fewer_unread(self, limit: int, within_s: float) -> None:
        await self._engine.lanes.due.fewer_unread(limit, within_s)

    def put_off(self, lanes: Container[LaneName]) -> list[LaneName]:
        return self._engine.lanes.due.put_off(lanes)

    # --- runners ---
    async def attach(self, present: Present) -> None:
        """Record that a runner has attached: only this gateway can own its sessions. Raises Overtaken if its hello was
        received late, LedgerError."""
        record, known = present.record, facts_of(present)
        await self.cluster.attach(record.runner_id, record.tenant_id, present.link_id, known, present.hello.link_number)
        self._hint(RunnerLocation(record.runner_id, record.tenant_id, self.cluster.instance_id, present.link_id, known))
        await self._let_go_lost(record.runner_id)

    async def _let_go_lost(self, runner_id: str) -> None:
        """Drop lanes of a runner that another gateway has owned since they were read: one that writes nothing is never
        refused, and would not continue what that gateway began. Raises LedgerError."""
        lanes = self._engine.lanes
        held = {shell.lane_name: shell for shell in lanes.of_runners(runner_id)}
        lost = await self.cluster.lost([(lane, shell.epoch) for lane, shell in held.items()])
        await lanes.let_go([held[lane] for lane in lost if lanes.peek(lane.name) is held[lane]])

    async def detach(self, present: Present) -> None:
        """Record that its link has closed, and drop its lanes if another link of it, elsewhere, has replaced this one.
        Raises LedgerError."""
        record = present.record
        await self._let_go_of([record.runner_id])
        self._beats.drop_link(record.runner_id, present.link_id)
        await self.cluster.detach(record.tenant_id, record.runner_id, present.link_id)
        self._hint(RunnerLocation(record.runner_id, record.tenant_id, "", present.link_id, b""))

    def add_heartbeat(self, present: Present, heartbeat: RunnerHeartbeat) -> None:
        """Publish the agents that it has reported."""
        self._beats.add(present.record.runner_id, present.link_id, heartbeat.agents)

    async def look_at_runners(self) -> None:
        """Read which runners are attached anywhere. Raises LedgerError."""
        # A caller that arrives during a read needs the next one, and shares it with all that arrive until then.
        if self._next_look is None:
            self._next_look = asyncio.create_task(self._look_next(), name="looking at runners")
        await asyncio.shield(self._next_look)

    async def _look_next(self) -> None:
        async with self._looking:
            self._next_look = None
            whole = self._looks % WHOLE_EVERY_LOOKS == 0
            found = await self.cluster.links_since(0 if whole else self._upto)
            alive = await self.cluster.alive()  # After the links: one that has joined since is not taken for dead.
            self._looks, self._upto = self._looks + 1, found.upto
            seen = Links(found.links, alive, self.cluster.instance_id, whole)
            for runner_id in self._engine.presence.learn(seen):
                self._on_replaced(runner_id)
            await self._let_go_of(self._engine.lanes.runner_ids())

    async def _let_go_of(self, runner_ids: Iterable[str]) -> None:
        """Drop lanes of runners that have attached elsewhere: they are decided there."""
        presence = self._engine.presence
        moved = [runner_id for runner_id in runner_ids
                 if (present := presence.get(runner_id)) is not None and present.instance_id]
        if gone := self._engine.lanes.of_runners(*moved):
            await self._engine.lanes.let_go(gone)

    def _hint(self, row: RunnerLocation) -> None:
        """Notify the other gateways of a runner's location, with its row: a thousand runners that attach at once must
        not make each gateway read all rows for each."""
        self.cluster.hint("runners", msgspec.msgpack.encode(row))

    async def _runners_changed(self, body: bytes) -> None:
        if not body:
            await self.look_at_runners()
            return
        row = _row.decode(body)
        presence = self._engine.presence
        if not row.instance_id:
            presence.left_elsewhere(row.runner_id, row.link_id, self._engine.clock.now_ms())
            return
        if presence.learn_one(row) and presence.link_of(row.runner_id) is not None:
            self._on_replaced(row.runner_id)
        await self._let_go_of([row.runner_id])

    def _receive_beats(self, body: bytes) -> None:
        if body:
            self._others.receive(body)

    def _asked_for_beats(self, body: bytes) -> None:
        if body == self.cluster.instance_id.encode():
            self._beats.send_all_in_full()
