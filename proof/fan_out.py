"""R11: 500 viewers of one session that says 100 things a second: 99 of 100 are shown within 250 ms (S-3, S-4).

Then 50 more come, and read nothing: they are let go within 30 s of taking their last byte, and the others are not shown
things later than 1.5 times as late as before. Times are from the agent's own clock to the viewer's, on one machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from proof.house import REPOSITORY, House
from proof.swift import Swift

VIEWERS = 500
FROZEN = 50
A_SECOND = 100
MEASURED_S = 15.0
P99_MS = 250.0
CUT_S = 30.0
CUT_TIMEOUT_S = 120.0
WORSE = 1.5
FROZEN_BUFFER_BYTES = 4_096
TICK = re.compile(rb"at (\d+) ms")
TICKER = """
import json, os, sys, time
def send(kind, payload, **metadata):
    print(json.dumps({"type": kind, "message_id": os.urandom(8).hex(), "metadata": metadata, "payload": payload}),
          flush=True)
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "control.session.open":
        send("session.capabilities", {"dps_version": "rawp-dps-1.0",
             "features": {"adapter_type": "process", "permission": "asks"},
             "agent": {"agent_id": "ticker", "name": "Ticker", "version": "1"}}, in_reply_to=frame["message_id"])
    elif frame["type"] == "control.prompt.request":
        a_second, seconds = map(int, frame["payload"]["text"].split())
        send("session.turn.start", {"turn_id": "t", "turn_index": 0}, prompt_id=frame["payload"]["prompt_id"])
        began = time.monotonic()
        for number in range(a_second * seconds):
            time.sleep(max(0.0, began + number / a_second - time.monotonic()))
            send("agent.text.done", {"turn_id": "t", "block_id": f"b{number}",
                                     "text": f"at {time.time_ns() // 1_000_000} ms " + "." * 200})
        send("session.turn.end", {"turn_id": "t", "stop_reason": "end_turn"})
