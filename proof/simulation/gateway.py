"""One gateway of a simulated cluster: the real engine, links and API, at the ends where a server would call them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from interlock.backends.bus_local.bus import Hub
from interlock.backends.memory.leases import MemoryLeases
from interlock.backends.memory.objects import MemoryObjects
from interlock.command.policy.policy import RuleSet
from interlock.config.sections import RatesSection
from interlock.engine.bridge.kernel import Decide, decide
from interlock.engine.bridge.lane_state import Limits
from interlock.gateway.assembly import ClusterPlace, GatewaySettings, GatewayStores, assemble
from interlock.gateway.rest.service import GatewayFacts
from interlock.ports.ledger import LedgerError
from interlock.protocol.envelope import DPS_VERSION
from proof.simulation.costs import LEASES, LEDGER, READERS, Connections, Readers
from proof.simulation.earlier_takeover import EARLIER_LEASES, EARLIER_LEDGER, beat_for_ever
from proof.simulation.network import KeptTranscripts, LossyBus, Reached, Store
from proof.simulation.time import Place, SimulatedClock, SimulatedLoop

LIMITS = Limits(timeout_ms=60_000, detach_ttl_ms=45_000, approval_ttl_ms=120_000, queue_ttl_ms=240_000)
"""Clocks short enough to run out within a simulation."""
LINK_S = 0.005
NO_RATES = RatesSection(principal_a_minute=0, tenant_a_minute=0)


class Answer(NamedTuple):
    """What the API answered."""

    status: int
    body: Any


class Shared(NamedTuple):
    """What all gateways of a cluster have in common."""

    loop: SimulatedLoop
    store: Store
    leases: MemoryLeases
    hub: Hub
    policy: RuleSet
    transcripts: KeptTranscripts
    rtt_s: float = 0.0
    """A round trip to the store; 0 for a random time per answer."""
    readers: Readers = READERS
    decide: Decide = decide
    """The kernel's, or what records or breaks it."""
    earlier: bool = False
    """Whether gateways renew and take over as they did once (`earlier`): to see that it is noticed."""


class Gateway:
    """A gateway, until it dies."""

    def __init__(self, shared: Shared, name: str, draw: random.Random, skew_ms: int) -> None:
        self.shared = shared
        self.name = name
        self.place = Place(name)
        self.alive = True
        self._beating: asyncio.Task[None] | None = None
        self.clock = SimulatedClock(shared.loop, skew_ms)
        rtt_s = shared.rtt_s
        ledger, leases = (EARLIER_LEDGER, EARLIER_LEASES) if shared.earlier else (LEDGER, LEASES)
        ways = [Connections(rtt_s, costs, shared.readers) if rtt_s else None for costs in (ledger, leases)]
        self.store = Reached(shared.store, draw, connections=ways[0])
        self.leases = Reached(shared.leases, draw, connections=ways[1])
        self.transcripts = Reached(shared.transcripts, draw, OSError)
        self.bus = LossyBus(shared.hub, draw)
        self._entropy = random.Random(draw.random())
        # The leases and the ledger are the cluster's; deadlines use this host's own clock.
        reached = GatewayStores(self.store, self.transcripts, MemoryObjects(),  # type: ignore[arg-type]
                                ClusterPlace(self.leases, self.bus, "sim", name))  # type: ignore[arg-type]
        parts = assemble(reached, self.clock, GatewayFacts("gw_simulated", "0", "/", "/ledger"),
                         GatewaySettings(policy=shared.policy, limits=LIMITS, rates=NO_RATES, own_runner="own",
                                         heartbeat_s=30.0),
                         entropy=self._entropy.randbytes, decide=shared.decide)
        self.viewers, self.engine, self.rawp, self.front, self.rest = parts[:5]
        assert parts.cluster is not None
        self.cluster = parts.cluster

    async def open(self) -> None:
        """Join the others."""
        await self.place.start(self._open())

    async def _open(self) -> None:
        await self.cluster.start()
        await self.engine.start()
        if self.shared.earlier:
            self._beating = asyncio.create_task(beat_for_ever(self.cluster, self.engine, self.leases))
        else:
            self.cluster.run()

    # --- what happens to it ---
    def pause(self) -> None:
        """Pause it, like a host that swaps: none of its tasks run, and it does not notice."""
        self.place.standing = True

    def go_on(self) -> None:
        """Resume it."""
        if self.alive:
            self.shared.loop.wake(self.place)

    def die(self) -> None:
        """As by kill -9: from here on none of its tasks run, without a last message."""
        self.alive = False
        self.place.standing = True
        self.bus.cut_off()
        self._is_gone()

    def _is_gone(self) -> None:
        self.store.gone = self.leases.gone = self.transcripts.gone = True

    def end(self) -> None:
        """End all its tasks, alive or dead: their operations fail, and the caller that ends it cancels them."""
        self.die()
        self.shared.loop.wake(self.place)

    # --- its doors ---
    async def ask(self, method: str, path: str, key: str, body: Any = None, idempotency: str = "") -> Answer:
        """Ask the API."""
        return await self.place.start(self._ask(method, path, key, body, idempotency))

    async def _ask(self, method: str, path: str, key: str, body: Any, idempotency: str) -> Answer:
        given = [(b"authorization", f"Bearer {key}".encode()), (b"content-type", b"application/json"),
                 (b"idempotency-key", idempotency.encode())]
        raw = msgspec.json.encode(body) if body is not None else b""
        taken, status, out = False, 0, bytearray()

        async def receive() -> Any:
            nonlocal taken
            if taken:
                await asyncio.get_running_loop().create_future()
            taken = True
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                out.extend(message["body"])

        scope: dict[str, Any] = {
            "type": "http", "method": method, "path": path, "query_string": b"", "state": {}, "headers": given,
            "root_path": "", "client": ("127.0.0.1", 0), "server": None, "scheme": "http", "http_version": "1.1"}
        await self.rest(scope, receive, send)
        return Answer(status, msgspec.json.decode(out) if out else None)

    def link(self, token: str, outgoing: asyncio.Queue[Any], deliver: Callable[[Any], None]) -> asyncio.Task[None]:
        """Serve a runner's WebSocket, of which these are the two ends."""

        loop, world = asyncio.get_running_loop(), contextvars.Context()
        last_s = 0.0

        async def send(message: Any) -> None:
            # Sent frames arrive even if the gateway ends; the reaction of the runner runs in another host.
            nonlocal last_s
            last_s = max(last_s + 1e-7, loop.time() + LINK_S)
            loop.call_at(last_s, deliver, message, context=world)

        async def serve() -> None:
            scope = {"type": "websocket", "subprotocols": [DPS_VERSION], "headers": [
                (b"authorization", f"Bearer {token}".encode())]}
            with contextlib.suppress(LedgerError):  # A server closes the WebSocket then.
                await self.rawp(scope, outgoing.get, send)

        return self.place.start(serve())
