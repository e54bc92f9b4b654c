"""Memory of the gateway for one more idle session, runner or viewer (proof.md, row 10)."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from pathlib import Path

import msgspec

from benchmarks.harness.processes import Listening
from benchmarks.harness.scripted_runner import ScriptedRunner, Viewer
from interlock.app.place import SystemClock
from interlock.backends.sqlite.ledger import LEDGER_NAME, open_ledger
from interlock.ports.ledger import Put, WriteBatch
from interlock.protocol.records import RunnerRecord

WARM = 20
"""Of each kind before the counting begins: pools, pages and code that the first ones bring in."""


class Idle(msgspec.Struct, kw_only=True):
    """Memory of the gateway, in kB of 1,000 bytes, for one more of each."""

    session_kb: float
    runner_kb: float
    viewer_kb: float
    counted: int


def prepare(state: Path, count: int) -> dict[str, str]:
    """Pair `count` runners in a new state directory; gives runner_id → token."""
    tokens = {f"idle-{number}": secrets.token_urlsafe(32) for number in range(count + WARM)}

    async def put() -> None:
        ledger = await open_ledger(state / LEDGER_NAME, SystemClock())
        try:
            await ledger.commit(WriteBatch([Put(RunnerRecord(
                runner_id=name, tenant_id="default", token_sha256=hashlib.sha256(token.encode()).hexdigest(),
                device_name=name, created_ms=0, last_seen_ms=0)) for name, token in tokens.items()]))
        finally:
            await ledger.close()

    asyncio.run(put())
    return tokens


def measure(gateway: Listening, runner: ScriptedRunner, key: str, tokens: dict[str, str], count: int) -> Idle:
    """Add `count` of each, one kind after the other, and share the growth."""
    links: list[ScriptedRunner] = []
    waiting = list(tokens.items())

    def dial(many: int) -> None:
        for _ in range(many):
            name, token = waiting.pop()
            links.append(ScriptedRunner(gateway.port, token, key, runner_id=name))

    def sessions(many: int) -> None:
        for _ in range(many):
            runner.finish(runner.open())

    viewers: list[Viewer] = []

    def watch(many: int) -> None:
        session = next(iter(runner.sessions.values()))
        viewers.extend(runner.viewer(session) for _ in range(many))

    costs: list[float] = []
    try:
        for add in (sessions, dial, watch):
            add(WARM)
            before = gateway.rss_bytes()
            add(count)
            costs.append(max(0.0, gateway.rss_bytes() - before) / count / 1_000)
    finally:
        for viewer in viewers:
            viewer.sock.close()
        for link in links:
            link.close()
    return Idle(session_kb=costs[0], runner_kb=costs[1], viewer_kb=costs[2], counted=count)
