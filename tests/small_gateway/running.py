"""A gateway's listener on a free loopback port, over a small desk, and a client for it."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.command.audit.audit import checkpoint_line
from interlock.command.audit.note import origin_of, sign_checkpoint
from interlock.config import GatewaySection
from interlock.engine.cron import Crons
from interlock.gateway.access.access import Access, make_access
from interlock.gateway.access.credentials import digest
from interlock.gateway.access.pairings import Pairings
from interlock.gateway.hooks import Hooks
from interlock.gateway.rest.service import Front, GatewayFacts
from interlock.gateway.retention import Retention
from interlock.gateway.server.server import build_app, listen, make_server, port_of
from interlock.gateway.telemetry.metrics import Metrics
from interlock.gateway.webhooks import WebhookService
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.records import KeyRecord, TenantRecord
from interlock.protocol.resources import Actor
from small_gateway.declared import check_declared
from small_gateway.desk import NOW, SmallDesk


class Gateway:
    """A running gateway: `desk` behind it, `http` in front of it as the owner."""

    def __init__(self, desk: SmallDesk, port: int) -> None:
        self.desk = desk
        self.port = port
        self.base = f"http://127.0.0.1:{port}"
        self.http = self.as_role("owner")
        self.server: Any = None
        self.access: Access
        """Authentication and rate limits."""
        self.keys = 0

    def as_role(self, role: str, tenant: str = "default") -> httpx2.AsyncClient:
        return httpx2.AsyncClient(base_url=self.base, headers={"Authorization": f"Bearer ilk_{tenant}_{role}"},
                                  timeout=20, event_hooks={"response": [check_declared]})

    async def post(self, path: str, body: Any = None, key: str | None = None, **more: Any) -> httpx2.Response:
        """Post with a fresh idempotency key, or with the one given ("" for none)."""
        self.keys += 1
        key = f"test-key-number-{self.keys:04d}" if key is None else key
        headers = {**({"Idempotency-Key": key} if key else {}), **more.pop("headers", {})}
        kind = {"json": body} if not isinstance(body, bytes) else {"content": body}
        if isinstance(body, bytes):
            headers.setdefault("Content-Type", "application/json")
        return await self.http.post(path, headers=headers, **kind, **more)

    async def execute(self, **fields: Any) -> str:
        answer = await self.post("/v1/commands", {"type": "execute", "target": {"agent_id": "shell"}, **fields})
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    @asynccontextmanager
    async def sse(self, path: str, **headers: str) -> AsyncIterator["Sse"]:
        async with self.http.stream("GET", path, headers={"Accept": "text/event-stream", **headers}) as answer:
            yield Sse(answer)


class Sse:
    """Reads server-sent events as (id, event, data); comments as (None, "comment", text)."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.answer = answer
        self._chunks = answer.aiter_text()
        self._text = ""

    async def next(self) -> tuple[str | None, str, str] | None:
        while True:
            while "\n\n" not in self._text:
                try:
                    self._text += await asyncio.wait_for(anext(self._chunks), 10)
                except StopAsyncIteration:
                    return None
            block, self._text = self._text.split("\n\n", 1)
            if block.startswith("retry:"):
                continue
            if block.startswith(":"):
                return None, "comment", block[1:].strip()
            fields = [(line.split(": ", 1)[0], line.split(": ", 1)[1]) for line in block.split("\n")]
            data = "\n".join(value for name, value in fields if name == "data")
            found = dict(fields)
            return found.get("id"), found["event"], data


@asynccontextmanager
async def running(
    heartbeat_s: float, open_to: Sequence[str] = (), desk: SmallDesk | None = None
) -> AsyncIterator[Gateway]:
    """Start a gateway's listener; end it with its streams."""
    desk = desk or SmallDesk()
    desk.metrics = Metrics("0.1.0", open_to)
    for tenant in ("default", "other"):
        await desk.ledger.commit(WriteBatch([Put(TenantRecord(tenant_id=tenant, name="", created_ms=NOW))]))
        for role in ("owner", "admin", "operator", "approver", "viewer", "auditor"):
            await desk.ledger.commit(WriteBatch([Put(KeyRecord(
                key_sha256=digest(f"ilk_{tenant}_{role}"), key_id=f"{tenant}-{role}", tenant_id=tenant, role=role,
                principal=Actor(type="user", id=role), created_ms=NOW,
            ))]))

    signing_key = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))

    async def checkpoint(tenant: str) -> bytes | None:
        size, root = await desk.ledger.audit_tree(tenant)
        signed = sign_checkpoint(signing_key, origin_of("gw_1", tenant), size, root)
        return checkpoint_line(signed) if tenant == "default" else None

    async def rawp(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": 4401})

    pairings = Pairings(desk.ledger, desk, secrets.token_bytes, lambda *refusal: desk.shut_out.append(refusal), "own")
    front = Front(desk, desk, GatewayFacts("gw_1", "0.1.0", "/state", "/state/ledger"), checkpoint, heartbeat_s,
                  pairings,
                  make_access(desk.ledger, desk, secrets.token_bytes),
                  WebhookService(desk.ledger, desk, secrets.token_bytes, desk.hooks), desk.metrics,
                  Retention(desk.ledger, desk.objects, desk),
                  Hooks(desk.doors, desk.ledger, desk.chats, desk, secrets.token_bytes),
                  Crons(desk.ledger, desk.chats, desk), desk.signing, desk.signer)
    front.crons.configure(desk.jobs)
    app = build_app(front, GatewaySection(hosts=["desk.example"], origins=["https://ok.example"]), rawp)
    listener = listen("127.0.0.1", 0)
    server = make_server(app, desk.viewers.close)
    serving = asyncio.ensure_future(server.serve([listener]))
    there = Gateway(desk, port_of(listener))
    there.server = server
    there.access = front.access
    try:
        yield there
    finally:
        server.should_exit = True
        await serving
        await there.http.aclose()
        listener.close()
