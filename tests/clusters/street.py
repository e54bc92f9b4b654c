"""Gateways of one cluster in one process: engines, links and the API over one ledger in memory and one bus, on a clock
that moves only when a test advances it. A runner uses the ASGI end of its WebSocket, a person that of the API."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import anyio

from gateway.raw_runner import PATIENCE_S, TOKEN, Runner
from interlock.backends.bus_local.bus import Hub, LocalBus
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.leases import MemoryLeases
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.memory.objects import MemoryObjects
from interlock.command.policy.policy import RuleSet
from interlock.engine.bridge.lane_state import Limits
from interlock.gateway.access.credentials import digest
from interlock.gateway.assembly import ClusterPlace, GatewaySettings, GatewayStores, assemble
from interlock.gateway.hooks import ConfiguredHook
from interlock.gateway.rest.service import GatewayFacts
from interlock.gateway.telemetry.metrics import Metrics
from interlock.ports.bus import Bus
from interlock.ports.ledger import Put, WriteBatch
from interlock.ports.trips import Trips
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.records import KeyRecord, RunnerRecord, TenantRecord
from interlock.protocol.resources import Actor

NOW = 1_800_000_000_000
KEY = "ilk_owner"
CAPABILITIES = p.Capabilities(dps_version=DPS_VERSION, features={"adapter_type": "process", "permission": "asks"})


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


class Member:
    """One gateway."""

    def __init__(self, street: Street, name: str) -> None:
        self.street = street
        self.name = name
        self.bus: Any = street.buses.pop(0) if street.buses else LocalBus(street.hub)
        self.spent: list[tuple[str, Trips]] = []
        """The round trips that operations waited for, by name (`ports.trips`)."""
        metrics = Metrics()
        metrics.waited = lambda operation, spent: self.spent.append((operation, spent))
        parts = assemble(
            GatewayStores(street.ledger, None, MemoryObjects(), ClusterPlace(street.leases, self.bus, "il", name)),
            street.clock, GatewayFacts("gw_1", "0.1.0", "/state", "the ledger"),
            GatewaySettings(policy=street.policy, limits=Limits(timeout_ms=60_000), hooks=street.hooks,
                            own_runner="own", heartbeat_s=30.0),
            metrics=metrics)
        self.viewers, self.engine, self.rawp, self.front, self.rest = parts[:5]
        assert parts.cluster is not None
        self.cluster = parts.cluster

    async def open(self) -> None:
        await self.cluster.start()
        await self.engine.start()

    async def shut(self) -> None:
        await self.engine.stop()
        await self.cluster.stop()

    async def die(self) -> None:
        """As by kill -9: nothing is released, nothing is sent."""
        self.bus.cut_off()
        for shell in self.engine.lanes.live():
            await shell.stop()

    async def ask(self, method: str, path: str, body: Any = None, key: str | None = None, **headers: str) -> Answer:
        """Ask the API, with a new idempotency key or the given one; "" is none."""
        self.street.keys += 1
        given = {"authorization": f"Bearer {KEY}", "content-type": "application/json",
                 "idempotency-key": f"test-key-number-{self.street.keys:04d}" if key is None else key, **headers}
        given = {name: value for name, value in given.items() if value}
        raw = json.dumps(body).encode() if body is not None else b""
        taken = asyncio.Event()
        status, answered, out = 0, dict[str, str](), bytearray()

        async def receive() -> Any:
            if taken.is_set():
                await asyncio.get_running_loop().create_future()
            taken.set()
            return {"type": "http.request", "body": raw, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answered.update({name.decode(): value.decode() for name, value in message["headers"]})
            else:
                out.extend(message["body"])

        path, _, query = path.partition("?")
        scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "state": {},
                 "headers": [(name.encode(), value.encode()) for name, value in given.items()], "root_path": "",
                 "client": ("127.0.0.1", 0), "server": None, "scheme": "http", "http_version": "1.1"}
        await self.rest(scope, receive, send)
        return Answer(status, answered, json.loads(out) if out else None)

    async def execute(self, text: str = "hello", key: str | None = None, **target: str) -> Answer:
        content = [{"contentType": "text", "value": text}]
        return await self.ask("POST", "/v1/commands", {
            "type": "execute", "target": {"agent_id": "shell", **target},
            "payload": {"messages": [{"role": "user", "content": content}]}}, key)

    @contextlib.asynccontextmanager
    async def attached(self, *sessions: p.HelloSession, **changes: Any) -> AsyncIterator[Runner]:
        """A runner's link on which hello and welcome were exchanged."""
        async with self.linked() as runner:
            runner.hello(*sessions, **changes)
            await runner.frame("x-interlock.welcome")
            yield runner

    async def refused_link(self) -> tuple[int, Any]:
        """The status and the body that a runner's upgrade is refused with."""
        runner = Runner()

        async def send(message: Any) -> None:
            runner.sent.put_nowait(message)

        await self.rawp(_upgrade(), runner.incoming.get, send)
        begun, body = await runner.next(), await runner.next()
        return begun["status"], json.loads(body["body"])

    @contextlib.asynccontextmanager
    async def linked(self) -> AsyncIterator[Runner]:
        """A runner's link on which nothing was sent."""
        runner = Runner()

        async def send(message: Any) -> None:
            runner.sent.put_nowait(message)

        serving = asyncio.create_task(self.rawp(_upgrade(), runner.incoming.get, send))
        try:
            assert (await runner.next())["type"] == "websocket.accept"
            yield runner
            runner.incoming.put_nowait({"type": "websocket.disconnect"})
            await asyncio.wait_for(serving, PATIENCE_S)
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


