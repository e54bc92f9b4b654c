"""Row 4: POST /v1/commands with credentials, idempotency, policy and audit, beside a bare ASGI POST of it.

Two kinds of command, measured apart: one for a session that is there (it waits in its queue, `on_busy` enqueue), and
one that opens its own session, which writes a session, two control frames and a transcript's first lines beside it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median

import msgspec

from benchmarks.control_plane.report import Line, Scale
from benchmarks.harness.http_connections import Connections, Driven
from benchmarks.harness.processes import Listening, listening

CONNECTIONS = 64
"""Requests under way at once: what group commit gathers."""
SESSIONS = 256
ROUNDS = 3
KINDS = ("bare", "stored", "memory", "durable")
OURS = ("memory", "durable")
"""The gateway's whole API."""
_MESSAGES = (b'"payload":{"messages":[{"role":"user","content":'
             b'[{"contentType":"text","value":"look at the failing test and say why it fails"}]}]}')
OPENING = b'{"type":"execute","target":{"agent_id":"shell"},%s}' % _MESSAGES


def existing(session_id: str) -> bytes:
    """Write a command for a session that is there."""
    return b'{"type":"execute","on_busy":"enqueue","target":{"session_id":"%s"},%s}' % (session_id.encode(), _MESSAGES)


class Side:
    """One server and its clients."""

    def __init__(self, process: Listening, key: str) -> None:
        self.process = process
        self._key = key.encode()
        self._numbers = itertools.count(1)
        self.sessions = list[str]()

    def request(self, body: bytes) -> bytes:
        """Write one request under a key of its own."""
        return (b"POST /v1/commands HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer %s\r\n"
                b"Idempotency-Key: benchmark-%012d\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (self._key, next(self._numbers), len(body), body))

    def open_sessions(self) -> None:
        """Have sessions there, each with a command that runs."""
        left = iter(range(SESSIONS))
        answers = self._drive(
            lambda: None if next(left, None) is None else self.request(OPENING), keep=True).answers
        self.sessions = [msgspec.json.decode(answer)["target"]["session_id"] for answer in answers]

    def rate(self, body: Callable[[], bytes], seconds: float) -> tuple[float, float, float]:
        """Requests/s, and the share of a processor that the server had, and the driver."""
        before = self.process.cpu_s()
        driven = self._drive(lambda: self.request(body()), seconds)
        return driven.rate, (self.process.cpu_s() - before) / driven.seconds, driven.cpu_s / driven.seconds

    def _drive(self, make: Callable[[], bytes | None], seconds: float = float("inf"), *, keep: bool = False) -> Driven:
        # A server ends connections that were idle for some seconds, so each round has its own.
        with contextlib.closing(Connections(self.process.port, CONNECTIONS)) as connections:
            return connections.drive(make, seconds, keep=keep)


def posts(scale: Scale) -> list[Line]:
    """Requests/s over CONNECTIONS connections: the bare one, ours with the commit left out, ours durable."""
    with contextlib.ExitStack() as stack:
        name = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="interlock-bench-", dir=os.environ.get("INTERLOCK_BENCH_DIR")))
        sides = dict[str, Side]()
        for kind in KINDS:
            process = stack.enter_context(listening("benchmarks.control_plane.post_process", kind, name))
            sides[kind] = Side(process, (Path(name) / f"{kind}.key").read_text("ascii"))
        for kind in OURS:
            sides[kind].open_sessions()
        share = scale.seconds / (ROUNDS * (2 + 2 * len(OURS)))
        rates, busy, costs = dict[str, list[float]](), dict[str, float](), dict[str, list[float]]()

        def measure(label: str, side: Side, body: Callable[[], bytes]) -> None:
            rate, server, driver = side.rate(body, share)
            rates.setdefault(label, []).append(rate)
            costs.setdefault(label, []).append(server / rate)
            busy[label] = driver

        for _ in range(ROUNDS):
            for kind in ("bare", "stored"):
                measure(kind, sides[kind], lambda: OPENING)
            for kind in OURS:
                ids = itertools.cycle(sides[kind].sessions)
                measure(kind, sides[kind], lambda ids=ids: existing(next(ids)))
                measure(f"{kind}, opening", sides[kind], lambda: OPENING)
    return _lines(_medians(rates), _medians(costs), busy)


def _medians(found: dict[str, list[float]]) -> dict[str, float]:
    return {label: median(given) for label, given in found.items()}


def _lines(rates: dict[str, float], costs: dict[str, float], busy: dict[str, float]) -> list[Line]:
    limit = rates["bare"]

    def line(label: str, what: str, wanted: float | None = None) -> Line:
        return Line("4", f"{what}; {costs[label] * 1e6:.0f} µs of the server's processor each, "
                    f"{costs['bare'] / costs[label]:.2f} (driver busy {busy[label]:.2f})", rates[label], "/s",
                    rates[label] / limit, wanted)

    return [
        line("bare", "a bare ASGI POST"),
        line("stored", "the bare one, which stores a durable command's rows in a ledger on disk"),
        line("memory", "POST /v1/commands, the commit left out", 0.3),
        line("durable", "POST /v1/commands, durable", 0.15),
        line("memory, opening", "the same, each opening a session, the commit left out"),
        line("durable, opening", "the same, each opening a session, durable"),
    ]
