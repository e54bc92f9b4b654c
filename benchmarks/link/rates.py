"""`python -m benchmarks link`: the link one frame a message and under backlog, beside the machine's limit and the ACP
Python SDK over its WebSocket, in turns; then acknowledgements, a child's output, a reattach, and what idleness costs.
"""

from __future__ import annotations

import contextlib
import gc
import secrets
import statistics
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec

from benchmarks.harness import machine_limits, websocket
from benchmarks.harness.driver import drive
from benchmarks.harness.processes import Listening, listening
from benchmarks.harness.report import aligned
from benchmarks.harness.scripted_runner import ScriptedRunner, Viewer, prepared, prepared_batches
from benchmarks.link import acp_sdk, child_output, idle_memory
from benchmarks.link.reattach import FRAMES as BUFFERED
from benchmarks.link.reattach import reattach_s
from interlock.gateway.access.credentials import read_owner_key

ROUNDS = 5
SHORT_S, SHORT_ROUNDS, SHORT_BUFFERED = 1.0, 2, 1_000
"""A run that is shorter than this shows that all is counted, and no rate worth a name."""
VIEWERS = 4
A_MESSAGE = 256
"""Frames in a message under backlog: some 100 kB of the 1 MiB that a message may take."""
WARM_UP_FRAMES = 1_000
MIN_FRAMES = 500
ANSWERS_A_SECOND = 200
CHILD_BYTES_A_SECOND = 4_000_000
MAX_CHILD_BYTES = 64_000_000
IDLE_A_SECOND = 10
MAX_IDLE = 200
ONE_SHARE, BATCH_SHARE, ACP_SHARE, LIMIT_SHARE, LATENCY_SHARE = 0.25, 0.25, 0.15, 0.1, 0.1


class Side(msgspec.Struct, kw_only=True):
    """Frames a second of one side: the median of its rounds, and the rounds."""

    per_s: float
    rounds: list[float]


class LinkReport(msgspec.Struct, kw_only=True):
    """What `--json` prints."""

    frame_bytes: int
    viewers: int
    one: Side
    batches: Side
    acp: Side
    limit: Side
    """One receive and five sends on blocking sockets."""
    of_limit_one: float
    of_limit_batches: float
    of_acp_one: float
    of_acp_batches: float
    frames_sent: int
    frames_durable: int
    ack_p50_ms: float
    ack_p99_ms: float
    sync_p50_ms: float
    sync_p99_ms: float
    child_mb_per_s: float
    """A child's output into frames that are durable in the runner's outbox; `made`: all but the disk."""
    made_mb_per_s: float
    read_mb_per_s: float
    disk_mb_per_s: float
    of_read: float
    of_disk: float
    reattach_frames: int
    reattach_s: float
    idle: idle_memory.Idle


class Place(NamedTuple):
    """A gateway with a session that is in a turn, and viewers of it."""

    gateway: Listening
    runner: ScriptedRunner
    viewers: list[Viewer]
    a_message: int

    def round(self, count: int) -> float:
        """Frames a second from the first send to the last acknowledgement and the last viewer."""
        frames = self.runner.frames(count)
        messages = prepared(frames) if self.a_message == 1 else prepared_batches(frames, self.a_message)
        for viewer in self.viewers:
            viewer.expect_all()
        self.runner.begin_round()
        gc.collect()
        gc.disable()
        try:
            return count / drive(self.runner.sock, messages, self.runner.confirm, self.viewers).seconds
        finally:
            gc.enable()


