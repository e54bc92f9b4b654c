"""A stack of three gateways and some runners; each can be killed while the others continue."""

from __future__ import annotations

import contextlib
import random
import secrets
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import httpx2

from proof.processes import cluster_servers
from proof.processes.gateways import GATEWAYS, Gateways, end, kill, process
from proof.processes.host_processor import HostProcessor
from proof.processes.stack import NotReady, Stack

RUNNERS = 3
START_TIMEOUT_S = 90.0
AWAY_S = 4.0
"""The longest absence of a killed gateway."""


class ClusterStack(Stack):
    """A stack of several gateways and runners at one address, as clients see it. They are numbered from 0."""

    def __init__(self, place: Path, config: str = "", *, runners: int = RUNNERS,
                 module: str = "proof.processes.component", hosts: HostProcessor | None = None,
                 runner_module: str = "proof.processes.paired_runner") -> None:
        """`module` is the program of a gateway, `runner_module` that of a runner; `hosts` is the processor's share of
        the runners."""
        super().__init__(place, config, on_file=True)
        self.clustered = True
        self.gateways = Gateways(place, self.state, config, module)
        self.runner_ids: list[str] = []
        self._runner_processes: list[subprocess.Popen[bytes]] = []
        self._runners = runners
        self._runner_module = runner_module
        self._hosts = hosts
        self._config = config

    @property
    def headers(self) -> dict[str, str]:
        """The owner's credential."""
        return {"Authorization": f"Bearer {self.gateways.key}"}

    def up(self) -> None:
        """Start all of them, and wait until every runner is attached."""
        for number in range(GATEWAYS):  # The first makes the schema.
            self.gateways.start(number)
            self.until(lambda number=number: self.gateways.answers(number))
        self.gateways.balance(self.port)
        for number in range(self._runners):
            self._pair(number)
            self.start_runner(number)
        self.ready()

    def _pair(self, number: int) -> None:
        name = f"r{number}"
        code = self.post("/v1/runners/pairings", {"device_name": name}, secrets.token_hex(16)).json()["code"]
        paired = self.post("/v1/runners/pair", {"code": code, "device_name": name}, secrets.token_hex(16)).json()
        self.runner_ids.append(paired["runner_id"])
        home = self.place / name
        home.mkdir(mode=0o700)
        (home / "token").write_text(paired["token"])
        (home / "interlock.toml").write_text(self._config)

    def start_runner(self, number: int) -> None:
        """Start a runner that was paired."""
        home = self.place / f"r{number}"
        started = process([self._runner_module, str(home), self.url, str(self.workspace), self.runner_ids[number]],
                          self.place / f"r{number}.log")
        if self._hosts is not None:
            self._hosts.add(started.pid)
        self._runner_processes[number:number + 1] = [started]

    def kill_runner(self, number: int) -> None:
        """kill -9, and wait for the end."""
        self._runner_processes[number].kill()
        self._runner_processes[number].wait()

    def attached(self) -> int:
        """How many runners are attached anywhere. Raises what asking raises."""
        nodes = self.get("/v1/edge/nodes")["nodes"]
        return sum(node["status"] != "offline" for node in nodes if node["node_id"] in self.runner_ids)

    def ready(self) -> float:
        """Wait until a gateway answers and every runner is attached; returns the seconds it took. Raises NotReady."""
        began = time.monotonic()
        while time.monotonic() - began < START_TIMEOUT_S:
            with contextlib.suppress(httpx2.TransportError, KeyError):
                if self.attached() == self._runners:
                    return time.monotonic() - began
            time.sleep(0.02)
        raise NotReady(self._logs())

    def until(self, reached: Any) -> None:
        """Look until something is so. Raises NotReady."""
        began = time.monotonic()
        while not reached():
            if time.monotonic() - began > START_TIMEOUT_S:
                raise NotReady(self._logs())
            time.sleep(0.02)

    def _logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text(errors='replace')[-2_000:]}"
                         for path in sorted(self.place.glob("[gr][0-9].log")))

    def target(self, number: int) -> dict[str, Any]:
        """The runner that a number belongs to: so sessions are spread over runners, and those over gateways."""
        return {"runner_id": self.runner_ids[number % len(self.runner_ids)]}

    def audit_ok(self) -> tuple[bool, int, str]:
        """Verify what was exported before the end."""
        return cluster_servers.verified(self.exported, self.state)

    def kill_all(self) -> None:
        """kill -9 for all of them: `down` then has nothing to export, and no one to wait for."""
        self.gateways.kill_all()
        kill(self._runner_processes)
        self._runner_processes = []

    def down(self) -> None:
        """Export the audit log, and end all of them, the runners first."""
        if self.gateways.processes[0] is not None:
            with contextlib.suppress(httpx2.TransportError):
                self.exported = list(self.lines("/v1/audit/export"))
        self._http.close()
        end(self._runner_processes)
        self._runner_processes = []
        self.gateways.down()


class GatewayKiller(threading.Thread):
    """Kills one gateway after another, each at a random instant, until it is stopped."""

    def __init__(self, stack: ClusterStack, draw: random.Random, between_s: tuple[float, float]) -> None:
        super().__init__(daemon=True)
        self._stack = stack
        self._draw = draw
        self._between_s = between_s
        self._over = threading.Event()
        self.deaths: list[float] = []
        """When each of them died, in seconds since the boot."""

    def stop(self) -> None:
        """Kill no more, and have every gateway be there."""
        self._over.set()
        self.join()
        for number in range(GATEWAYS):
            self._stack.until(lambda number=number: self._stack.gateways.answers(number))

    def run(self) -> None:
        """Kill until it is stopped."""
        while not self._over.wait(self._draw.uniform(*self._between_s)):
            number = self._draw.randrange(GATEWAYS)
            self.deaths.append(time.clock_gettime(time.CLOCK_BOOTTIME))
            self._stack.gateways.kill(number)
            self._over.wait(self._draw.random() * AWAY_S)
            self._stack.gateways.start(number)
            self._stack.until(lambda number=number: self._stack.gateways.answers(number))
