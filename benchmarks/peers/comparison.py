"""The same work through Interlock and through agent servers of other projects, on one machine in one run.

The product's model stand-in answers behind all of them, so none waits for a model. Each is started by its one command,
in a HOME of its own, and killed with kill -9 in the middle of a turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncGenerator
from pathlib import Path

import httpx2
import msgspec

from benchmarks.harness.processes import listening
from benchmarks.peers.python_servers import LangGraphPeer, OmnigentPeer, OpenHandsPeer
from benchmarks.peers.servers import (
    BehindGoose,
    BehindOpencode,
    InterlockPeer,
    NotThere,
    OpencodePeer,
    Peer,
    Place,
)
from benchmarks.peers.socket_servers import AcpSdkPeer, CodexPeer, GoosePeer
from benchmarks.product.footprint import memory
from interlock.app.own_servers import free_port
from proof.processes import process_clock

PEERS: tuple[type[Peer], ...] = (
    InterlockPeer, BehindGoose, BehindOpencode, OpencodePeer, CodexPeer, GoosePeer, AcpSdkPeer, OmnigentPeer,
    OpenHandsPeer, LangGraphPeer)
ROUNDS = 3
"""Each round measures all servers one after the other; medians of the rounds are shown."""
EVENTS = 10_000
EVENT_BYTES = 100
READERS = 4
SESSIONS = 10
"""Sessions whose memory is counted, each with one prompt answered."""
KILL_AFTER = 300
"""Events that a reader has when the server is killed; they come every EVENT_EVERY_MS."""
EVENT_EVERY_MS = 5
READY_S = 60.0
QUIET_S = 3.0
"""The time after a start or restart until background work of a server has begun."""
SILENCE_S = 30.0
"""A reader that receives nothing for this time is not served."""
PATIENCE_S = 90.0
"""The first event of an answer comes within this, on a busy machine, too."""
POLL_S = 0.05
BEGIN, END = "<!-- measured -->", "<!-- end of what was measured -->"
"""The table of a page is between these."""


class PeerResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """The figures of one server; `missing` is the reason why nothing was measured."""

    name: str
    version: str = ""
    interface: str = ""
    missing: str = ""
    first_text_s: float = 0.0
    readers: int = 0
    events_s: float = 0.0
    cpu_s: float = 0.0
    """Processor time of the server and all that it started, for these events."""
    idle_mb: float = 0.0
    session_mb: float = 0.0
    seen: int = 0
    lost: int = 0
    runs: int = 0
    of_ours: float = 0.0
    """Its events a second by ours, of the same round."""


class PeersReport(msgspec.Struct, frozen=True):
    """What `--json` prints."""

    results: list[PeerResult]
    load: float
    rounds: int = 1


def run(names: tuple[str, ...] = (), events: int = EVENTS, rounds: int = ROUNDS) -> PeersReport:
    """Measure each server that is here, or those of `names`, once a round; every other round goes through them from the
    last to the first."""
    kinds = [kind for kind in PEERS if not names or kind.name in names]
    found: dict[str, list[PeerResult]] = {kind.name: [] for kind in kinds}
    for number in range(rounds):
        made: dict[str, PeerResult] = {}
        for kind in kinds if number % 2 == 0 else reversed(kinds):
            earlier = found[kind.name]
            made[kind.name] = earlier[0] if earlier and earlier[0].missing else _measured(kind, events)
        ours = made.get(InterlockPeer.name)
        for name, one in made.items():
            share = one.events_s / ours.events_s if ours is not None and ours.events_s else 0.0
            found[name].append(msgspec.structs.replace(one, of_ours=share))
    return PeersReport([middle_of(results) for results in found.values()], os.getloadavg()[0], rounds)


def _measured(kind: type[Peer], events: int) -> PeerResult:
    """Start one server and do the work; what was in the way is in the result."""
    with listening("interlock.model_stand_in", "--port", "0") as model, \
            tempfile.TemporaryDirectory(prefix="interlock-peers-", ignore_cleanup_errors=True) as home:
        place = Place(Path(home), free_port(), f"http://127.0.0.1:{model.port}")
        trial = _Trial(kind, place)
        try:
            return asyncio.run(trial.measure(events))
        except NotThere as absent:
            return PeerResult(kind.name, missing=str(absent))
        except (OSError, TimeoutError, httpx2.HTTPError, RuntimeError) as error:
            why = " ".join(str(error).split()) or type(error).__name__
            return PeerResult(kind.name, missing=f"at {trial.step}: {why[:200]}")


def middle_of(results: list[PeerResult]) -> PeerResult:
    """Return the medians of a server's rounds, and the worst of the figures that should be 0."""
    done = [one for one in results if not one.missing]
    if not done:
        return results[0]
    figures = {name: statistics.median(getattr(one, name) for one in done)
               for name in ("first_text_s", "events_s", "cpu_s", "idle_mb", "session_mb", "of_ours")}
    worst = {name: max(getattr(one, name) for one in done) for name in ("seen", "lost", "runs")}
    return msgspec.structs.replace(done[0], readers=min(one.readers for one in done), **figures, **worst)


