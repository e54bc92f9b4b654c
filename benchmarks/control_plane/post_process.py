"""The server of a POST: a bare one, or the gateway's own API as it is served.

`python -m benchmarks.control_plane.post_process bare|stored|memory|durable STATE`

`bare` answers 202 with the body it was sent; `stored` first stores the rows of a command in a ledger on disk, without
authentication, policy, session or viewers: the floor of a gateway. `memory` and `durable` are the gateway's own API
with a policy of twenty rules, over a ledger in memory or on disk. Prints the URL once it listens, and for the API a key
on the next line.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import sys
from pathlib import Path

import msgspec
import uvloop
from starlette.types import ASGIApp, Receive, Scope, Send

from interlock.app.gateway import tune_collector
from interlock.app.place import SystemClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.command.policy.policy import Rule, RuleSet
from interlock.config import Config, RatesSection
from interlock.engine.presence import Present
from interlock.engine.viewers.viewers import Viewers
from interlock.gateway.access.credentials import digest
from interlock.gateway.assembly import GatewaySettings, GatewayStores, assemble
from interlock.gateway.rest.service import GatewayFacts
from interlock.gateway.server.server import build_app, serve
from interlock.ports.ledger import (
    Append,
    AuditAppend,
    Ledger,
    Put,
    PutCommand,
    PutIdempotency,
    PutSession,
    WriteBatch,
)
from interlock.protocol import payloads as p
from interlock.protocol.clock import iso
from interlock.protocol.envelope import DPS_VERSION
from interlock.protocol.records import (
    AuditDraft,
    CommandRecord,
    IdempotencyRecord,
    KeyRecord,
    RunnerRecord,
    SessionRecord,
    TenantRecord,
)
from interlock.protocol.resources import Actor, Command, CommandBody, FeedEvent, StatusEvent, Target

RULES = [Rule(name=f"rule {number}", effect="ask", door="command", agent=f"other-{number}*") for number in range(20)]
RATES = RatesSection(principal_a_minute=0, tenant_a_minute=0, refused_a_minute=0)


class _Far:
    """A link to a runner that takes everything."""

    def send(self, raw: bytes) -> None:
        pass

    def ack(self, session_id: str, seq: int) -> None:
        pass

    def forget(self, session_id: str) -> None:
        pass

    def fail(self, sentence: str) -> None:
        pass


async def bare(scope: Scope, receive: Receive, send: Send) -> None:
    """Read the body and give it back: the limit."""
    if scope["type"] != "http":
        return
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 202, "headers": [
        (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]})
    await send({"type": "http.response.body", "body": body})


def stored(ledger: Ledger, clock: SystemClock) -> ASGIApp:
    """Return an app that decodes a command, stores what a gateway stores of it, and answers with it."""
    decoder, encoder = msgspec.json.Decoder(CommandBody, strict=True), msgspec.json.Encoder()
    actor, session_id = Actor(type="user", id="owner"), "1ed609aa-5ef8-47eb-9de1-bab76d202fe4"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        raw = (await receive())["body"]
        now, name = clock.now_ms(), hashlib.sha256(raw + secrets.token_bytes(10)).hexdigest()
        at, id_ = iso(now), f"cmd_{name[:26]}"
        command = Command(id=id_, created_at=at, updated_at=at, tenant_id="default", actor=actor, type="execute",
                          target=Target(agent_id="shell", session_id=session_id), state="queued", timeout_ms=1,
                          payload=decoder.decode(raw).payload, payload_sha256=hashlib.sha256(raw).hexdigest())
        body = encoder.encode(command)
        status = StatusEvent(event="state", command_id=id_, at=at, state="queued", by="user:owner")
        feed = FeedEvent(event="command", at=at, id=id_, state="queued", session_id=session_id, by="user:owner")
        await ledger.commit(WriteBatch([
            PutCommand(CommandRecord(command=command, session_id=session_id, created_ms=now), new=True),
            Append("default", f"c/{id_}", "status", now, encoder.encode(status), opens=True),
            Append("default", "t/default", "feed", now, encoder.encode(feed)),
            AuditAppend(AuditDraft(tenant_id="default", at=at, who={"id": "user:owner", "role": "operator"},
                                   action="enqueue", command_id=id_, session_id=session_id,
                                   meta={"to": "queued", "digest": name})),
            PutIdempotency(IdempotencyRecord(tenant_id="default", scope=name, fingerprint=name, status=202,
                                             headers={"Location": id_}, body=body, created_ms=now, command_id=id_)),
            PutSession(SessionRecord(session_id=session_id, tenant_id="default", session_key="k", agent_id="shell",
                                     runner_id="r1", workspace="/w", state="queued", created_ms=0, updated_ms=now,
                                     deadline_ms=None, machine=body, usage={}))]))
        await send({"type": "http.response.start", "status": 202, "headers": [
            (b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]})
        await send({"type": "http.response.body", "body": body})

    return app


async def api(ledger: Ledger, key: str) -> tuple[ASGIApp, Viewers]:
    """Return the gateway's API over a ledger, with one key and one runner that accepts everything, and the publisher to
    its viewers."""
    clock = SystemClock()
    parts = assemble(GatewayStores(ledger), clock, GatewayFacts("gw_bench", "0", "/state", "/state/ledger.db"),
                     GatewaySettings(policy=RuleSet(RULES), rates=RATES, heartbeat_s=30))
    engine = parts.engine
    await ledger.commit(WriteBatch([
        Put(TenantRecord(tenant_id="default", name="", created_ms=0)),
        Put(KeyRecord(key_sha256=digest(key), key_id="key_1", tenant_id="default", role="operator", created_ms=0,
                      principal=Actor(type="user", id="owner"), origin="made"))]))
    await engine.start()
    offer = p.AgentOffer(agent_id="shell", adapter="acp", adapter_type="process", permission="asks",
                         context_owner="agent")
    hello = p.Hello(versions=[DPS_VERSION], runner_id="r1", boot_id="b", agents=[offer], sessions=[], roots=["/w"])
    engine.presence.arrive(Present(RunnerRecord(runner_id="r1", tenant_id="default", token_sha256="", device_name="h",
                                                created_ms=0, last_seen_ms=0), hello, 0)).link = _Far()
    tune_collector()
    return build_app(parts.front, Config().gateway, bare, parts.rest), parts.viewers


async def _run(kind: str, state: Path) -> None:
    key = "ilk_" + secrets.token_urlsafe(32)
    (state / f"{kind}.key").write_text(key, "ascii")
    app: ASGIApp = bare
    if kind != "bare":
        clock, name = SystemClock(), f"{kind}-{LEDGER_NAME}"
        ledger: Ledger = MemoryLedger() if kind == "memory" else await open_ledger(state / name, clock)
        app = stored(ledger, clock) if kind == "stored" else (await api(ledger, key))[0]
    await serve(app, "127.0.0.1", 0, on_stop=lambda: None,
                ready=lambda port: print(f"http://127.0.0.1:{port}", flush=True))


def main() -> None:
    """Run until SIGTERM."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(sys.argv[1], Path(sys.argv[2])))


if __name__ == "__main__":
    main()
