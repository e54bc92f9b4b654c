"""R5: three gateways, 8 runners, 2,000 commands; for each tenth of them a gateway is killed, for another one stopped.

No command is started twice, whichever gateway owned its session; writes of an owner that was replaced while it was
stopped are refused, and it returns under another lease. Each command writes its own name to a file once: that is
counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from interlock.app.own_servers import free_port
from interlock.cli.host.balancer import Balancer
from interlock.gateway.access.credentials import new_key
from interlock.gateway.audit.signing_key import KEY_NAME, PUBLIC_NAME, load_or_make_key
from proof import REPOSITORY
from proof.processes.cluster_servers import section, verified

GATEWAYS = 3
RUNNERS = 8
COMMANDS = 2_000
FAULTS_EACH = 10
"""One kill and one stop per this many commands."""
ASLEEP_S = (0.5, 6.0)
"""The time that a stopped gateway sleeps: shorter and longer than its lease."""
PATIENCE_S = 120.0
TERMINAL = frozenset({"succeeded", "failed", "canceled", "expired", "rejected"})
CONFIG = """
[[policy.rules]]
name = "the proof's own lines are free"
effect = "allow"
door = "tool"
agent = "shell"
"""


class Findings(NamedTuple):
    """What a run counted."""

    kills: int
    stops: int
    states: Counter[str]
    started: Counter[int]
    """How often a command's line was found in its file, and of how many commands that is so."""
    lost: list[str]
    """Acknowledged commands that no one knows any more, or that did not end."""
    refused: int
    """Lanes that a gateway let go since a write of its was refused."""
    came_back: int
    """How often a gateway found itself taken for dead."""
    ends: Counter[int]
    """How many terminal events a command's stream has."""
    audit: tuple[bool, int, str]

    @property
    def passed(self) -> bool:
        """Whether all of it is as it must be."""
        return (bool(self.states) and not self.lost and max(self.started, default=0) <= 1 and set(self.ends) <= {1}
                and self.states.keys() <= TERMINAL and self.audit[0])

    def table(self) -> str:
        """Print form."""
        rows = [("kills, stops of a gateway", f"{self.kills}, {self.stops}"),
                ("commands by how they ended", dict(self.states)),
                ("commands whose line was written so often", dict(sorted(self.started.items()))),
                ("terminal events of a command", dict(self.ends)),
                ("acknowledged commands lost or never ended", len(self.lost)),
                ("sessions let go after a refused write", self.refused),
                ("gateways that found themselves taken for dead", self.came_back),
                ("audit", self.audit[2])]
        return "\n".join(f"{name:<50} {value}" for name, value in rows)


