"""S9: one viewer opens 2,000 event streams of a long session at once; commands of others are accepted as before (K-3,
S-4).

It prints how long a command of another key took to be accepted, alone and beside the streams, how many streams were
opened and refused, and the resident memory of the gateway before, at most, and after the last stream was closed.
"""

from __future__ import annotations

import select
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from interlock.app.descriptors import raise_limit
from proof.processes.stack import Stack
from proof.sessions.fan_out import TICKER
from proof.workload.stream_readers import READ_BYTES, request

STREAMS = 2_000
HISTORY = 6_000
"""Events of the session that each stream is sent first."""
MEASURED_S = 15.0
PAUSE_S = 0.05
SLOWEST_S = 1.5
"""No command of others takes longer to be accepted while the streams are open …"""
GROWTH_MIB = 256
"""… and the gateway takes no more memory than this for them."""


class Findings(NamedTuple):
    """What a run counted."""

    opened: int
    refused: int
    sent_mib: float
    alone_s: list[float]
    beside_s: list[float]
    resident_mib: tuple[float, float, float]
    """Before, at most, and after the streams."""

    @property
    def wrong(self) -> list[str]:
        """What does not hold."""
        found: list[str] = []
        if max(self.beside_s) > SLOWEST_S:
            found.append(f"a command took {max(self.beside_s):.1f} s to be accepted, more than {SLOWEST_S} s")
        if self.resident_mib[1] - self.resident_mib[0] > GROWTH_MIB:
            grew = self.resident_mib[1] - self.resident_mib[0]
            found.append(f"memory grew by {grew:.0f} MiB, more than {GROWTH_MIB}")
        return found


class ChatMembers:
    """Sockets that each ask for a stream, read by a thread of their own; what they are answered is counted."""

    def __init__(self, port: int, asks: bytes, streams: int) -> None:
        self.statuses: Counter[bytes] = Counter()
        self.bytes = 0
        self._port, self._asks, self._streams = port, asks, streams
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def close(self) -> None:
        """Close them all."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        ready, sockets = select.poll(), dict[int, socket.socket]()
        while not self._over.is_set():
            for _ in range(min(50, self._streams - len(sockets))):
                one = socket.create_connection(("127.0.0.1", self._port))
                one.sendall(self._asks)
                sockets[one.fileno()] = one
                ready.register(one, select.POLLIN)
            for number, _ in ready.poll(100):
                data = sockets[number].recv(READ_BYTES)
                self.bytes += len(data)
                if data.startswith(b"HTTP/1.1 "):
                    self.statuses[data[9:12]] += 1
                if not data:
                    ready.unregister(number)
        for one in sockets.values():
            one.close()


def crowded(place: Path, streams: int, history: int, measured_s: float, allowed: int | None = None) -> Findings:
    """Measure commands alone, then beside this many streams of one viewer, of which `allowed` may be open at a time."""
    script = place / "ticker.py"
    script.write_text(TICKER)
    stack = Stack(place, f'\n[agents.ticker]\nadapter = "dps"\ncommand = "{sys.executable}"\n'
                         f'args = ["-I", "-S", "{script}"]\n'
                         + (f"[rates]\nprincipal_streams = {allowed}\n" if allowed is not None else ""),
                  on_file=True)  # The limit and the memory are of one gateway.
    crowd: ChatMembers | None = None
    try:
        stack.up()
        gateway = stack.processes["gateway"].pid
        session_id = _sent_text(stack, history)
        alone_s = _commands(stack, session_id, measured_s / 3, "alone")
        before = _resident_mib(gateway)
        key = stack.post("/v1/keys", {"principal": {"type": "user", "id": "watcher"}, "roles": ["viewer"]},
                         "proof-streams-key-of-the-watcher").json()["key"]
        crowd = ChatMembers(stack.port, request(f"/v1/sessions/{session_id}/frames", f"Bearer {key}"), streams)
        peak = _Peak(gateway)
        beside_s = _commands(stack, session_id, measured_s, "beside")
        statuses, sent = Counter(crowd.statuses), crowd.bytes
        crowd.close()
        crowd = None
        most = peak.stop()
        _commands(stack, session_id, measured_s / 3, "after")
        return Findings(statuses[b"200"], statuses[b"429"], sent / 2**20, alone_s, beside_s,
                        (before, most, _resident_mib(gateway)))
    finally:
        if crowd is not None:
            crowd.close()
        stack.down()


class _Peak:
    """The most memory that a process has at a look."""

    def __init__(self, pid: int) -> None:
        self._pid, self._most, self._over = pid, 0.0, threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> float:
        self._over.set()
        self._thread.join()
        return self._most

    def _run(self) -> None:
        while not self._over.wait(0.05):
            self._most = max(self._most, _resident_mib(self._pid))


def _sent_text(stack: Stack, history: int) -> str:
    """Create a session with this many events, and return its id."""
    body = _execute({"agent_id": "ticker", "workspace": str(stack.workspace)}, f"1000 {history // 1000}")
    command = stack.post("/v1/commands", body, "proof-streams-history").json()
    stack.until(lambda: stack.get(f"/v1/commands/{command['id']}")["state"] == "succeeded")
    return str(command["target"]["session_id"])


def _execute(target: dict[str, str], text: str) -> dict[str, object]:
    return {"type": "execute", "target": target, "payload": {"messages": [
        {"role": "user", "content": [{"contentType": "text", "value": text}]}]}}


def _commands(stack: Stack, session_id: str, seconds: float, phase: str) -> list[float]:
    """Send one command after another; the seconds until each was accepted."""
    took: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.monotonic()
        stack.post("/v1/commands", _execute({"session_id": session_id}, "1 0"),
                   f"proof-streams-{phase}-{len(took):06d}")
        took.append(time.monotonic() - began)
        time.sleep(PAUSE_S)
    return took


def _resident_mib(pid: int) -> float:
    """What it has in memory of its own: pages of the ledger's file, which the kernel can drop, do not count."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) / 1024


def run(_seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts streams."""
    raise_limit()
    with tempfile.TemporaryDirectory(prefix="interlock-s9-") as place:
        seen = crowded(Path(place), rounds or STREAMS, HISTORY, MEASURED_S)
    for name, took in (("alone", seen.alone_s), ("beside them", seen.beside_s)):
        ranked = sorted(took)
        print(f"{len(took)} commands of another principal, {name}: median {ranked[len(ranked) // 2] * 1000:.0f} ms, "
              f"slowest {ranked[-1] * 1000:.0f} ms")
    print(f"{rounds or STREAMS} streams of one viewer: {seen.opened} opened, {seen.refused} refused, "
          f"{seen.sent_mib:.0f} MiB sent")
    print("resident memory of the gateway: {:.0f} MiB before, {:.0f} at most, {:.0f} after".format(*seen.resident_mib))
    for sentence in seen.wrong:
        print("  !", sentence)
    print("passed" if not seen.wrong else "FAILED")
    return not seen.wrong
