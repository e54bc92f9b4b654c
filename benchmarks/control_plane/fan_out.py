"""Row 5: one stream shown to a hundred viewers, beside one write a viewer and event."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import signal
import socket
import tempfile
import time
from pathlib import Path
from statistics import median

from benchmarks.control_plane.fan_out_process import BODY, EVENT, FRAMES, SESSION, TOGETHER, VIEWERS
from benchmarks.control_plane.report import Line, Scale
from benchmarks.harness.processes import Listening, listening
from interlock.backends.memory.ledger import MemoryLedger
from interlock.engine.viewers.viewers import StreamViewer, Viewers
from interlock.gateway.rest.views import deliver, frames_rendering
from interlock.ports.ledger import Append, WriteBatch
from interlock.protocol.identifiers import session_stream
from interlock.protocol.records import Event

MARK = b"event: frame\n"
RECEIVE_BYTES = 1 << 18
PATIENCE_MS = 30_000
LEAST_ROUNDS = 3


class ChatMembers:
    """All viewers of one server, read by one loop."""

    def __init__(self, process: Listening, key: str) -> None:
        self._process = process
        self._socks = dict[int, socket.socket]()
        for _ in range(VIEWERS):
            sock = socket.create_connection(("127.0.0.1", process.port))
            sock.sendall(b"GET /v1/sessions/%b/frames?view=raw HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %b"
                         b"\r\nAccept: text/event-stream\r\n\r\n" % (SESSION.encode(), key.encode()))
            self._socks[sock.fileno()] = sock
        for sock in self._socks.values():
            head = sock.recv(RECEIVE_BYTES)
            if b" 200 " not in head.partition(b"\r\n")[0]:
                raise RuntimeError(head.decode())

    def round(self) -> tuple[float, float]:
        """Viewers' events/s of one round, and the share of a processor that the server had."""
        poll, seen, tails = select.poll(), dict.fromkeys(self._socks, 0), dict.fromkeys(self._socks, b"")
        for number in self._socks:
            poll.register(number, select.POLLIN)
        waiting, cpu = set(self._socks), self._process.cpu_s()
        begin = time.perf_counter()
        os.kill(self._process.pid, signal.SIGUSR1)
        while waiting:
            ready = poll.poll(PATIENCE_MS)
            if not ready:
                raise RuntimeError(f"{len(waiting)} viewers were not shown all.")
            for number, _ in ready:
                data = tails[number] + self._socks[number].recv(RECEIVE_BYTES)
                seen[number] += data.count(MARK)
                tails[number] = data[1 - len(MARK):]
                if seen[number] >= FRAMES:
                    waiting.discard(number)
        taken = time.perf_counter() - begin
        return VIEWERS * FRAMES / taken, (self._process.cpu_s() - cpu) / taken

    def close(self) -> None:
        """Leave."""
        for sock in self._socks.values():
            sock.close()


def fan_out(scale: Scale) -> list[Line]:
    """Viewers' events/s: one write each, the hub alone, and server-sent events of the whole gateway."""
    rates, busy = dict[str, list[float]](), dict[str, float]()
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR")))
        crowds = dict[str, ChatMembers]()
        for kind in ("bare", "sse"):
            process = stack.enter_context(listening("benchmarks.control_plane.fan_out_process", kind, name))
            key = Path(name) / f"{kind}.key"
            crowds[kind] = ChatMembers(process, key.read_text("ascii") if key.exists() else "none")
            stack.callback(crowds[kind].close)
        end, rounds = time.perf_counter() + scale.seconds, 0
        while rounds < LEAST_ROUNDS or time.perf_counter() < end:
            rounds += 1
            for kind, crowd in crowds.items():
                rate, busy[kind] = crowd.round()
                rates.setdefault(kind, []).append(rate)
            rates.setdefault("hub", []).append(asyncio.run(through_the_hub()))
    limit = median(rates["bare"])
    return [
        Line("5", f"one write a viewer and event of {len(EVENT)} bytes (busy: server {busy['bare']:.2f})", limit, "/s",
             1.0),
        Line("5", f"the hub: {TOGETHER} frames sent, written once, received by {VIEWERS} viewers", median(rates["hub"]),
             "/s", median(rates["hub"]) / limit, 0.35),
        Line("5", f"server-sent events to {VIEWERS} viewers (busy: server {busy['sse']:.2f})", median(rates["sse"]),
             "/s", median(rates["sse"]) / limit, 0.3),
    ]


async def through_the_hub(frames: int = FRAMES) -> float:
    """Viewers' frames/s of the bare hub."""
    ledger, stream = MemoryLedger(), session_stream(SESSION)
    hub, left = Viewers(ledger), VIEWERS
    done = asyncio.Event()

    async def read(viewer: StreamViewer) -> None:
        nonlocal left
        render, seen = frames_rendering(stream, deliver("raw", stream)), 0
        while seen < frames:
            burst = await viewer.next()
            seen += len(burst)
            b"".join(render(burst))
        left -= 1
        if not left:
            done.set()

    async with contextlib.AsyncExitStack() as stack:
        readers = [asyncio.create_task(read(await stack.enter_async_context(hub.join("default", stream, 0))))
                   for _ in range(VIEWERS)]
        await asyncio.sleep(0)
        begin = time.perf_counter()
        for first in range(0, frames, TOGETHER):
            count = min(TOGETHER, frames - first)
            await ledger.commit(WriteBatch([Append("default", stream, "C", 0, BODY, "m") for _ in range(count)]))
            hub.publish(stream, [Event(stream=stream, n=first + at, kind="C", at_ms=0, body=BODY, message_id="m")
                                 for at in range(1, count + 1)])
            await asyncio.sleep(0)
        await done.wait()
        taken = time.perf_counter() - begin
        await asyncio.gather(*readers)
    return VIEWERS * frames / taken
