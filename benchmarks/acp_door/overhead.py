"""An agent's text through Interlock's ACP doors, beside the same agent driven directly, by the same client in one run.

The client is the ACP Python SDK's. Rounds of the agent alone, of `interlock acp` and of the gateway's `/acp` alternate;
the report gives medians. Text is counted, not messages: text that waits for a reader is merged on its way.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import REPOSITORY
from benchmarks.acp_door.scripted_agent import PACE_S, PIECE_CHARS
from benchmarks.harness.machine_limits import quantile
from benchmarks.product.footprint import memory
from proof.processes.stack import Stack

ROUNDS = 5
STARTS = 7
"""Starts of the door; the fastest counts, since other work of the machine only adds."""
PIECES_A_SECOND = 2_000
"""For how many pieces a round is meant to have time; more on a fast machine."""
INITIALIZE_LIMIT_S, RATE_LIMIT, ADDED_LIMIT_MS = 0.6, 0.8, 5.0
FAST_SHARE = 0.6
"""Of the time of a run, for the rounds that measure the rate."""
PATIENCE_S = 120.0
CONFIG = f"""
[agents.talker]
adapter = "acp"
command = {msgspec.json.encode(sys.executable).decode()}
args = [{msgspec.json.encode(str(REPOSITORY / "benchmarks/acp_door/scripted_agent.py")).decode()}]
"""
SIDES = ("the agent alone", "interlock acp", "/acp")


class Side(msgspec.Struct, frozen=True):
    """One way to the agent. Ratio and added delay are medians over the rounds, each beside the agent alone."""

    name: str
    pieces_per_s: float
    of_direct: float
    delay_p50_ms: float
    delay_p99_ms: float
    added_p50_ms: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What `--json` prints."""

    initialize_s: float
    """From the start of the process to the response, fastest of STARTS."""
    interpreter_s: float
    """The same of an interpreter that does nothing."""
    door_pss_mb: float
    """Proportional share of memory of `interlock acp` after its rounds, in MB of 1,000,000 bytes."""
    pieces: int
    delays: int
    sides: list[Side]


