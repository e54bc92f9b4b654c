"""R11: 500 viewers of one session that sends 100 texts a second: 99 of 100 are shown within 250 ms (S-3, S-4).

Then 50 viewers stop reading: each is disconnected within 30 s, and the delay of the others grows by a factor of at
most 1.5. Times are from the agent's own clock to the viewer's, on one machine. Each text is sent as
a delta, and as a numbered event with the next text: so each viewer is sent 200 events a second, and half of them count
as later by that hundredth of a second.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

from proof import REPOSITORY
from proof.processes import process_clock
from proof.processes.fork_server import ForkServer
from proof.processes.stack import NotReady, Stack
from proof.workload.stream_readers import Reader, request

VIEWERS = 500
FROZEN = 50
A_SECOND = 100
MEASURED_S = 15.0
SETTLED_SHARE = 0.2
"""The share of the measured time that passes after the last viewer has connected."""
P99_MS = 250.0
CUT_S = 30.0
CAUGHT_UP_S = 60.0
"""Late viewers receive the earlier events, and are live within this time."""
WORSE = 1.5
SHOWN_OF_SENT = 0.9
"""The least share of the sent events that must arrive: delays of missing events would not count."""
TURN_S = 600
FROZEN_BUFFER_BYTES = 65_536
"""What the kernel takes for a viewer that reads nothing: its own side's choice."""
TICKER = """
import json, os, sys, time, uuid
def send(kind, payload, **metadata):
    print(json.dumps({"type": kind, "message_id": os.urandom(8).hex(), "metadata": metadata, "payload": payload}),
          flush=True)
turns = 0
for line in sys.stdin:
    frame = json.loads(line)
    if frame["type"] == "control.session.open":
        send("session.capabilities", {"dps_version": "rawp-dps-1.0",
             "features": {"adapter_type": "process", "permission": "asks"},
             "agent": {"agent_id": "ticker", "name": "Ticker", "version": "1"}}, in_reply_to=frame["message_id"])
    elif frame["type"] == "control.prompt.request":
        a_second, seconds = map(int, frame["payload"]["text"].split())
        turn = str(uuid.uuid4())
        send("session.turn.start", {"turn_id": turn, "turn_index": turns}, prompt_id=frame["payload"]["prompt_id"])
        turns += 1
        began = time.monotonic()
        for number in range(a_second * seconds):
            time.sleep(max(0.0, began + number / a_second - time.monotonic()))
            # Text and thoughts in turn: the runner ends a block where one of the other kind begins.
            send("agent.thinking.done" if number % 2 else "agent.text.done", {"turn_id": turn, "block_id": f"b{number}",
                 "text": f"at {time.time_ns() // 1_000_000} ms " + "." * 200})
        send("session.turn.end", {"turn_id": turn, "stop_reason": "end_turn"})
"""


class Shown(NamedTuple):
    """What the viewers were shown between two instants: how many things, and their delays in ms."""

    things: int
    p50_ms: float
    p99_ms: float
    gateway_cores: float
    readers_cores: float
    """Processor time that each took, of one core."""


class Findings(NamedTuple):
    """What a run counted."""

    viewers: int
    frozen: int
    sent: int
    """Events that all viewers together should have been shown while it was measured."""
    alone: Shown
    beside: Shown
    cut: int
    cut_after_s: float
    descriptors: tuple[int, int, int]
    """Of the gateway: with the viewers, with the frozen ones, after they were cut."""

    @property
    def wrong(self) -> list[str]:
        """The failures that do not depend on the load of the host."""
        found: list[str] = []
        for name, shown in (("alone", self.alone), ("beside frozen ones", self.beside)):
            if shown.things < SHOWN_OF_SENT * self.sent:
                found.append(f"{name}: {shown.things} of {self.sent} were shown")
        if self.cut != self.frozen:
            found.append(f"{self.cut} of {self.frozen} frozen viewers were let go within {CUT_S:.0f} s")
        if self.descriptors[2] > self.descriptors[0] + 2:
            found.append(f"descriptors {self.descriptors}: those of viewers that were let go stay open")
        return found

    @property
    def late(self) -> list[str]:
        """What is shown too late."""
        found: list[str] = []
        if self.alone.p99_ms > P99_MS:
            found.append(f"p99 {self.alone.p99_ms:.0f} ms is more than {P99_MS:.0f} ms")
        if self.beside.p99_ms > WORSE * self.alone.p99_ms:
            found.append(f"p99 {self.beside.p99_ms:.0f} ms beside frozen viewers, {self.alone.p99_ms:.0f} ms before")
        return found


