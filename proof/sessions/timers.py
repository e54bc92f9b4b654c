"""R9: timeouts of 1 to 5 s are never early and at most 250 ms late, despite clock jumps and restarts.

The engine is the real one over a SQLite ledger. Meanwhile the wall clock jumps an hour back and forth and the engine is
restarted, each time from its ledger only. The measured time is that on the monotonic clock from the turn's start to the
cancel that the runner is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from interlock.app.place import DeadlineClock, Sources
from interlock.backends.sqlite.ledger import open_ledger
from interlock.protocol.envelope import Frame
from proof import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "tests"))

TIMERS = 500
SHORTEST_MS, LONGEST_MS = 1_000, 5_000
LATE_MS = 250
HOUR_MS = 3_600_000
TURMOIL_S = (0.7, 1.6, 2.5, 3.4)
"""When, after the last start, the clock jumps; at every second one the engine is started again as well."""
PATIENCE_S = 20.0


class Timed(NamedTuple):
    """What the timers showed, in milliseconds; `missing` never rang."""

    early: int
    late_p50_ms: float
    late_p99_ms: float
    missing: int
    restarts: int
    jumps: int


class Jumping(Sources):
    """The host's time, with a wall clock that can be set."""

    def __init__(self) -> None:
        self.off_ms = 0

    def wall_ms(self) -> int:
        return super().wall_ms() + self.off_ms


class Ringing:
    """A runner's end of the link: it records when each session received its cancel, and the last received number."""

    def __init__(self, rang: dict[str, float], count: int) -> None:
        self._rang = rang
        self.has: dict[str, int] = {}
        self.all = asyncio.Event()
        self._count = count

    def send(self, raw: bytes) -> None:
        from interlock.protocol.frames import Direction, decode

        frame: Frame = decode(raw, Direction.M)
        session_id = frame.session_id or ""
        self.has[session_id] = max(self.has.get(session_id, 0), frame.seq or 0)
        if frame.type == "control.turn.cancel":
            self._rang.setdefault(session_id, time.monotonic())
            if len(self._rang) >= self._count:
                self.all.set()

    def ack(self, session_id: str, seq: int) -> None:
        """Nothing here waits for it."""

    def forget(self, session_id: str) -> None:
        pass

    def fail(self, sentence: str) -> None:
        """Nothing here waits for it."""


async def return_to(table: Any, ringing: Ringing) -> None:
    """Reconnect to a restarted gateway, as a runner does: it reports the last received control frame of
    each session, and receives the rest. A cancel that was committed and not yet sent would be lost otherwise (D-7)."""
    from engine.within import Within
    from interlock.engine.bridge.lane import Lane
    from interlock.engine.bridge.link.links import attach

    offer = table.hello.agents[0]
    for session_id, control_seq in list(ringing.has.items()):
        shell = await table.lane(session_id)

        def decide(lane: Lane, control_seq: int = control_seq) -> None:
            attach(lane, control_seq, offer, known=True)

        await shell.attach(ringing, Within(decide))


async def settled(returning: list[asyncio.Task[None]]) -> None:
    """Wait until the runner is back everywhere; what went wrong there is raised here."""
    while returning:
        await returning.pop()


async def timers(place: Path, count: int, seed: int) -> Timed:
    """Measure this many timeouts."""
    from engine.conversation import Table

    draw, sources, rang = random.Random(seed), Jumping(), dict[str, float]()
    ringing = Ringing(rang, count)
    table: Any = Table()
    table.entropy = secrets.token_bytes
    table.clock = DeadlineClock(place / "clock", sources)
    table.ledger = await open_ledger(place / "ledger.db", table.clock)
    table.begin()
    begun: dict[str, tuple[float, int]] = {}
    for _ in range(count):
        timeout_ms = draw.randint(SHORTEST_MS, LONGEST_MS)
        command = await table.execute(timeout_ms=timeout_ms)
        session_id = command.target.session_id
        await table.opened(session_id)
        table.engine.presence.get("local").connect(table.wire)
        asked = time.monotonic()
        await table.started(session_id, command.id)
        begun[session_id] = (asked, timeout_ms)
        (await table.lane(session_id)).link = ringing
        ringing.has[session_id] = max(frame.seq for frame in table.wire.sent if frame.session_id == session_id)
    returning: list[asyncio.Task[None]] = []
    restarts = jumps = 0
    since = time.monotonic()
    for number, at_s in enumerate(TURMOIL_S):
        await asyncio.sleep(max(0.0, since + at_s - time.monotonic()))
        sources.off_ms = draw.choice((-HOUR_MS, HOUR_MS)) if sources.off_ms == 0 else 0
        jumps += 1
        if number % 2:
            await settled(returning)
            await table.engine.stop()
            table.clock = DeadlineClock(place / "clock", sources)
            table.begin()
            table.engine.presence.get("local").connect(ringing)
            await table.engine.start()
            returning.append(asyncio.create_task(return_to(table, ringing)))
            restarts += 1
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            await ringing.all.wait()
    await settled(returning)
    await table.engine.stop()
    await table.ledger.close()
    late = sorted((rang[session] - at) * 1000 - timeout_ms for session, (at, timeout_ms) in begun.items()
                  if session in rang)
    return Timed(sum(one < 0 for one in late), late[len(late) // 2], late[int(len(late) * 0.99)], count - len(late),
                 restarts, jumps)


def run(seed: int, rounds: int | None) -> bool:
    """Time them and print how late they were; `rounds` counts timers."""
    with tempfile.TemporaryDirectory(prefix="interlock-timers-") as place:
        seen = asyncio.run(timers(Path(place), rounds or TIMERS, seed))
    print(f"{rounds or TIMERS} timers under {seen.jumps} jumps of an hour and {seen.restarts} restarts: {seen.early} "
          f"early, {seen.missing} missing, late by {seen.late_p50_ms:.0f} ms (p50) and {seen.late_p99_ms:.0f} ms (p99)")
    passed = not seen.early and not seen.missing and seen.late_p99_ms <= LATE_MS
    print("passed" if passed else f"FAILED; repeat with --seed {seed}")
    return passed