class Row:
    """The gateways and runners, as processes."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.state = place / "state"
        self.workspace = place / "workspace"
        self.state.mkdir(mode=0o700)
        self.workspace.mkdir()
        load_or_make_key(self.state)
        self.key = new_key(secrets.token_bytes)
        (self.state / "owner.key").write_text(self.key + "\n")
        (self.state / "owner.key").chmod(0o600)
        shared = section()
        self.ports = [free_port() for _ in range(GATEWAYS)]
        self.gateways: list[subprocess.Popen[bytes] | None] = [None] * GATEWAYS
        self.runners: list[subprocess.Popen[bytes]] = []
        for number, port in enumerate(self.ports):
            home = place / f"g{number}"
            home.mkdir(mode=0o700)
            for name in ("owner.key", KEY_NAME, PUBLIC_NAME):
                (home / name).symlink_to(self.state / name)
            (home / "interlock.toml").write_text(f"[gateway]\nport = {port}\n{CONFIG}{shared}")
            (home / "runner").mkdir()
            (home / "runner" / "token").write_text("ilr_" + secrets.token_urlsafe(32))
        self.url = ""
        self.http = httpx2.Client(timeout=30, limits=httpx2.Limits(max_keepalive_connections=0),
                                  headers={"Authorization": f"Bearer {self.key}"})
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._balancer = Balancer(self.ports, uses_tls=False)

    def up(self) -> None:
        """Start all of them, and wait until every runner is attached."""
        for number in range(GATEWAYS):
            self.start(number)
            self._until(lambda number=number: self._answers(number))
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._balancer.start(0), self._loop).result(30)
        self.url = f"http://127.0.0.1:{port}"
        for number in range(RUNNERS):
            self._start_runner(number)
        self._until(lambda: sum(node["status"] != "offline" for node in self.get("/v1/edge/nodes")["nodes"]
                                if node["node_id"] != "local") == RUNNERS)

    def start(self, number: int) -> None:
        """Start a gateway."""
        self.gateways[number] = self._process("proof.processes.component", "gateway", str(self.place / f"g{number}"),
                                              "", "", log=f"g{number}.log")

    def _start_runner(self, number: int) -> None:
        code = self.post("/v1/runners/pairings", {"device_name": f"r{number}"}).json()["code"]
        paired = self.http.post(self.url + "/v1/runners/pair", json={"code": code, "device_name": f"r{number}"},
                                headers={"Idempotency-Key": secrets.token_hex(16)}).json()
        home = self.place / f"r{number}"
        home.mkdir(mode=0o700)
        (home / "token").write_text(paired["token"])
        (home / "interlock.toml").write_text("")
        self.runners.append(self._process("proof.processes.paired_runner", str(home), self.url, str(self.workspace),
                                          paired["runner_id"], log=f"r{number}.log"))

    def _process(self, *arguments: str, log: str) -> subprocess.Popen[bytes]:
        with (self.place / log).open("ab") as out:
            return subprocess.Popen([sys.executable, "-m", *arguments], stdin=subprocess.DEVNULL, stdout=out,
                                    stderr=out, start_new_session=True, cwd=REPOSITORY)

    def runner_ids(self) -> list[str]:
        """The paired runners."""
        return [one["runner_id"] for one in self.get("/v1/runners")["runners"] if one["runner_id"] != "local"]

    def get(self, path: str, **params: Any) -> Any:
        """GET until a gateway answers."""
        until = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(httpx2.TransportError):
                answer = self.http.get(self.url + path, params=params)
                if answer.status_code == 200:
                    return answer.json()
            if time.monotonic() > until:
                raise TimeoutError(path)
            time.sleep(0.1)

    def post(self, path: str, body: dict[str, Any], key: str | None = None) -> httpx2.Response:
        """POST under one key until it is answered for good."""
        key = key or secrets.token_hex(16)
        until = time.monotonic() + PATIENCE_S
        while True:
            with contextlib.suppress(httpx2.TransportError):
                answer = self.http.post(self.url + path, json=body, headers={"Idempotency-Key": key})
                if answer.status_code < 500 and answer.status_code not in (409, 429):
                    return answer
            if time.monotonic() > until:
                raise TimeoutError(path)
            time.sleep(0.1)

    def _answers(self, number: int) -> bool:
        with contextlib.suppress(httpx2.TransportError):
            return self.http.get(f"http://127.0.0.1:{self.ports[number]}/healthz").status_code == 200
        return False

    def _until(self, reached: Any) -> None:
        until = time.monotonic() + PATIENCE_S
        while not reached():
            if time.monotonic() > until:
                raise TimeoutError(self.logs()[-2_000:])
            time.sleep(0.05)

    def logs(self) -> str:
        """What all gateways have logged."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.place.glob("g*.log")))

    def down(self) -> None:
        """End all of them."""
        for process in [*self.runners, *filter(None, self.gateways)]:
            process.send_signal(signal.SIGCONT)
            process.terminate()
        for process in [*self.runners, *filter(None, self.gateways)]:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        asyncio.run_coroutine_threadsafe(self._balancer.stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)


