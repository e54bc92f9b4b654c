"""A gateway's API in this process: the real engine over a ledger in memory, asked without a socket."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2

from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.memory.objects import MemoryObjects
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.config import Config
from interlock.engine.bridge.lane_state import Limits
from interlock.gateway.a2a.task_pushes import TaskPushes
from interlock.gateway.access.credentials import Issuers, digest
from interlock.gateway.assembly import GatewaySettings, GatewayStores, assemble
from interlock.gateway.rest.service import GatewayFacts
from interlock.gateway.server.server import build_app, listen, make_server, port_of
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.records import KeyRecord, TenantRecord
from interlock.protocol.resources import Actor

NOW_MS = 1_800_000_000_000


class InMemoryGateway:
    """The API with everything behind it; `ask` is one request under a key."""

    def __init__(self, config: Config | None = None, issuers: Issuers | None = None,
                 ledger: MemoryLedger | None = None, clock: ManualClock | None = None) -> None:
        self.config = config or Config()
        self.clock = clock or ManualClock(NOW_MS)
        self.ledger = ledger or MemoryLedger()
        self.objects = MemoryObjects(now_ms=self.clock.now_ms)
        parts = assemble(
            GatewayStores(self.ledger, MemoryTranscripts(), self.objects), self.clock,
            GatewayFacts("gw_proof", "0", "/state", "/state/ledger.db"),
            GatewaySettings(limits=Limits(timeout_ms=1000, approval_ttl_ms=1000, queue_ttl_ms=1000,
                                          detach_ttl_ms=1000, buffer_policy="RING"),
                            rates=self.config.rates, issuers=issuers, heartbeat_s=30),
            checkpoint=_no_head)
        self.engine, self.front = parts.engine, parts.front
        self._parts = parts
        app: Any = build_app(self.front, self.config.gateway, _no_rawp, parts.rest)
        self.http = httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1")
        self._asked = 0

    async def tenant(self, tenant_id: str, roles: tuple[str, ...]) -> dict[str, str]:
        """Make a tenant with a key for each role; gives the keys by role."""
        await self.ledger.commit(WriteBatch([Put(TenantRecord(tenant_id=tenant_id, name="", created_ms=NOW_MS))]))
        keys: dict[str, str] = {}
        for role in roles:
            keys[role] = f"ilk_{tenant_id}_{role}_{secrets.token_urlsafe(16)}"
            await self.ledger.commit(WriteBatch([Put(KeyRecord(
                key_sha256=digest(keys[role]), key_id=f"key_{tenant_id}_{role}", tenant_id=tenant_id, role=role,
                principal=Actor(type="user", id=f"{tenant_id}-{role}"), created_ms=NOW_MS, origin="made"))]))
        return keys

    async def ask(self, token: str | None, method: str, path: str, **more: Any) -> httpx2.Response:
        """One request; a change gets a fresh idempotency key."""
        self._asked += 1
        headers = {**({"Authorization": f"Bearer {token}"} if token is not None else {}), **more.pop("headers", {})}
        if method != "GET":
            headers.setdefault("Idempotency-Key", f"proof-{self._asked:012d}")
        return await self.http.request(method, path, headers=headers, **more)

    @asynccontextmanager
    async def listening(self, pushes: TaskPushes | None = None) -> AsyncGenerator[int]:
        """Serve every door on a loopback port, runners' links too; yields the port."""
        app = build_app(self.front, self.config.gateway, self._parts.rawp, self._parts.rest, pushes)
        listener = listen("127.0.0.1", 0)
        server = make_server(app, self._parts.viewers.close)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield port_of(listener)
        finally:
            self._parts.rawp.end()
            server.should_exit = True
            await serving
            listener.close()

    async def close(self) -> None:
        """End the engine and the connection."""
        await self.http.aclose()
        await self.engine.stop()


async def _no_head(_tenant: str) -> bytes | None:
    return b'{"count":0}\n'


async def _no_rawp(_scope: Any, _receive: Any, _send: Any) -> None:
    raise AssertionError("no runner is expected here")