def _upgrade() -> dict[str, Any]:
    return {"type": "websocket", "subprotocols": [DPS_VERSION],
            "headers": [(b"authorization", f"Bearer {TOKEN}".encode())]}


class Street:
    """Three gateways, their ledger, their bus."""

    def __init__(self, count: int = 3, policy: RuleSet | None = None, buses: Sequence[Bus] = (),
                 stores: tuple[Any, Any] | None = None, network: Callable[[Any], Any] = lambda store: store) -> None:
        """`stores` are a ledger and its leases; without them both are in memory. All gateways reach both through
        `network`."""
        self.buses = list(buses)
        self.clock = ManualClock(NOW)
        self.ledger: Any = MemoryLedger() if stores is None else stores[0]
        self.leases: Any = MemoryLeases(self.ledger.lanes, self.clock) if stores is None else stores[1]
        self.ledger, self.leases = network(self.ledger), network(self.leases)
        self.hub = Hub()
        self.policy = policy or RuleSet()
        self.hooks: dict[str, ConfiguredHook] = {}
        self.keys = 0
        self._names = itertools.count()
        self.members = [self.build() for _ in range(count)]

    def build(self) -> Member:
        return Member(self, "abcdefgh"[next(self._names)])

    async def open(self) -> None:
        await self.ledger.commit(WriteBatch([
            Put(TenantRecord(tenant_id="default", name="", created_ms=NOW)),
            Put(KeyRecord(key_sha256=digest(KEY), key_id="key_1", tenant_id="default", role="owner",
                          principal=Actor(type="user", id="owner"), created_ms=NOW)),
            Put(RunnerRecord(runner_id="local", tenant_id="default", device_name="host", created_ms=0,
                             token_sha256=hashlib.sha256(TOKEN.encode()).hexdigest(), last_seen_ms=0))]))
        for member in self.members:
            await member.open()

    async def beat(self, *members: Member, ms: int = 0) -> None:
        """Let time pass and those that are alive do what it brings."""
        self.clock.advance(ms)
        for member in members or self.members:
            await member.cluster.renewal.once()
            await member.cluster.beat()
            await member.cluster.take_over()
            await member.engine.lanes.due.settled()

    async def fail_over(self, *left: Member) -> None:
        """Enough time for the others to count as dead, and for their lanes to be taken over."""
        for _ in range(4):
            await self.beat(*left, ms=1_000)


async def eventually(holds: Callable[[], Awaitable[bool]]) -> None:
    """Wait for events; the loop runs in between."""
    with anyio.fail_after(PATIENCE_S):
        while not await holds():
            await asyncio.sleep(0)


@contextlib.asynccontextmanager
async def street(count: int = 3, policy: RuleSet | None = None, buses: Sequence[Bus] = (),
                 stores: tuple[Any, Any] | None = None, network: Callable[[Any], Any] = lambda store: store
                 ) -> AsyncIterator[Street]:
    """Gateways of one cluster; on these buses if given, else on one in the process."""
    made = Street(count, policy, buses, stores, network)
    await made.open()
    try:
        yield made
    finally:
        for member in made.members:
            await member.shut()
