"""The whole simulated world: gateways that come and go, runners, clients, viewers and faults, all from one seed."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple

from interlock.backends.bus_local.bus import Hub
from interlock.backends.memory.leases import MemoryLeases
from interlock.command.machine import TERMINAL
from interlock.command.policy.budget import Spending
from interlock.command.policy.policy import RuleSet
from interlock.engine.bridge.conditions import Conditions
from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.lane import Lane
from interlock.engine.bridge.lane_state import LaneHome, LaneState
from interlock.gateway.access.credentials import digest
from interlock.ports.ledger import LedgerWrite, Put, WriteBatch
from interlock.protocol.records import KeyRecord, RunnerRecord, TenantRecord
from interlock.protocol.resources import Actor
from interlock.session.turn_output import TurnFold
from proof.simulation.clients import Clients, Viewer
from proof.simulation.costs import READERS, Readers
from proof.simulation.gateway import LIMITS, Gateway, Shared
from proof.simulation.network import KeptTranscripts, Store
from proof.simulation.runner import AGENT, Runner
from proof.simulation.time import NOW_MS, SimulatedClock, SimulatedLoop

TENANTS = 4
SKEW_MS = 30_000
"""Clocks are off by up to this, so two of them by up to a minute."""
STEP_S = 0.5
"""Between two steps of a short run, on average."""
MOST_S = 60.0
"""A long run has its steps closer together, so that they all happen within this."""
STANDING_S = 30.0
"""The idle time after all have connected, so that the cost of idling is measured separately."""
CALM_S = 1_200.0
"""By then, with nothing failing any more, everything that was begun has ended: longer than the longest clocks."""


class Size(NamedTuple):
    """How much there is of everything."""

    runners: int = 30
    sessions: int = 200
    viewers: int = 20
    gateways: int = 3
    steps: int = 60
    failures: float = 2.0
    """Failures in a second, on average."""
    rtt: float = 0.0
    """A round trip between a gateway and the store, in milliseconds; see `proof/simulation/costs.py`."""
    readers: Readers = READERS
    """How many connections each gateway reads with."""
    looks: int = 0
    """Requests of clients as a gateway dies, in a cascade, each with a read that no other one shares."""

    @property
    def step_s(self) -> float:
        """Between two steps, on average."""
        return min(STEP_S, MOST_S / self.steps)


class World:
    """A cluster and its world, over one seed."""

    def __init__(self, loop: SimulatedLoop, seed: int, size: Size, *, earlier: bool = False, decide: Decide = decide
                 ) -> None:
        """With `earlier` its gateways renew and take over as they did once; `decide` is the kernel's, or what records
        or breaks it."""
        self.size = size
        self.draw = random.Random(seed)
        self.loop = loop
        self.store = Store()
        self.tenants = [f"tn{at}" for at in range(TENANTS)]
        leases = self.leases = MemoryLeases(self.store.lanes, SimulatedClock(loop))
        self.transcripts = KeptTranscripts()
        self.shared = Shared(loop, self.store, leases, Hub(), RuleSet(), self.transcripts, size.rtt / 1000,
                             size.readers, decide, earlier)
        self.befell: Counter[str] = Counter()
        self.gateways: list[Gateway] = []
        self.gone: list[Gateway] = []
        self.runners: list[Runner] = []
        self.viewers: list[Viewer] = []
        self.clients = Clients(self.store, self.choose, self._draws())
        self._names = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._healing: set[asyncio.Task[None]] = set()

    def _draws(self) -> random.Random:
        return random.Random(self.draw.random())

    def choose(self) -> Gateway:
        """A gateway that is not known to be dead; a paused one looks like any other."""
        return self.draw.choice(self.gateways)

    def tenant_of(self, runner_number: int) -> str:
        """Whose a runner is."""
        return self.tenants[runner_number % TENANTS]

    # --- how it begins ---
    async def settle(self) -> None:
        """Store the runners and clients in the ledger, and every session, idle."""
        await self.store.commit(WriteBatch([write for tenant in self.tenants for write in self._household(tenant)]))
        for at in range(self.size.runners):
            self.store.plant(self._runner_row(at))
        for start in range(0, self.size.sessions, 1_000):
            numbers = range(start, min(start + 1_000, self.size.sessions))
            await self.store.commit(WriteBatch([self._session_row(at) for at in numbers]))

    def _household(self, tenant: str) -> list[LedgerWrite]:
        owner = Actor(type="user", id=f"owner-{tenant}")
        return [Put(TenantRecord(tenant_id=tenant, name=tenant, created_ms=NOW_MS)),
                Put(KeyRecord(key_sha256=digest(f"ilk_{tenant}"), key_id=f"key_{tenant}", tenant_id=tenant,
                              role="owner", principal=owner, created_ms=NOW_MS))]

    def _runner_row(self, number: int) -> RunnerRecord:
        token = hashlib.sha256(f"token-{number}".encode()).hexdigest()
        return RunnerRecord(runner_id=f"r{number}", tenant_id=self.tenant_of(number), token_sha256=token,
                            device_name=f"host {number}", created_ms=NOW_MS, last_seen_ms=NOW_MS)

    def _session_row(self, number: int) -> LedgerWrite:
        runner = number % self.size.runners
        state = LaneState(
            session_id=f"ses-{number:07d}", tenant_id=self.tenant_of(runner), session_key=f"agent:{AGENT}:{number}",
            agent_id=AGENT, runner_id=f"r{runner}", workspace="/", created_ms=NOW_MS)
        lane = Lane(state, [], [], TurnFold(), self.draw.randbytes, LIMITS, LaneHome("", False, Spending()))
        lane.begin(Conditions(NOW_MS, NOW_MS))
        return lane.snapshot()

    async def gateway(self) -> Gateway:
        """One more gateway joins."""
        self._names += 1
        made = Gateway(self.shared, f"g{self._names}", self._draws(), self.draw.randint(-SKEW_MS, SKEW_MS))
        await made.open()
        self.gateways.append(made)
        return made

    async def open(self, reached: Callable[[str], None] = lambda _phase: None) -> None:
        """All connect. `reached` is called after each phase."""
        await self.settle()
        reached("sessions")
        for _ in range(self.size.gateways):
            await self.gateway()
        reached("gateways")
        for at in range(self.size.runners):
            runner = Runner(f"r{at}", f"token-{at}", self.choose, self._draws(), self.tenant_of(at))
            self.runners.append(runner)
            self._tasks.append(asyncio.create_task(runner.run()))
        while not all(runner.attached for runner in self.runners):  # noqa: ASYNC110 - it costs no time
            await asyncio.sleep(0.5)
        reached("runners")
        for at in range(self.size.viewers):
            number = self.draw.randrange(self.size.sessions)
            tenant = self.tenant_of(number % self.size.runners)
            stream = f"t/{tenant}" if at % 5 == 0 else f"s/ses-{number:07d}"
            viewer = Viewer(stream, tenant, self.store, self.choose, self._draws())
            self.viewers.append(viewer)
            self._tasks.append(asyncio.create_task(viewer.run()))
        await asyncio.sleep(2.0)
        reached("viewers")
        await asyncio.sleep(STANDING_S)
        reached("standing")

    # --- what happens ---
    async def run(self) -> None:
        """Step by step: a client acts, and sometimes a component fails."""
        watched = [viewer.stream[2:] for viewer in self.viewers if viewer.stream.startswith("s/")]
        for _ in range(self.size.steps):
            await asyncio.sleep(self.draw.expovariate(1 / self.size.step_s))
            self._user_acts(watched)
            failures = self.size.failures * self.size.step_s
            while failures > 0 and self.draw.random() < failures:
                self._something_fails()
                failures -= 1
        await self.calm()

    def _user_acts(self, watched: list[str]) -> None:
        drawn, clients = self.draw.random(), self.clients
        number = self.draw.randrange(self.size.sessions)
        if watched and drawn < 0.4:
            number = int(self.draw.choice(watched).removeprefix("ses-"))
        tenant = self.tenant_of(number % self.size.runners)
        if drawn < 0.65:
            clients.begin(clients.execute(tenant, f"ses-{number:07d}"))
        elif drawn < 0.72:
            key = f"shared-{self.draw.randrange(3)}" if self.draw.random() < 0.5 else None
            clients.begin(clients.execute(tenant, None, key))
        elif drawn < 0.85 and clients.acknowledged:
            given = self.draw.choice(list(clients.acknowledged.values()))
            clients.begin(clients.cancel(given.tenant, given.command_id))
        elif drawn < 0.9:
            other = next(one for one in self.tenants if one != tenant)
            clients.begin(clients.pry(other, f"ses-{number:07d}"))
        for approval_id in list(self.store.pending):
            if self.draw.random() < 0.2:
                clients.begin(clients.vote(self.store.pending[approval_id], approval_id))
        for viewer in self.viewers:
            if self.draw.random() < 0.01:
                viewer.leave.set()

    def _something_fails(self) -> None:
        name = self.draw.choices(list(FAILURES), list(FAILURES.values()))[0]
        gateway = self.choose()
        if gateway.place.standing or (name == "dies" and len(self.gateways) < 2):
            return
        self.befell[name] += 1
        task = asyncio.ensure_future(getattr(self, "_" + name)(gateway))
        self._healing.add(task)
        task.add_done_callback(self._healing.discard)

    def kill(self, gateway: Gateway) -> None:
        """A gateway is gone, and its peers notice within some seconds."""
        gateway.die()
        self.gateways.remove(gateway)
        self.gone.append(gateway)
        self._left(gateway)

    async def _dies(self, gateway: Gateway) -> None:
        if gateway not in self.gateways or len(self.gateways) < 2:  # It, or another one, died in the same step.
            return
        self.kill(gateway)
        await asyncio.sleep(self.draw.uniform(1.0, 8.0))
        await self.gateway()

    def _left(self, gateway: Gateway) -> None:
        for one in (*self.viewers, *self.runners):
            if one.gateway is gateway:
                self.loop.call_later(self.draw.uniform(0.0, 3.0), one.lost, gateway)

    async def _stands(self, gateway: Gateway) -> None:
        gateway.pause()
        if self.draw.random() < 0.5:
            self._left(gateway)
        await asyncio.sleep(self.draw.uniform(0.5, 9.0))
        gateway.go_on()

    async def _loses_the_bus(self, gateway: Gateway) -> None:
        gateway.bus.cut_off()
        await asyncio.sleep(self.draw.uniform(0.5, 12.0))
        if gateway.alive:
            gateway.place.context.copy().run(gateway.bus.come_back)

    async def _loses_notes(self, gateway: Gateway) -> None:
        gateway.bus.loses = 0.3
        await asyncio.sleep(self.draw.uniform(1.0, 10.0))
        gateway.bus.loses = 0.0

    async def _is_refused(self, gateway: Gateway) -> None:
        gateway.store.refuses = gateway.leases.refuses = True
        await asyncio.sleep(self.draw.uniform(0.2, 5.0))
        gateway.store.refuses = gateway.leases.refuses = False

    async def _loses_a_link(self, _gateway: Gateway) -> None:
        self.draw.choice(self.runners).cut()

    async def _loses_a_runner(self, _gateway: Gateway) -> None:
        await self.draw.choice(self.runners).die()

    async def calm(self) -> None:
        """Nothing fails any more: wait until all that was begun has ended, and every viewer has seen all."""
        while self._healing:
            await asyncio.wait(self._healing)
        while self.clients.under_way:
            await asyncio.wait(self.clients.under_way)
        until = self.loop.time() + CALM_S
        while self.loop.time() < until and not (self._ended() and self._seen()):  # noqa: ASYNC110 - it costs no time
            await asyncio.sleep(5.0)

    def _ended(self) -> bool:
        return all(record.command.state in TERMINAL for record in self.store.all_commands())

    def _seen(self) -> bool:
        return all(viewer.cursor == self.store.last(viewer.stream) for viewer in self.viewers)

    async def everybody_leaves(self, kind: Literal["runners", "viewers"]) -> None:
        """All of a kind go for good, and what the gateways held for them with them."""
        leaving = self._tasks[self.size.runners:] if kind == "viewers" else self._tasks[:self.size.runners]
        for viewer in self.viewers if kind == "viewers" else ():
            viewer.leave.set()
        await asyncio.sleep(0.01)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
        await asyncio.sleep(30.0)
        (self.viewers if kind == "viewers" else self.runners).clear()

    async def close(self) -> None:
        """Everybody goes."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # All at once: what one of them waits for is often another's to do, and would be begun again for as long as any
        # of them works.
        everyone = (*self.gateways, *self.gone)
        for gateway in everyone:
            gateway.end()
        while tasks := [task for gateway in everyone for task in gateway.place.tasks if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=1.0)


FAILURES = {"dies": 1, "stands": 2, "loses_the_bus": 2, "loses_notes": 2, "is_refused": 2, "loses_a_link": 4,
            "loses_a_runner": 2}
"""What may befall a gateway, or a link, and how often beside the others."""
