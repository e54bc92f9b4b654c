"""Cost of one stream for each of its many viewers.

`python -m benchmarks.control_plane.fan_out_process bare|sse STATE`

`bare` sends a frame's event by one write to each connection; `sse` is the gateway's own API, which shows the same
frames of one session to viewers, sent as they are under backlog: TOGETHER at once. Each SIGUSR1 is a round of FRAMES
frames.
Prints the URL once it listens; `sse` leaves a key and the session's id in STATE.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
from pathlib import Path

import uvloop

from benchmarks.control_plane.post_process import api
from interlock.app.place import SystemClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.engine.viewers.stream_items import durable
from interlock.gateway.server.server import serve
from interlock.ports.ledger import Append, PutSession, WriteBatch
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.identifiers import session_stream
from interlock.protocol.payloads import TextDone
from interlock.protocol.records import SessionRecord

FRAMES = 2_000
"""Frames of a round: fewer bytes than a viewer's outbox holds, so that no one is sent back to the ledger."""
TOGETHER = 64
VIEWERS = 100
SESSION = "00000000-0000-4000-8000-000000000001"
BODY = encode(Frame(type="agent.text.done", message_id="00000000-0000-4000-8000-000000000002", session_id=SESSION,
                    seq=1, timestamp="2026-11-21T10:28:41.318Z",
                    payload=TextDone(turn_id="t", block_id="b", text="so many words " * 9)))
EVENT = b'id: 0123456712\nevent: frame\ndata: {"n":12,"kind":"C","frame":%b}\n\n' % BODY
PORT_0 = ("127.0.0.1", 0)


def bare() -> None:
    """Write each event to each connection, by a blocking send of its own."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    with socket.create_server(PORT_0, backlog=VIEWERS) as listener:
        print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
        viewers = [listener.accept()[0] for _ in range(VIEWERS)]
        for viewer in viewers:
            viewer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            viewer.recv(4_096)
            viewer.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while signal.sigwait({signal.SIGUSR1}):
            for _ in range(FRAMES):
                for viewer in viewers:
                    viewer.sendall(EVENT)


async def sse(state: Path) -> None:
    """Show one session's frames over the API."""
    ledger, key = MemoryLedger(), "ilk_" + secrets.token_urlsafe(32)
    (state / "sse.key").write_text(key, "ascii")
    app, viewers = await api(ledger, key)
    now = SystemClock().now_ms()
    await ledger.commit(WriteBatch([PutSession(SessionRecord(
        session_id=SESSION, tenant_id="default", session_key="agent:shell:run:1", agent_id="shell", runner_id="r1",
        workspace="/w", state="idle", created_ms=now, updated_ms=now, deadline_ms=None, machine=b"{}",
        usage={}))]))
    stream, wanted = session_stream(SESSION), asyncio.Semaphore(0)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, wanted.release)

    async def send_events() -> None:
        while await wanted.acquire():
            for first in range(0, FRAMES, TOGETHER):
                events = [Append("default", stream, "C", now, BODY, "m") for _ in range(min(TOGETHER, FRAMES - first))]
                numbers = (await ledger.commit(WriteBatch(list(events)))).numbers
                viewers.publish_items(stream, [durable(n, "C", BODY, now, None) for n in numbers])
                await asyncio.sleep(0)

    sender = asyncio.create_task(send_events())
    try:
        await serve(app, "127.0.0.1", 0, on_stop=viewers.close,
                    ready=lambda port: print(f"http://127.0.0.1:{port}", flush=True))
    finally:
        sender.cancel()
        await asyncio.gather(sender, return_exceptions=True)


def main() -> None:
    """Run until SIGTERM."""
    if sys.argv[1] == "bare":
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            bare()
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(sse(Path(sys.argv[2])))


if __name__ == "__main__":
    main()
