"""Durable frames per second through the whole path, its parts, and the limits beside them, in one run.

The whole path: a scripted runner's frames, one a WebSocket message, go through a gateway process (decode, decide,
commit with synchronous=FULL, acknowledge) to VIEWERS viewers of each session over server-sent events. Rounds of it and
of each limit alternate, so that other load of the machine affects both; the report has medians.
"""

from __future__ import annotations

import contextlib
import gc
import secrets
import statistics
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.harness import machine_limits, websocket
from benchmarks.harness.driver import Prepared, drive
from benchmarks.harness.processes import Listening, listening
from benchmarks.harness.report import Latency, Part, Report, Whole
from benchmarks.harness.scripted_runner import ScriptedRunner, Viewer, prepared
from benchmarks.link import frame_stages
from interlock.gateway.access.credentials import read_owner_key

ROUNDS = 5
WARM_UP_FRAMES = 1_000
MIN_FRAMES = 200
ANSWERS_A_SECOND = 300
"""Answers with one in flight that fit into a second on a slow disk."""
ONE_SHARE, EIGHT_SHARE, LATENCY_SHARE, PARTS_SHARE = 0.45, 0.25, 0.1, 0.2
"""How the time of a run is shared out."""


class Sides(NamedTuple):
    """What one round of each side gave: rates per second, frames an acknowledgement, shares of the time."""

    rate: float
    echo: float
    fdatasync: float
    an_ack: float
    driver_busy: float
    gateway_busy: float


class Bench:
    """A gateway, the servers that show its limits, and the rounds on them."""

    def __init__(self, folder: Path, gateway: Listening, echo: Listening, sync_echo: Listening, token: str) -> None:
        key = read_owner_key(folder / "state")
        assert key is not None, "the gateway has made no owner key"
        self.runner = ScriptedRunner(gateway.port, token, key)
        self.echo_rounds: list[float] = []
        self.fdatasync_rounds: list[float] = []
        self.last_frames: list[bytes] = []
        self._folder = folder
        self._gateway = gateway
        self._echo = machine_limits.Echo(echo.port)
        self._sync_echo = machine_limits.SyncEcho(sync_echo.port)

    def tend(self) -> None:
        """Keep the connections alive while something else is measured."""
        self.runner.tend()
        self._echo.tend()

    def close(self) -> None:
        """Cut all connections."""
        self._echo.close()
        self._sync_echo.close()
        self.runner.close()

    def whole(self, sessions: int, seconds: float) -> Whole:
        """Open sessions up to `sessions`; then one round to warm up, and ROUNDS of all sides."""
        runner = self.runner
        while len(runner.sessions) < sessions:
            runner.open()
        rows = [[runner.viewer(session) for session in runner.sessions.values()] for _ in range(frame_stages.VIEWERS)]
        viewers = [viewer for row in rows for viewer in row]
        warm = self._round(WARM_UP_FRAMES, viewers, seconds=0.01)
        count = max(MIN_FRAMES, int(warm.rate * seconds / ROUNDS / 2))
        rounds = [self._round(count, viewers, seconds / ROUNDS / 6) for _ in range(ROUNDS)]
        self.echo_rounds += [each.echo for each in rounds]
        self.fdatasync_rounds += [each.fdatasync for each in rounds]
        for viewer in viewers:
            viewer.sock.close()
        return Whole(
            sessions=sessions, viewers=len(viewers), frames_sent=runner.sent(), frames_durable=runner.durable(),
            frames_seen=[sum(viewer.seen for viewer in row) for row in rows],
            frames_per_s=statistics.median(each.rate for each in rounds),
            rounds=[each.rate for each in rounds], frames_per_ack=statistics.median(each.an_ack for each in rounds),
            of_echo=statistics.median(each.rate / each.echo for each in rounds),
            of_fdatasync=statistics.median(each.rate / each.fdatasync for each in rounds),
            driver_busy=statistics.median(each.driver_busy for each in rounds),
            gateway_busy=statistics.median(each.gateway_busy for each in rounds),
        )

    def latency(self, seconds: float) -> Latency:
        """Acknowledgements with one frame in flight, in turns with one fdatasync and two hops over loopback."""
        session = next(iter(self.runner.sessions.values()))
        mine: list[float] = []
        theirs: list[float] = []
        for _ in range(ROUNDS):
            count = max(4, int(seconds * ANSWERS_A_SECOND / ROUNDS))
            messages = [websocket.message(self.runner.text_frame(session)) for _ in range(count)]
            theirs += self._sync_echo.delays(messages)
            self.tend()
            mine += machine_limits.one_in_flight(self.runner.sock, messages, self.runner.acknowledged)
        p50, p99, limit_p50, limit_p99 = (machine_limits.quantile(delays, share) * 1_000
                                          for delays in (mine, theirs) for share in (0.5, 0.99))
        return Latency(answers=len(mine), p50_ms=p50, p99_ms=p99, limit_p50_ms=limit_p50, limit_p99_ms=limit_p99,
                       of_limit_p50=p50 / limit_p50, of_limit_p99=p99 / limit_p99)

    def _round(self, count: int, viewers: Sequence[Viewer], seconds: float) -> Sides:
        """One round of each side, one after the other; `seconds` is for fdatasync."""
        self.last_frames = self.runner.frames(count)
        messages = prepared(self.last_frames)
        for viewer in viewers:
            viewer.expect_all()
        self.runner.begin_round()
        gateway_cpu = self._gateway.cpu_s()
        with _no_collection():
            whole = drive(self.runner.sock, messages, self.runner.confirm, viewers)
        gateway_cpu = self._gateway.cpu_s() - gateway_cpu
        echo = self._echo_round(messages)
        fdatasync = machine_limits.fdatasyncs(self._folder, seconds)
        return Sides(rate=count / whole.seconds, echo=echo, fdatasync=fdatasync, an_ack=count / self.runner.acks,
                     driver_busy=whole.driver_cpu_s / whole.seconds, gateway_busy=gateway_cpu / whole.seconds)

    def _echo_round(self, messages: Prepared) -> float:
        with _no_collection():
            return len(messages.ends) / self._echo.round(messages).seconds


