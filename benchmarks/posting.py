"""Row 4: POST /v1/commands with credentials, idempotency, policy and audit, beside a bare ASGI POST of it."""

from __future__ import annotations

import asyncio
import itertools
import os
import tempfile
import time
from pathlib import Path

import uvloop

from benchmarks.control_report import Line, Scale
from benchmarks.processes import listening

CONNECTIONS = 32
BODY = (b'{"type":"execute","target":{"agent_id":"shell"},"payload":{"messages":[{"role":"user","content":'
        b'[{"contentType":"text","value":"look at the failing test and say why it fails"}]}]}}')


def posts(scale: Scale) -> list[Line]:
    """Requests/s over 32 connections: the bare one, ours with the commit left out, ours durable."""
    rates = dict[str, float]()
    with tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR")) as name:
        for kind in ("bare", "memory", "durable"):
            with listening("benchmarks.post_process", kind, name) as process:
                key = (Path(name) / f"{kind}.key").read_text("ascii")
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    rates[kind] = runner.run(_posting(process.port, key, scale.seconds / 3))
    limit = rates["bare"]
    return [
        Line("4", "a bare ASGI POST", limit, "/s", 1.0),
        Line("4", "POST /v1/commands, the commit left out", rates["memory"], "/s", rates["memory"] / limit, 0.3),
        Line("4", "POST /v1/commands, durable", rates["durable"], "/s", rates["durable"] / limit, 0.15),
    ]


async def _posting(port: int, key: str, seconds: float) -> float:
    numbers, count, end = itertools.count(1), 0, time.perf_counter() + seconds

    async def post() -> None:
        nonlocal count
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.perf_counter() < end:
            writer.write(b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
                         b"Idempotency-Key: benchmark-%012d\r\nContent-Type: application/json\r\n"
                         b"Content-Length: %d\r\n\r\n%s" % (key.encode(), next(numbers), len(BODY), BODY))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 202 " not in head.partition(b"\r\n")[0]:
                raise RuntimeError(head.decode())
            length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
            await reader.readexactly(int(length))
            count += 1
        writer.close()

    begin = time.perf_counter()
    await asyncio.gather(*(post() for _ in range(CONNECTIONS)))
    return count / (time.perf_counter() - begin)