def run(seconds: float) -> LinkReport:
    """Measure for about `seconds` seconds. Starts four processes on loopback, and ends them."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        singles = _place(stack, folder / "one", 1)
        batched = _place(stack, folder / "batches", A_MESSAGE)
        acp = stack.enter_context(listening("benchmarks.link.acp_sdk_process"))
        sync_echo = machine_limits.SyncEcho(
            stack.enter_context(listening("benchmarks.harness.sync_echo_process", str(folder / "sync.bin"))).port)
        stack.callback(sync_echo.close)
        rounds, buffered = (ROUNDS, BUFFERED) if seconds >= SHORT_S else (SHORT_ROUNDS, SHORT_BUFFERED)
        one, batches, theirs, bare = _rates(singles, batched, acp, seconds, rounds)
        mine, synced = _latency(singles, sync_echo, max(5, int(seconds * LATENCY_SHARE * ANSWERS_A_SECOND / rounds)),
                                rounds)
        read, disk, made, framed = _child(folder, min(MAX_CHILD_BYTES, int(seconds * CHILD_BYTES_A_SECOND)), rounds)
        sent, durable = _counted(singles, batched)
        back = _reattach(folder, batched, buffered)
        cost = _idle(stack, folder / "idle", min(MAX_IDLE, max(WARM_IDLE, int(seconds * IDLE_A_SECOND))))
    frame = singles.runner.text_frame(next(iter(singles.runner.sessions.values())))
    return LinkReport(
        frame_bytes=len(frame), viewers=VIEWERS, one=one, batches=batches, acp=theirs, limit=bare,
        of_limit_one=one.per_s / bare.per_s, of_limit_batches=batches.per_s / bare.per_s,
        of_acp_one=one.per_s / theirs.per_s, of_acp_batches=batches.per_s / theirs.per_s,
        frames_sent=sent, frames_durable=durable,
        ack_p50_ms=machine_limits.quantile(mine, 0.5) * 1_000, ack_p99_ms=machine_limits.quantile(mine, 0.99) * 1_000,
        sync_p50_ms=machine_limits.quantile(synced, 0.5) * 1_000,
        sync_p99_ms=machine_limits.quantile(synced, 0.99) * 1_000,
        child_mb_per_s=framed / 1e6, made_mb_per_s=made / 1e6, read_mb_per_s=read / 1e6, disk_mb_per_s=disk / 1e6,
        of_read=made / read, of_disk=framed / disk,
        reattach_frames=buffered, reattach_s=back, idle=cost)


WARM_IDLE = 20
"""At least this many of each kind: fewer would not show above a page."""


def _place(stack: contextlib.ExitStack, folder: Path, a_message: int) -> Place:
    folder.mkdir()
    state, token_file = folder / "state", folder / "runner.token"
    state.mkdir(mode=0o700)
    token_file.write_text(secrets.token_urlsafe(32))
    gateway = stack.enter_context(listening("benchmarks.harness.gateway_process", str(state), str(token_file)))
    key = read_owner_key(state)
    assert key is not None, "the gateway has made no owner key"
    runner = ScriptedRunner(gateway.port, token_file.read_text(), key, batch=a_message > 1)
    stack.callback(runner.close)
    session = runner.open()
    viewers = [runner.viewer(session) for _ in range(VIEWERS)]
    for viewer in viewers:
        stack.callback(viewer.sock.close)
    return Place(gateway, runner, viewers, a_message)


def _rates(singles: Place, batched: Place, acp: Listening, seconds: float, rounds: int
           ) -> tuple[Side, Side, Side, Side]:
    """All sides in turns, so that other load of the host affects each."""
    rates: tuple[list[float], ...] = ([], [], [], [])
    counts = [max(MIN_FRAMES, int(place.round(WARM_UP_FRAMES) * seconds * share / rounds))
              for place, share in ((singles, ONE_SHARE), (batched, BATCH_SHARE))]
    acp_count = max(MIN_FRAMES, int(acp_sdk.updates_per_s(acp.port, WARM_UP_FRAMES, 1)[0]
                                    * seconds * ACP_SHARE / rounds))
    for _ in range(rounds):
        for place in (singles, batched):
            place.runner.tend()
        rates[0].append(singles.round(counts[0]))
        rates[1].append(batched.round(counts[1]))
        rates[2].append(acp_sdk.updates_per_s(acp.port, acp_count, 1)[0])
        rates[3].append(machine_limits.blocking_sockets(machine_limits.MESSAGE_BYTES, seconds * LIMIT_SHARE / rounds))
    one, batches, theirs, bare = (Side(per_s=statistics.median(each), rounds=each) for each in rates)
    return one, batches, theirs, bare


def _latency(place: Place, sync_echo: machine_limits.SyncEcho, count: int, rounds: int
             ) -> tuple[list[float], list[float]]:
    """Acknowledgements with one frame in flight, in turns with one fdatasync and two hops."""
    session = next(iter(place.runner.sessions.values()))
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(rounds):
        messages = [websocket.message(place.runner.text_frame(session)) for _ in range(count)]
        theirs += sync_echo.delays(messages)
        place.runner.tend()
        mine += machine_limits.one_in_flight(place.runner.sock, messages, place.runner.acknowledged)
        for viewer in place.viewers:
            viewer.expect_all()
            while not viewer.done:
                viewer.feed(viewer.sock.recv(websocket.RECEIVE_BYTES))
    return mine, theirs


def _child(folder: Path, size: int, count: int) -> tuple[float, float, float, float]:
    """Bytes a second by `os.read`, onto the disk, into frames, and into durable ones: medians of rounds in turns."""
    rounds = [(child_output.bare_read(size), child_output.disk_write(folder, size),
               child_output.into_frames(folder / child_output.new_name(), size, durable=False),
               child_output.into_frames(folder / child_output.new_name(), size, durable=True)) for _ in range(count)]
    read, disk, made, framed = (statistics.median(each) for each in zip(*rounds, strict=True))
    return read, disk, made, framed


def _counted(*places: Place) -> tuple[int, int]:
    return sum(each.runner.sent() for each in places), sum(each.runner.durable() for each in places)


def _reattach(folder: Path, place: Place, count: int) -> float:
    """The scripted runner leaves; a real one comes back in its name with what was buffered meanwhile."""
    session = next(iter(place.runner.sessions.values()))
    place.runner.close()
    token = (folder / "batches" / "runner.token").read_text()
    return reattach_s(folder / "back", place.gateway.port, token, session.session_id, session.turn_id, session.seq,
                      count)


def _idle(stack: contextlib.ExitStack, folder: Path, count: int) -> idle_memory.Idle:
    """A gateway of its own, in which nothing else happens."""
    folder.mkdir()
    state, token_file = folder / "state", folder / "runner.token"
    state.mkdir(mode=0o700)
    token_file.write_text(secrets.token_urlsafe(32))
    tokens = idle_memory.prepare(state, count)
    gateway = stack.enter_context(listening("benchmarks.harness.gateway_process", str(state), str(token_file)))
    key = read_owner_key(state)
    assert key is not None, "the gateway has made no owner key"
    runner = ScriptedRunner(gateway.port, token_file.read_text(), key)
    stack.callback(runner.close)
    return idle_memory.measure(gateway, runner, key, tokens, count)


def table(report: LinkReport) -> str:
    """Write a report for people."""
    rows = [("", "per second", "of the limit", "of the ACP SDK"),
            ("one frame a message, durable, 4 viewers", f"{report.one.per_s:,.0f}", f"{report.of_limit_one:.2f}",
             f"{report.of_acp_one:.2f}"),
            (f"under backlog, {A_MESSAGE} a message", f"{report.batches.per_s:,.0f}", f"{report.of_limit_batches:.2f}",
             f"{report.of_acp_batches:.2f}"),
            ("ACP Python SDK, WebSocket, not durable, 1 reader", f"{report.acp.per_s:,.0f}", "", "1"),
            ("limit: blocking sockets, one in, five out", f"{report.limit.per_s:,.0f}", "1", "")]
    other = [("", "", "beside"),
             ("acknowledgement, p50", f"{report.ack_p50_ms:.2f} ms", f"fdatasync, 2 hops {report.sync_p50_ms:.2f} ms"),
             ("acknowledgement, p99", f"{report.ack_p99_ms:.2f} ms", f"fdatasync, 2 hops {report.sync_p99_ms:.2f} ms"),
             ("child's stdout into frames", f"{report.made_mb_per_s:.0f} MB/s",
              f"os.read {report.read_mb_per_s:.0f} MB/s, {report.of_read:.2f} of it"),
             ("the same, durable", f"{report.child_mb_per_s:.0f} MB/s",
              f"file and fdatasync {report.disk_mb_per_s:.0f} MB/s, {report.of_disk:.2f} of it"),
             (f"reattach with {report.reattach_frames:,} frames", f"{report.reattach_s:.2f} s",
              f"{report.reattach_frames / report.reattach_s:,.0f} frames a second"),
             ("one more idle session", f"{report.idle.session_kb:.0f} kB", "at most 50 kB"),
             ("one more idle runner", f"{report.idle.runner_kb:.0f} kB", "at most 100 kB"),
             ("one more idle viewer", f"{report.idle.viewer_kb:.0f} kB", "at most 30 kB")]
    return "\n".join([f"frames of {report.frame_bytes} bytes", *aligned(rows), "", *aligned(other), "",
                      f"{report.frames_sent} frames sent, {report.frames_durable} durable"])