class LeaseFaults:
    """Kills and stops gateways, each at a random instant, one at a time."""

    def __init__(self, row: Row, random_: random.Random, faults: list[str]) -> None:
        self._row = row
        self._random = random_
        self._faults = faults
        self.done: Counter[str] = Counter()
        self.slots = threading.Semaphore(FAULTS_EACH)
        """Commands that may still be sent before the next fault, so that both end together."""
        self.quiet = threading.Event()
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for fault in self._faults:
            if self.quiet.wait(self._random.uniform(0.2, 1.5)):
                return
            number = self._random.randrange(GATEWAYS)
            process = self._row.gateways[number]
            assert process is not None, "it was started"
            if fault == "kill":
                process.kill()
                process.wait()
                self._row.start(number)
            else:
                process.send_signal(signal.SIGSTOP)
                self.quiet.wait(self._random.uniform(*ASLEEP_S))
                process.send_signal(signal.SIGCONT)
            self.done[fault] += 1
            self.slots.release(FAULTS_EACH // 2)


def _writer(row: Row, chaos: LeaseFaults, runner_id: str, count: int, acknowledged: list[str]) -> None:
    """A client that sends a runner's session one command after the other."""
    session_id = ""
    for number in range(count):
        chaos.slots.acquire(timeout=PATIENCE_S)
        name = f"{runner_id}-{number}"
        target = {"session_id": session_id} if session_id else {"agent_id": "shell", "runner_id": runner_id,
                                                                "workspace": str(row.workspace)}
        line = f"sleep 0.3; echo started >> {row.workspace}/{name}"
        answer = row.post("/v1/commands", {"type": "execute", "target": target, "payload": {"messages": [
            {"role": "user", "content": [{"contentType": "text", "value": line}]}]}}, key=f"proof-of-leases-{name}")
        if answer.status_code != 202:
            raise AssertionError(f"{name}: {answer.text}")
        command = answer.json()
        session_id = command["target"]["session_id"]
        acknowledged.append(f"{command['id']} {name}")
        if number % 4 == 3:
            _ended(row, command["id"])


def _ended(row: Row, command_id: str) -> str:
    until = time.monotonic() + PATIENCE_S
    while (state := row.get(f"/v1/commands/{command_id}")["state"]) not in TERMINAL:
        if time.monotonic() > until:
            return state
        time.sleep(0.1)
    return state


def prove(row: Row, seed: int, commands: int) -> Findings:
    """Run it on a row that is up."""
    random_ = random.Random(seed)
    faults = ["kill", "stop"] * max(1, commands // FAULTS_EACH)
    random_.shuffle(faults)
    chaos = LeaseFaults(row, random_, faults)
    acknowledged: list[str] = []
    each = -(-commands // RUNNERS)
    writers = [threading.Thread(target=_writer, args=(row, chaos, runner_id, each, acknowledged))
               for runner_id in row.runner_ids()]
    chaos.thread.start()
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    chaos.quiet.set()
    chaos.thread.join()
    states, started, ends, lost = Counter[str](), Counter[int](), Counter[int](), list[str]()
    for one in acknowledged:
        command_id, name = one.split()
        state = _ended(row, command_id)
        states[state] += 1
        if state not in TERMINAL:
            lost.append(one)
        file = row.workspace / name
        started[len(file.read_text().splitlines()) if file.exists() else 0] += 1
        events = row.get(f"/v1/commands/{command_id}/status", limit=500)["events"]
        ends[sum(event.get("state") in TERMINAL for event in events if event["event"] == "state")] += 1
    if len(acknowledged) != each * RUNNERS:
        lost.append("a writer gave up")
    export = row.http.get(row.url + "/v1/audit/export").content.splitlines(keepends=True)
    logs = row.logs()
    return Findings(chaos.done["kill"], chaos.done["stop"], states, started, lost, logs.count("lane lost"),
                    logs.count("instance_taken_for_dead"), ends, verified(export, row.state))


def run(seed: int, rounds: int | None) -> bool:
    """`rounds` is the number of commands, which is rounded up to as many for each runner; prints what was counted."""
    with tempfile.TemporaryDirectory(prefix="interlock-leases-") as name:
        row = Row(Path(name))
        try:
            row.up()
            found = prove(row, seed, rounds or COMMANDS)
        finally:
            row.down()
    print(found.table(), flush=True)
    print("passed" if found.passed else "FAILED", flush=True)
    return found.passed