"""


class Shown(NamedTuple):
    """What the viewers of one process were shown between two instants: how many, and their delays in ms."""

    count: int
    p50_ms: float
    p99_ms: float


class Findings(NamedTuple):
    """What a run counted."""

    viewers: int
    frozen: int
    alone: Shown
    beside: Shown
    cut: int
    cut_after_s: float
    descriptors: tuple[int, int, int]
    """Of the gateway: with the viewers, with the frozen ones, after they were cut."""

    @property
    def wrong(self) -> list[str]:
        """What does not hold."""
        found: list[str] = []
        if self.alone.p99_ms > P99_MS:
            found.append(f"p99 {self.alone.p99_ms:.0f} ms is more than {P99_MS:.0f} ms")
        if self.beside.p99_ms > max(WORSE * self.alone.p99_ms, 1.0):
            found.append(f"p99 {self.beside.p99_ms:.0f} ms beside frozen viewers, {self.alone.p99_ms:.0f} ms before")
        if self.cut != self.frozen:
            found.append(f"{self.cut} of {self.frozen} frozen viewers were let go")
        if self.descriptors[2] > self.descriptors[0] + 2:
            found.append(f"descriptors {self.descriptors}: those of viewers that were let go stay open")
        return found


def fan_out(place: Path, viewers: int, frozen: int, a_second: int, measured_s: float) -> Findings:
    """Measure viewers alone, then beside frozen ones until those are gone."""
    script = place / "ticker.py"
    script.write_text(TICKER)
    swift = Swift()
    house = House(place, f'\n[agents.ticker]\nadapter = "dps"\ncommand = "{sys.executable}"\n'
                         f'args = ["-I", "-S", "{script}"]\n', swift)
    watching: subprocess.Popen[bytes] | None = None
    frozen_ones: list[socket.socket] = []
    try:
        house.up()
        path = f"/v1/sessions/{_begin(house, a_second)}/frames"
        log = place / "viewers.jsonl"
        with log.open("wb") as out:
            watching = subprocess.Popen(
                [sys.executable, "-m", "proof.fan_out", str(house.port), path, str(viewers),
                 house.headers["Authorization"]], stdout=out, stdin=subprocess.DEVNULL, cwd=REPOSITORY)
        house.until(lambda: log.stat().st_size > 0)
        gateway = house.processes["gateway"].pid
        alone = _measure(log, measured_s)
        descriptors = [_descriptors(gateway)]
        frozen_ones.extend(_frozen(house, path) for _ in range(frozen))
        began = time.monotonic()
        descriptors.append(_descriptors(gateway))
        beside = _measure(log, measured_s)
        cut = _until_cut(house, frozen, began)
        after_s = time.monotonic() - began
        house.until(lambda: _descriptors(gateway) <= descriptors[0] + 2) if cut == frozen else None
        return Findings(viewers, frozen, alone, beside, cut, after_s,
                        (descriptors[0], descriptors[1], _descriptors(gateway)))
    finally:
        if watching is not None:
            watching.kill()
            watching.wait()
        for one in frozen_ones:
            one.close()
        house.down()
        swift.close()


def _begin(house: House, a_second: int) -> str:
    body: dict[str, Any] = {
        "type": "execute", "target": {"agent_id": "ticker", "workspace": str(house.workspace)},
        "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": f"{a_second} 600"}]}]}}
    return str(house.post("/v1/commands", body, "proof-fan-out-the-command").json()["target"]["session_id"])


def _measure(log: Path, seconds: float) -> Shown:
    """What was shown from now on for so long."""
    start = log.stat().st_size
    time.sleep(seconds)
    delays: list[float] = []
    with log.open("rb") as file:
        file.seek(start)
        for line in file.read().splitlines()[1:]:
            with contextlib.suppress(ValueError):
                delays += json.loads(line)
    delays.sort()
    if not delays:
        return Shown(0, float("inf"), float("inf"))
    return Shown(len(delays), delays[len(delays) // 2], delays[len(delays) * 99 // 100])


def _frozen(house: House, path: str) -> socket.socket:
    """Ask for the stream, and never read it."""
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, FROZEN_BUFFER_BYTES)
    one.connect(("127.0.0.1", house.port))
    one.sendall(_request(path, house.headers["Authorization"]))
    return one


def _request(path: str, key: str) -> bytes:
    return (f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {key}\r\nAccept: text/event-stream\r\n\r\n"
            ).encode()


def _until_cut(house: House, frozen: int, began: float) -> int:
    """Wait until the gateway says that it let them go; returns how many."""
    while True:
        cut = (house.place / "gateway.log").read_text(errors="replace").count("viewer_stalled")
        if cut >= frozen or time.monotonic() - began > CUT_TIMEOUT_S:
            return cut
        time.sleep(0.2)


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


async def _view(port: int, path: str, viewers: int, key: str) -> None:
    """Be the viewers: each second a line with the delays, in ms, of what all of them were shown."""
    delays: list[int] = []

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
        writer.write(_request(path, key))
        rest = b""
        while data := await reader.read(1 << 18):
            now = time.time_ns() // 1_000_000
            whole, end, rest = (rest + data).rpartition(b"\n\n")
            delays.extend(now - int(at) for at in TICK.findall(whole + end))

    async with asyncio.TaskGroup() as group:
        for _ in range(viewers):
            group.create_task(one())
            await asyncio.sleep(0.004)
        while True:
            await asyncio.sleep(1)
            taken = delays.copy()
            delays.clear()
            print(json.dumps(taken), flush=True)


def run(_seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts viewers."""
    with tempfile.TemporaryDirectory(prefix="interlock-r11-") as place:
        seen = fan_out(Path(place), rounds or VIEWERS, FROZEN, A_SECOND, MEASURED_S)
    for name, shown in (("alone", seen.alone), (f"beside {seen.frozen} frozen ones", seen.beside)):
        print(f"{seen.viewers} viewers × {A_SECOND}/s, {name}: {shown.count} shown in {MEASURED_S:.0f} s, p50 "
              f"{shown.p50_ms:.0f} ms, p99 {shown.p99_ms:.0f} ms")
    print(f"{seen.cut} of {seen.frozen} frozen viewers let go, the last {seen.cut_after_s:.1f} s after it came: its "
          f"buffers had to fill first, then {CUT_S:.0f} s; descriptors {seen.descriptors}")
    for sentence in seen.wrong:
        print("  !", sentence)
    print("passed" if not seen.wrong else "FAILED")
    return not seen.wrong


if __name__ == "__main__":
    asyncio.run(_view(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), sys.argv[4]))