@contextlib.contextmanager
def _no_collection() -> Generator[None]:
    """Keep the driver's garbage collector out of a round."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def run(seconds: float) -> Report:
    """Measure for about `seconds` seconds. Starts three processes on loopback, and ends them."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name, contextlib.ExitStack() as stack:
        folder, token = Path(name), secrets.token_urlsafe(32)
        state, token_file = folder / "state", folder / "runner.token"
        state.mkdir(mode=0o700)
        token_file.write_text(token)
        gateway = stack.enter_context(listening("benchmarks.harness.gateway_process", str(state), str(token_file)))
        echo = stack.enter_context(listening("benchmarks.harness.echo_process"))
        written = str(folder / "sync_echo.bin")
        sync_echo = stack.enter_context(listening("benchmarks.harness.sync_echo_process", written))
        bench = Bench(folder, gateway, echo, sync_echo, token)
        stack.callback(bench.close)
        one = bench.whole(1, seconds * ONE_SHARE)
        group = max(1, round(one.frames_per_ack))
        timed = _parts(folder, bench, group)
        latency = bench.latency(seconds * LATENCY_SHARE)
        eight = bench.whole(8, seconds * EIGHT_SHARE)
        return Report(
            frame_bytes=len(bench.last_frames[-1]), whole=[one, eight], parts=timed, parts_group=group,
            echo_per_s=statistics.median(bench.echo_rounds),
            fdatasync_per_s=statistics.median(bench.fdatasync_rounds), latency=latency,
        )


def _parts(folder: Path, bench: Bench, group: int) -> list[Part]:
    """Time the parts three times on the same frames; the median of each."""
    runs: list[frame_stages.Parts] = []
    frames = bench.last_frames
    for number in range(3):
        place = folder / f"parts{number}"
        place.mkdir()
        runs.append(frame_stages.measure(place, frames, group))
        bench.tend()
    timed: list[Part] = []
    for at, name in enumerate(frame_stages.Parts._fields):
        seconds = statistics.median(run[at] for run in runs)
        timed.append(Part(name=name, us_a_frame=seconds / len(frames) * 1e6, frames_per_s=len(frames) / seconds))
    return timed