def fan_out(place: Path, viewers: int, frozen: int, a_second: int, measured_s: float) -> Findings:
    """Measure viewers alone, then beside frozen ones, if any, until those are disconnected."""
    script = place / "ticker.py"
    script.write_text(TICKER)
    sent = round(2 * a_second * measured_s * viewers)
    fork_server = ForkServer()
    stack = Stack(place, f'\n[agents.ticker]\nadapter = "dps"\ncommand = "{sys.executable}"\n'
                         f'args = ["-I", "-S", "{script}"]\n', fork_server)
    watching: subprocess.Popen[bytes] | None = None
    frozen_readers: list[Reader] = []
    try:
        stack.up()
        session_id = _send_text(stack, 1, 1)  # A first turn, so that there is a session to watch.
        path = f"/v1/sessions/{session_id}/frames"
        log = place / "viewers.jsonl"
        watching = _watch(stack, path, viewers, log)
        stack.until(lambda: log.stat().st_size > 0)
        _send_text(stack, a_second, TURN_S, session_id)
        time.sleep(SETTLED_SHARE * measured_s)
        gateway = stack.processes["gateway"].pid
        alone = _measure(log, measured_s, gateway, watching.pid)
        descriptors = [_descriptors(gateway)]
        if not frozen:
            return Findings(viewers, 0, sent, alone, alone, 0, 0.0, (descriptors[0], descriptors[0], descriptors[0]))
        since = _newest(stack, path)
        frozen_readers.extend(_one_more(stack, f"{path}?since={since}") for _ in range(frozen))
        _read_along(frozen_readers)
        began = time.monotonic()
        descriptors.append(_descriptors(gateway))
        beside = _measure(log, measured_s, gateway, watching.pid)
        cut = _until_cut(frozen_readers, began)
        after_s = time.monotonic() - began
        stack.until(lambda: _descriptors(gateway) <= descriptors[0] + 2) if cut == frozen else None
        return Findings(viewers, frozen, sent, alone, beside, cut, after_s,
                        (descriptors[0], descriptors[1], _descriptors(gateway)))
    finally:
        if watching is not None:
            watching.kill()
            watching.wait()
        for one in frozen_readers:
            one.socket.close()
        stack.down()
        fork_server.close()


def _send_text(stack: Stack, a_second: int, seconds: int, session_id: str | None = None) -> str:
    """Let the agent send this much, in an existing or a new session, and return its id."""
    target = {"session_id": session_id} if session_id else {"agent_id": "ticker", "workspace": str(stack.workspace)}
    body: dict[str, Any] = {"type": "execute", "target": target, "payload": {"messages": [
        {"role": "user", "content": [{"contentType": "text", "value": f"{a_second} {seconds}"}]}]}}
    answer = stack.post("/v1/commands", body, f"proof-fan-out-{a_second}-{seconds}-{session_id}")
    return str(answer.json()["target"]["session_id"])


def _newest(stack: Stack, path: str) -> str:
    """Return the cursor of the last event."""
    cursor, more = "", True
    while more:
        page = stack.get(path, limit=500, **({"since": cursor} if cursor else {}))
        cursor, more = page["next_cursor"], page["has_more"]
    return cursor