class Reader:
    """A client of the SDK that counts text, or reads the time off each line of it."""

    def __init__(self) -> None:
        self.chars = 0
        self.wanted = 0
        self.delays: list[float] = []
        self.done = asyncio.Event()
        self._rest = ""

    def expect(self, chars: int) -> None:
        """Begin a round that ends after this many characters, or, at 0, after as many delays as `until` waits for."""
        self.chars, self.wanted, self.delays, self._rest = 0, chars, [], ""
        self.done.clear()

    def on_connect(self, conn: Any) -> None:
        """Nothing is asked of the agent from here."""

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Take one update."""
        now_ns = time.monotonic_ns()
        if update.session_update != "agent_message_chunk":
            return
        self.chars += len(update.content.text)
        if not self.wanted:
            *lines, self._rest = (self._rest + update.content.text).split("\n")
            self.delays += [(now_ns - int(line.removeprefix("@"))) / 1e6 for line in lines]
        elif self.chars >= self.wanted:
            self.done.set()


class BenchmarkSession:
    """A session with the agent, by one of SIDES."""

    def __init__(self, connection: Any, reader: Reader, session_id: str) -> None:
        self._connection = connection
        self._reader = reader
        self._session_id = session_id

    async def rate(self, pieces: int) -> float:
        """Return pieces a second, from the prompt to the last character."""
        self._reader.expect(pieces * PIECE_CHARS)
        began = time.perf_counter()
        await self._prompt(f"fast {pieces}")
        await self._reader.done.wait()
        return pieces / (time.perf_counter() - began)

    async def delays(self, count: int) -> list[float]:
        """Return the delay of each of this many pieces, in milliseconds."""
        self._reader.expect(0)
        await self._prompt(f"paced {count}")
        if len(self._reader.delays) != count:
            raise RuntimeError(f"{len(self._reader.delays)} of {count} pieces came before the end of the prompt")
        return self._reader.delays

    async def _prompt(self, text: str) -> None:
        from acp.helpers import text_block

        async with asyncio.timeout(PATIENCE_S):
            await self._connection.prompt(session_id=self._session_id, prompt=[text_block(text)])


async def _measured(stack: Stack, seconds: float) -> tuple[list[Side], float, int, int]:
    from acp import connect_to_agent, schema, spawn_agent_process
    from acp.ws import create_websocket_stream

    async with AsyncExitStack() as exits:

        async def open_session(connection: Any, reader: Reader) -> BenchmarkSession:
            await connection.initialize(protocol_version=1, client_capabilities=schema.ClientCapabilities())
            opened = await connection.new_session(cwd=str(stack.workspace), mcp_servers=[])
            return BenchmarkSession(connection, reader, opened.session_id)

        async def spawned(*arguments: str) -> tuple[BenchmarkSession, int]:
            reader: Any = Reader()
            connection, process = await exits.enter_async_context(spawn_agent_process(
                reader, sys.executable, "-m", *arguments, cwd=REPOSITORY, transport_kwargs={"limit": 1 << 24}))
            return await open_session(connection, reader), process.pid

        direct, _ = await spawned("benchmarks.acp_door.scripted_agent")
        door, door_pid = await spawned("interlock", "acp", "talker", "--state", str(stack.state))
        reader: Any = Reader()
        connection = connect_to_agent(reader, await create_websocket_stream(
            stack.url.replace("http", "ws", 1) + "/acp?agent=talker", headers=stack.headers))
        exits.push_async_callback(connection.close)
        sessions = (direct, door, await open_session(connection, reader))
        pieces = max(100, int(seconds * FAST_SHARE * PIECES_A_SECOND / ROUNDS / len(sessions)))
        count = max(5, int(seconds * (1 - FAST_SHARE) / PACE_S / ROUNDS / len(sessions)))
        for one in sessions:
            await one.rate(100)  # To warm up: the first prompt behind a door starts the agent.
        rates = await _rounds(sessions, lambda one: one.rate(pieces))
        delays = await _rounds(sessions, lambda one: one.delays(count))
        weight = memory(door_pid).pss_mb
    sides = [side_of(name, rates[at], rates[0], delays[at], delays[0]) for at, name in enumerate(SIDES)]
    return sides, weight, pieces, count


async def _rounds(
    sessions: tuple[BenchmarkSession, ...], measure: Callable[[BenchmarkSession], Awaitable[Any]]
) -> list[list[Any]]:
    rows = [[await measure(one) for one in sessions] for _ in range(ROUNDS)]
    return [list(column) for column in zip(*rows, strict=True)]


def side_of(name: str, rates: list[float], bare_rates: list[float], delays: list[list[float]],
            bare_delays: list[list[float]]) -> Side:
    """Sum up the rounds of one way, each beside the same round of the agent alone."""
    ratios = [own / bare for own, bare in zip(rates, bare_rates, strict=True)]
    added = [statistics.median(own) - statistics.median(bare) for own, bare in zip(delays, bare_delays, strict=True)]
    together = [delay for row in delays for delay in row]
    return Side(name, statistics.median(rates), statistics.median(ratios), quantile(together, 0.5),
                quantile(together, 0.99), statistics.median(added))


def initialize_s(state: Path) -> float:
    """Return the seconds from the start of `interlock acp` to its response to `initialize`, fastest of STARTS."""
    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
    found: list[float] = []
    for _ in range(STARTS):
        began = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-m", "interlock", "acp", "--state", str(state)], cwd=REPOSITORY,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(request)
        process.stdin.flush()
        line = process.stdout.readline()
        found.append(time.perf_counter() - began)
        process.stdin.close()
        process.wait(PATIENCE_S)
        process.stdout.close()
        if b'"protocolVersion"' not in line:
            raise RuntimeError(f"`interlock acp` has answered initialize with {line!r}")
    return min(found)


def interpreter_s() -> float:
    """Return the seconds that an interpreter takes which does nothing, fastest of STARTS."""
    found: list[float] = []
    for _ in range(STARTS):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        found.append(time.perf_counter() - began)
    return min(found)


def run(seconds: float) -> Report:
    """Measure for about `seconds` seconds. Starts a gateway, a runner and a door, and ends them."""
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as name:
        stack = Stack(Path(name), CONFIG)
        try:
            stack.up()
            started, bare = initialize_s(stack.state), interpreter_s()
            sides, weight, pieces, count = asyncio.run(_measured(stack, seconds))
        finally:
            stack.down()
    return Report(initialize_s=started, interpreter_s=bare, door_pss_mb=weight, pieces=pieces * ROUNDS,
                  delays=count * ROUNDS, sides=sides)


def table(report: Report) -> str:
    """Write a report as a table for people."""
    rows = [f"{'':<18}{'pieces/s':>10}{'of direct':>11}{'p50':>11}{'p99':>11}{'added p50':>12}"]
    rows += [f"{side.name:<18}{side.pieces_per_s:>10,.0f}{side.of_direct:>11.2f}{side.delay_p50_ms:>8.2f} ms"
             f"{side.delay_p99_ms:>8.2f} ms{side.added_p50_ms:>9.2f} ms" for side in report.sides]
    return "\n".join([
        *rows,
        f"limits: at least {RATE_LIMIT} of direct, at most {ADDED_LIMIT_MS:.0f} ms added; {report.pieces:,} pieces and "
        f"{report.delays:,} delays each way",
        f"initialize answered {report.initialize_s:.2f} s after the start of `interlock acp`, at most "
        f"{INITIALIZE_LIMIT_S} s; an interpreter alone takes {report.interpreter_s:.2f} s",
        f"memory of `interlock acp` after its rounds: {report.door_pss_mb:.1f} MB"])
