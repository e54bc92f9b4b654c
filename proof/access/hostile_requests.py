"""S6: hostile input over a real listener: refused quickly with 4xx, while other requests are served and memory does not
grow."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from pathlib import Path

import httpx2

from interlock.config import Config, RatesSection
from interlock.gateway.server.server import build_app, listen, make_server, port_of
from proof.processes.in_memory_gateway import InMemoryGateway

FAST_S = 5.0
"""An answer to hostile input takes no longer, the machine's other work included."""
FLAT_BYTES = 64 * 1024 * 1024
SLOW = 100
ROUNDS = 20
_EXECUTE = b'{"type":"execute","target":{"agent_id":"shell"},"payload":%s}'

BODIES: dict[str, bytes] = {
    "depth 10,000": _EXECUTE % (b"[" * 10_000 + b"]" * 10_000),
    "depth 1,000,000": b"[" * 1_000_000, "10 MB": _EXECUTE % (b'"' + b"x" * 10_000_000 + b'"'),
    "a key twice": _EXECUTE % b'{"a":1,"a":2}', "a key twice, escaped": _EXECUTE % b'{"a":1,"\\u0061":2}',
    "NaN": _EXECUTE % b"NaN", "Infinity": _EXECUTE % b"-Infinity", "1e999": _EXECUTE % b"1e999",
    "2^53+1": _EXECUTE % b"9007199254740993", "a number of 100,000 digits": _EXECUTE % (b"9" * 100_000),
    "half a surrogate pair": _EXECUTE % b'"\\ud800"', "bad UTF-8": _EXECUTE % b'"\xff\xfe"', "NUL": b"\x00" * 100,
    "100,000 keys": _EXECUTE % (b"{" + b",".join(b'"%d":0' % n for n in range(100_000)) + b',"0":1}'),
    "text for a number": b'{"type":"execute","target":{},"priority":"3"}', "a list": b"[1]", "nothing": b"",
    "two documents": b"{}{}", "a comment": b"{/**/}", "a trailing comma": b'{"type":"execute",}',
}
LINES: dict[str, bytes] = {
    "CR/LF in the path": b"GET /v1/commands\r\nX-Injected: 1 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    "a bare CR in a header": b"GET /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nA: b\rC: d\r\n\r\n",
    "two lengths": b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 4\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "no version": b"GET /v1/commands\r\n\r\n", "noise": bytes(range(256)) * 4, "two hosts":
    b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
}


class Trial:
    """One gateway, one hostile client, and one client with ordinary requests."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.sent = 0
        self.slowest_s = 0.0
        self.grown_bytes = 0

    async def run(self, rounds: int) -> None:
        """Send everything once to warm up, then `rounds` times while memory is watched."""
        inside = InMemoryGateway(Config(rates=RatesSection(refused_a_minute=0, principal_a_minute=0,
                                                           tenant_a_minute=0)))
        key = (await inside.tenant("acme", ("owner",)))["owner"]
        listener = listen("127.0.0.1", 0)
        server = make_server(build_app(inside.front, inside.config.gateway, _no_app), inside.engine.viewers.close)
        serving = asyncio.create_task(server.serve([listener]))
        port = port_of(listener)
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        async with httpx2.AsyncClient(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as http:
            await self._once(http, port)
            before = _resident_bytes()
            slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(SLOW)]
            for number, (_, writer) in enumerate(slow):
                writer.write(b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n"
                             b"Content-Type: application/json\r\nAuthorization: Bearer " + key.encode()
                             + b"\r\n\r\n{"[: 200 if number % 2 else 40])
            for _ in range(rounds):
                await self._once(http, port)
            self.grown_bytes = _resident_bytes() - before
            for _, writer in slow:
                writer.close()
        server.should_exit = True
        await serving
        listener.close()
        await inside.close()
        if self.grown_bytes > FLAT_BYTES:
            self.wrong.append(f"memory grew by {self.grown_bytes} bytes")

    async def _once(self, http: httpx2.AsyncClient, port: int) -> None:
        for name, body in BODIES.items():
            self.sent += 1
            began = time.perf_counter()
            key = {"Idempotency-Key": f"hostile-{self.sent:010d}"}
            answer = await http.post("/v1/commands", content=body, headers=key)
            self._timed(name, began)
            if not 400 <= answer.status_code < 500:
                self.wrong.append(f"{name}: {answer.status_code}")
        for name, lines in LINES.items():
            self.sent += 1
            began = time.perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(lines)
            first = await asyncio.wait_for(reader.readline(), 10)
            writer.close()
            self._timed(name, began)
            if b" 4" not in first[:13] and first:
                self.wrong.append(f"{name}: {first!r}")
        began = time.perf_counter()
        if (await http.get("/v1/whoami")).status_code != 200:
            self.wrong.append("the neighbour was not served")
        self._timed("the neighbour", began)

    def _timed(self, name: str, began: float) -> None:
        took = time.perf_counter() - began
        self.slowest_s = max(self.slowest_s, took)
        if took > FAST_S:
            self.wrong.append(f"{name}: took {took:.1f} s")


def _resident_bytes() -> int:
    statm = Path(f"/proc/{os.getpid()}/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * resource.getpagesize()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


async def _no_app(_scope: object, _receive: object, _send: object) -> None:
    raise AssertionError("no runner is expected here")


def run(_seed: int, rounds: int | None) -> bool:
    """Run the trial and print what it counted."""
    trial = Trial()
    asyncio.run(trial.run(rounds or ROUNDS))
    print(f"{trial.sent} hostile requests beside {SLOW} slow ones: {len(trial.wrong)} wrong, slowest "
          f"{trial.slowest_s:.2f} s, memory grew by {trial.grown_bytes / 2**20:.1f} MiB")
    print("\n".join(trial.wrong[:20]))
    return not trial.wrong