def _watch(stack: Stack, path: str, viewers: int, log: Path) -> subprocess.Popen[bytes]:
    with log.open("wb") as out:
        command = [sys.executable, "-m", "proof.workload.stream_readers", str(stack.port), path, str(viewers)]
        watching = subprocess.Popen(command, stdout=out, stdin=subprocess.PIPE, cwd=REPOSITORY)
    assert watching.stdin is not None
    watching.stdin.write(stack.headers["Authorization"].encode() + b"\n")
    watching.stdin.close()
    return watching


def _measure(log: Path, seconds: float, gateway: int, readers: int) -> Shown:
    """Return the events received from now on for this time, in whole seconds of the viewers."""
    start = len(log.read_bytes().splitlines())
    began, before = time.monotonic(), (process_clock.cpu_s(gateway), process_clock.cpu_s(readers))
    time.sleep(seconds + 1.5)
    took_s = time.monotonic() - began
    cores = [(process_clock.cpu_s(pid) - was) / took_s for pid, was in zip((gateway, readers), before, strict=True)]
    delays: Counter[int] = Counter()
    for line in log.read_bytes().splitlines()[start + 1:start + 1 + round(seconds)]:
        delays.update({int(ms): count for ms, count in json.loads(line).items()})
    return Shown(delays.total(), _quantile(delays, 0.5), _quantile(delays, 0.99), *cores)


def _quantile(delays: Counter[int], share: float) -> float:
    left = delays.total() * share
    for ms in sorted(delays):
        left -= delays[ms]
        if left <= 0:
            return ms
    return float("inf")


def _one_more(stack: Stack, path: str) -> Reader:
    return Reader(stack.port, request(path, stack.headers["Authorization"]), FROZEN_BUFFER_BYTES)


def _read_along(readers: list[Reader]) -> None:
    """Read until each has received an event of this second: later events are live, and are not read."""
    behind = {one.socket.fileno(): one for one in readers}
    deadline = time.monotonic() + CAUGHT_UP_S
    while behind:
        if time.monotonic() > deadline:
            raise NotReady(f"{len(behind)} viewers were shown nothing that is live within {CAUGHT_UP_S:.0f} s")
        for number in select.select(list(behind), [], [], 1.0)[0]:
            if (ticks := behind[number].ticks()) and time.time() * 1000 - ticks[-1] < 1000:
                del behind[number]


def _until_cut(readers: list[Reader], began: float) -> int:
    """Wait until the gateway has ended them, or the time is over; returns how many it ended."""
    ended = select.poll()
    for one in readers:
        ended.register(one.socket, 0)  # Reported in every case: the other side is gone.
    cut: set[int] = set()
    while len(cut) < len(readers) and time.monotonic() - began < CUT_S:
        for number, _ in ended.poll(100):
            cut.add(number)
            ended.unregister(number)
    return len(cut)


def _descriptors(pid: int) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())


def run(_seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts viewers."""
    with tempfile.TemporaryDirectory(prefix="interlock-r11-") as place:
        seen = fan_out(Path(place), rounds or VIEWERS, FROZEN, A_SECOND, MEASURED_S)
    for name, shown in (("alone", seen.alone), (f"beside {seen.frozen} frozen ones", seen.beside)):
        print(f"{seen.viewers} viewers × {A_SECOND}/s, {name}: {shown.things} of {seen.sent} events shown in "
              f"{MEASURED_S:.0f} s, p50 {shown.p50_ms:.0f} ms, p99 {shown.p99_ms:.0f} ms; cores of the gateway "
              f"{shown.gateway_cores:.2f}, of the viewers {shown.readers_cores:.2f}")
    print(f"{seen.cut} of {seen.frozen} frozen viewers let go, the last {seen.cut_after_s:.1f} s after it stopped to "
          f"read; descriptors {seen.descriptors}; load of the machine {os.getloadavg()[0]:.1f}")
    wrong = seen.wrong + seen.late
    for sentence in wrong:
        print("  !", sentence)
    print("passed" if not wrong else "FAILED")
    return not wrong