class _Trial:
    """One server, from its start to its end."""

    def __init__(self, make: type[Peer], place: Place) -> None:
        self._peer = make(place)
        self._make = make
        self._place = place
        self._process: subprocess.Popen[bytes] | None = None
        self.step = "its start"
        """What is done now, for the sentence about a failure."""

    async def measure(self, events: int) -> PeerResult:
        """Do the work. Raises NotThere, OSError, TimeoutError."""
        version = self._peer.version()
        try:
            first_text_s, session = await self._first_text()
            self.step = f"{READERS} readers"
            await asyncio.sleep(QUIET_S)
            idle_mb = self._memory_mb()
            cpu_s = self._cpu_s()
            readers, seconds = await self._fan_out(session, events)
            cpu_s = self._cpu_s() - cpu_s
            before_mb = self._memory_mb()
            self.step = f"{SESSIONS} sessions"
            for _ in range(SESSIONS):
                await self._answered(await self._peer.session(), "[[say:hello]]")
            session_mb = (self._memory_mb() - before_mb) / SESSIONS
            self.step = "kill -9"
            seen, lost, runs = await self._killed()
            return PeerResult(self._peer.name, version, self._peer.interface, "", first_text_s, readers,
                              events / seconds, cpu_s, idle_mb, session_mb, seen, lost, runs)
        finally:
            with contextlib.suppress(Exception):
                await self._peer.close()
            self._end(signal.SIGTERM)

    async def _first_text(self) -> tuple[float, str]:
        """Seconds from the command to the first text that a client has."""
        began = time.monotonic()
        await self._start()
        session = await self._peer.session()
        await self._answered(session, "[[say:first text]]")
        return time.monotonic() - began, session

    async def _answered(self, session: str, text: str) -> None:
        """Send a prompt and wait for the first text of its answer."""
        reading = self._peer.reader(session, own=True)
        try:
            await self._followed(reading)
            await self._peer.prompt(session, text)
            async with asyncio.timeout(PATIENCE_S):
                async for piece in reading:
                    if piece:
                        return
        finally:
            await reading.aclose()

    async def _followed(self, reading: AsyncGenerator[str]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await anext(reading)

    async def _fan_out(self, session: str, events: int) -> tuple[int, float]:
        """Have the events read by READERS at once: how many of them got all, and the seconds until the last had."""
        wanted = events * EVENT_BYTES
        following = [asyncio.Event() for _ in range(READERS)]
        done = [asyncio.create_task(self._count(session, wanted, event, own=event is following[0]))
                for event in following]
        async with asyncio.timeout(PATIENCE_S):
            await asyncio.gather(*(event.wait() for event in following))
        await asyncio.sleep(1.0)
        began = time.monotonic()
        await self._peer.prompt(session, f"[[chunks:{events}]] [[wide:{EVENT_BYTES}]]")
        ended = [one for one in await asyncio.gather(*done) if one is not None]
        if not ended:
            raise TimeoutError(f"no reader got {events} events")
        return len(ended), max(ended) - began

    async def _count(self, session: str, wanted: int, following: asyncio.Event, *, own: bool) -> float | None:
        """When a reader had everything; None if it was not served."""
        reading, had = self._peer.reader(session, own=own), 0
        try:
            while had < wanted:
                had += len(await asyncio.wait_for(anext(reading), PATIENCE_S if not had else SILENCE_S))
                following.set()
            return time.monotonic()
        except (TimeoutError, StopAsyncIteration, OSError):
            following.set()
            return None
        finally:
            await reading.aclose()

    async def _killed(self) -> tuple[int, int, int]:
        """Kill the server in the middle of a turn and start it again: events that a reader had seen, how many of them
        are gone, and how often the model was asked."""
        session = await self._peer.session()
        await self._answered(session, "[[say:hello]]")
        await asyncio.sleep(QUIET_S)
        before = await self._asked()
        reading, seen = self._peer.reader(session, own=True), ""
        await self._followed(reading)
        await self._peer.prompt(session, f"[[chunks:2000]] [[wide:{EVENT_BYTES}]] [[delay:{EVENT_EVERY_MS}]]")
        async with asyncio.timeout(PATIENCE_S):
            async for piece in reading:
                seen += piece
                if seen.count("of 2000") >= KILL_AFTER:
                    break
        self._end(signal.SIGKILL)
        await reading.aclose()
        with contextlib.suppress(Exception):
            await self._peer.close()
        self._peer = self._make_again()
        await self._start()
        kept = await self._peer.kept(session)
        await asyncio.sleep(QUIET_S)
        if self._peer.keeps and "hello" not in kept:
            raise RuntimeError("what it has of the session lacks the answer of the turn before")
        count = seen.count("of 2000")
        return count, count - min(count, kept.count("of 2000")), await self._asked() - before

    def _make_again(self) -> Peer:
        return self._make(self._place)

    async def _asked(self) -> int:
        """How often the model server was asked to answer the long prompt."""
        async with httpx2.AsyncClient() as http:
            recorded = (await http.get(f"{self._place.model_url}/recorded")).json()
        return sum(one["kind"] != "side" and "[[chunks:2000]]" in str(one["body"]) for one in recorded)

    async def _start(self) -> None:
        """Start the server by its command and wait until a client is connected. Raises TimeoutError, OSError."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("INTERLOCK_") and name != "PYTHONDONTWRITEBYTECODE"}
        environment |= {"HOME": str(self._place.home), **self._peer.environment()}
        self._process = subprocess.Popen(  # noqa: ASYNC220 - nothing else waits meanwhile
            self._peer.command(), cwd=self._place.workspace, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        async with asyncio.timeout(READY_S):
            while True:
                try:
                    return await self._peer.connected()
                except (OSError, TimeoutError):
                    if self._process.poll() is not None:
                        raise OSError(f"it ended with status {self._process.returncode}") from None
                    await asyncio.sleep(POLL_S)

    def _end(self, number: signal.Signals) -> None:
        """End the server with all that it started."""
        if self._process is None:
            return
        pids = [self._process.pid, *_below(self._process.pid)]
        for pid in pids if number is signal.SIGKILL else pids[:1]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        try:
            self._process.wait(15.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pid in pids[1:]:  # What it has left behind.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process = None

    def _cpu_s(self) -> float:
        """Processor time so far, in seconds, of what runs."""
        assert self._process is not None
        total = 0.0
        for pid in (self._process.pid, *_below(self._process.pid)):
            with contextlib.suppress(OSError):
                total += process_clock.cpu_s(pid)
        return total

    def _memory_mb(self) -> float:
        assert self._process is not None
        total = 0.0
        for pid in (self._process.pid, *_below(self._process.pid)):
            with contextlib.suppress(OSError):
                total += memory(pid).pss_mb
        return total


def _below(pid: int) -> list[int]:
    """The processes that one has started, and those that they have."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(one) for one in task.read_text("ascii").split()]
    return [*found, *(deeper for one in found for deeper in _below(one))]


def shown_in(page: str, report: PeersReport) -> str:
    """Return a page with the table between its markers. Raises ValueError if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"The page has no lines {BEGIN} and {END}.")
    return (f"{before}{BEGIN}\n\n{table(report)}\n\n"
            f"Medians of {report.rounds} rounds over all servers. Load of the machine: {report.load:.0f}.\n\n"
            f"{END}{after}")


def table(report: PeersReport) -> str:
    """The table that docs/explanation/beside-others.md shows."""
    lines = ["| server | first text, s | readers served | events/s | of ours | processor, s | idle, MB "
             "| a session, MB | seen, then lost | model asked |", "|---|---|---|---|---|---|---|---|---|---|"]
    for one in report.results:
        if not one.missing:
            share = f"{one.of_ours:.2f}" if one.of_ours else ""
            lines.append(f"| {one.name} {one.version} | {one.first_text_s:.1f} | {one.readers} of {READERS} "
                         f"| {one.events_s:,.0f} | {share} | {one.cpu_s:.1f} | {one.idle_mb:.0f} "
                         f"| {max(0.0, one.session_mb):.1f} | {one.seen}, {one.lost} | {one.runs} |")
    lines.append("")
    lines += [f"- {one.name}: {one.missing}" for one in report.results if one.missing]
    return "\n".join(lines)
