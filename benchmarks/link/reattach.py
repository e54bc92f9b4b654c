"""Time from the reattachment of a runner with many buffered frames until all of them are durable at the gateway."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from benchmarks.harness.scripted_runner import AGENT, STAMP, TEXT_BYTES
from interlock.app.place import SystemClock
from interlock.backends.memory.objects import MemoryObjects
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.protocol import payloads as p
from interlock.protocol.envelope import DPS_VERSION, Frame
from interlock.protocol.frames import BATCH
from interlock.protocol.identifiers import uuid4
from interlock.runner.link.link import GatewayConnector
from interlock.runner.link.outflow import Outflow

FRAMES = 10_000
A_WRITE = 500
PATIENCE_S = 120.0


def _frames(session_id: str, turn_id: str, after: int, count: int) -> list[Frame]:
    return [Frame(type="agent.text.done", message_id=uuid4(os.urandom(16)), session_id=session_id, timestamp=STAMP,
                  payload=p.TextDone(turn_id=turn_id, block_id=f"r{number}",
                                     text=f"line {number} ".ljust(TEXT_BYTES, ".")))
            for number in range(after + 1, after + count + 1)]


class _Watched(SqliteOutbox):
    """An outbox that sets an event when everything is acknowledged."""

    def __init__(self, path: Path, last_seq: int) -> None:
        super().__init__(path)
        self.all_acked = asyncio.Event()
        self._last_awaited = last_seq

    async def ack(self, session_id: str, seq: int, message_id: str, at_ms: int, gateway_id: str | None = None) -> None:
        """Trim, and look."""
        await super().ack(session_id, seq, message_id, at_ms, gateway_id)
        if seq >= self._last_awaited:
            self.all_acked.set()


async def _reattach(folder: Path, port: int, token: str, session_id: str, turn_id: str, after: int, count: int
                    ) -> float:
    outbox = _Watched(folder / "outbox.db", after + count)
    clock = SystemClock()
    outflow = Outflow(outbox, clock=clock, entropy=os.urandom)
    await outbox.open_session(session_id, clock.now_ms(), b"")
    await outbox.ack(session_id, after, "", clock.now_ms())
    frames = _frames(session_id, turn_id, after, count)
    for first in range(0, count, A_WRITE):
        await outbox.write(frames[first:first + A_WRITE])

    async def hello(_gateway_id: str) -> p.Hello:
        rows = await outbox.sessions()
        offer = p.AgentOffer(agent_id=AGENT, adapter="bench", adapter_type="process", permission="asks",
                             context_owner="agent")
        return p.Hello(versions=[DPS_VERSION], runner_id="local", boot_id="again", agents=[offer], features=[BATCH],
                       sessions=[p.HelloSession(session_id=row.session_id, last_seq_sent=row.last_seq, control_seq=99,
                                                state="running") for row in rows], roots=["/"])

    async def control(frame: Frame, raw: bytes, gateway_id: str) -> None:
        """Nothing is asked of a benchmark."""

    flowing = asyncio.create_task(outflow.run())
    link = GatewayConnector(url=f"ws://127.0.0.1:{port}/rawp", token=token, outbox=outbox, objects=MemoryObjects(),
                            outflow=outflow,
                            hello=hello, control=control, live_agents=list, clock=clock, entropy=os.urandom)
    start = time.perf_counter()
    linking = asyncio.create_task(link.run())
    try:
        async with asyncio.timeout(PATIENCE_S):
            # The link ends by itself only after a failure, and then no wait is needed.
            acked = asyncio.create_task(outbox.all_acked.wait())
            await asyncio.wait((acked, linking), return_when=asyncio.FIRST_COMPLETED)
            if not acked.done():
                acked.cancel()
                linking.result()
        return time.perf_counter() - start
    finally:
        for task in (linking, flowing):
            task.cancel()
        await asyncio.gather(linking, flowing, return_exceptions=True)
        await outbox.close()


def reattach_s(folder: Path, port: int, token: str, session_id: str, turn_id: str, after: int,
               count: int = FRAMES) -> float:
    """Seconds from dialling to the last acknowledgement of `count` buffered frames, numbered after `after`."""
    folder.mkdir()
    return asyncio.run(_reattach(folder, port, token, session_id, turn_id, after, count))
