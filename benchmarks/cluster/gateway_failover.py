"""Outage of a session whose gateway dies: from the kill -9 to its next acknowledged command.

Three gateways, three runners that dial the address before them, a session of each. The gateway that has the session is
killed, or stopped for longer than its lease, and a command for the session is sent at once, repeated under one key
until a gateway acknowledges it. Real processes on loopback; PostgreSQL and NATS live on.
"""

from __future__ import annotations

import asyncio
import random
import re
import signal
import tempfile
import time
from pathlib import Path
from typing import Any, cast

import asyncpg

from interlock import config
from proof.processes import cluster_servers
from proof.processes.cluster import RUNNERS, ClusterStack
from proof.processes.gateways import GATEWAYS
from proof.workload.clients import CONFIG, TERMINAL
from proof.workload.command_retries import execute, until_state

ASLEEP_S = 6.0
"""The least pause of a stopped gateway: longer than its lease."""
FREE = """
[[policy.rules]]
name = "the benchmark's agent asks for nothing"
effect = "allow"
door = "tool"
agent = "speaker"
"""
FAR_MS = 600_000
JOINED = re.compile(r"instance_joined\s+instance_id=(\S+)")
WHERE = "SELECT instance_id FROM runner_link WHERE runner_id = $1"


class Failover:
    """A stack of three gateways, and the gateway of each runner."""

    def __init__(self, stack: ClusterStack, draw: random.Random) -> None:
        self._stack = stack
        self._draw = draw
        self._given = 0

    def one(self, how: signal.Signals) -> float:
        """Seconds from the signal to the gateway of one session until the next command of the session is taken."""
        runner = self._draw.randrange(RUNNERS)
        at = self._gateway_of(self._stack.runner_ids[runner])
        gateways = self._stack.gateways
        time.sleep(self._draw.random() * 0.5)  # Anywhere in the second between two renewals of its lease.
        began = time.monotonic()
        gateways.running(at).send_signal(how)
        command = self._give(runner)
        took = time.monotonic() - began
        if how is signal.SIGKILL:
            gateways.kill(at)
            gateways.start(at)
        else:
            time.sleep(max(0.0, began + ASLEEP_S - time.monotonic()))
            gateways.running(at).send_signal(signal.SIGCONT)
        self._stack.until(lambda: gateways.answers(at))
        self._stack.ready()
        until_state(self._stack, command, TERMINAL.__contains__)
        return took

    def settle(self) -> None:
        """Have a session of each runner, in which a turn has ended."""
        for runner in range(RUNNERS):
            until_state(self._stack, self._give(runner), TERMINAL.__contains__)

    def _give(self, runner: int) -> str:
        self._given += 1
        return execute(self._stack, runner, f"f{self._given} 1 0", f"benchmark-failover-{self._given:08}", FAR_MS)

    def _gateway_of(self, runner_id: str) -> int:
        """The gateway of a runner: the one that reports it for its own instance."""
        store = config.load(self._stack.gateways.home(0) / config.FILE_NAME).cluster.store
        found = -1

        def known() -> bool:
            nonlocal found
            instance = asyncio.run(_asked(store or "", runner_id))
            for number in range(GATEWAYS):
                log = (self._stack.place / f"g{number}.log").read_text(errors="replace")
                if (joined := JOINED.findall(log)) and joined[-1] == instance:
                    found = number
            return found >= 0

        self._stack.until(known)
        return found


async def _asked(store: str, runner_id: str) -> str:
    connection = await cast("Any", asyncpg).connect(store)
    try:
        return str(await connection.fetchval(WHERE, runner_id) or "")
    finally:
        await connection.close()


def failover(kills: int, stops: int) -> dict[str, list[float]]:
    """Seconds of each, sorted, by what was done to the gateway."""
    cluster_servers.postgres()
    cluster_servers.nats()
    with tempfile.TemporaryDirectory(prefix="interlock-bench-") as place:
        stack = ClusterStack(Path(place), FREE + CONFIG)
        try:
            stack.up()
            measured = Failover(stack, random.Random(kills))
            measured.settle()
            return {"kill -9": sorted(measured.one(signal.SIGKILL) for _ in range(kills)),
                    "SIGSTOP": sorted(measured.one(signal.SIGSTOP) for _ in range(stops))}
        finally:
            stack.down()
