"""A tenant moves back and forth between two clusters while people submit commands to its sessions and its runner works.

Each move is `interlock migrate --tenant`, with the gateways of both clusters at work. Clients repeat requests that were
cut or answered 503 with a time to retry, and follow a 421 to the other cluster; any other response that is not 2xx is a
fault. No acknowledged command may be lost, or run twice, and both audit logs must verify at the end. Each command
writes its own name to a file once: that is counted.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from interlock import config
from interlock.gateway.audit.audit_state import verify_ledger_file
from proof import REPOSITORY
from proof.cluster.cascade import CONFIG
from proof.processes.gateways import Gateways, end, process
from proof.processes.stack import NotReady
from proof.workload.clients import TERMINAL

MOVES = 50
GATEWAYS = 2
"""Of each cluster."""
PEOPLE = 3
SESSIONS = 12
TENANT = "acme"
PATIENCE_S = 60.0
PAUSE_S = 0.25
"""Between a person's requests."""
BETWEEN_S = 1.0
"""How long people work in one place, at the most, before the next move."""
START_S = 60.0


class Cluster:
    """Gateways of one ledger behind one address."""

    def __init__(self, place: Path) -> None:
        place.mkdir(mode=0o755)
        self.state = place / "state"
        self.state.mkdir(mode=0o700)
        self.gateways = Gateways(place, self.state, CONFIG)
        store = config.load(self.gateways.home(0) / config.FILE_NAME).cluster.store
        assert store is not None, "a cluster has one"
        self.store = store
        self.url = ""

    def up(self) -> None:
        """Start the gateways. Raises NotReady."""
        for number in range(GATEWAYS):
            self.gateways.start(number)
            until = time.monotonic() + START_S
            while not self.gateways.answers(number):
                if time.monotonic() > until:
                    raise NotReady(self.gateways.logs()[-2_000:])
                time.sleep(0.02)
        self.url = f"http://127.0.0.1:{self.gateways.balance()}"

    def post(self, path: str, body: dict[str, Any], key: str) -> Any:
        """POST under a new idempotency key. Raises httpx2.HTTPStatusError."""
        headers = {"Authorization": f"Bearer {key}", "Idempotency-Key": secrets.token_hex(16)}
        return httpx2.post(self.url + path, headers=headers, json=body, timeout=30).raise_for_status().json()

    def verified(self) -> tuple[bool, int, str]:
        """Verify the log in its place: (ok, records, output)."""
        report = verify_ledger_file(self.state, self.store)
        return report.ok, report.records, report.message


class Findings(NamedTuple):
    """What a run counted."""

    moves: list[dict[str, Any]]
    refused: list[str]
    """The output of failed moves."""
    statuses: Counter[str]
    faults: Counter[str]
    acknowledged: int
    lost: int
    twice: int
    slowest_s: float
    logs: list[tuple[bool, int, str]]

    @property
    def passed(self) -> bool:
        """Whether all of it is as it must be."""
        return bool(self.acknowledged and self.moves and all(ok for ok, _, _ in self.logs)) and not (
            self.lost or self.twice or self.faults or self.refused)

    def table(self) -> str:
        """Print form."""
        closed = sorted(move["closed_ms"] or 0 for move in self.moves) or [0]
        rows = [("moves of a tenant at work", len(self.moves)), ("moves that were refused", len(self.refused)),
                ("acknowledged commands", self.acknowledged), ("acknowledged and lost", self.lost),
                ("run twice", self.twice), ("answers", dict(self.statuses)),
                ("closed on its way", f"p50 {closed[len(closed) // 2]} ms, longest {closed[-1]} ms"),
                ("longest that a person waited for an answer", f"{self.slowest_s:.1f} s"),
                *((f"audit of cluster {name}", f"{records} records: {printed}")
                  for name, (_, records, printed) in zip("AB", self.logs, strict=False))]
        faults = [f"  ! {count} times {fault}" for fault, count in self.faults.most_common(20)]
        return "\n".join([*(f"{name:<50} {value}" for name, value in rows), *faults,
                          *(f"  ! {one}" for one in self.refused)])


class MigrationClients:
    """They give commands and look at them, wherever the tenant is."""

    def __init__(self, first: str, key: str, workspace: Path, runner_id: str) -> None:
        self._url = first
        self._key = key
        self._workspace = workspace
        self._runner_id = runner_id
        self._count = threading.Lock()
        self.statuses: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()
        self.acknowledged: dict[str, str] = {}
        self.slowest_s = 0.0

    def work(self, person: int, ended: threading.Event) -> None:
        """Give commands until it is over, and look at each."""
        draw = random.Random(person)
        with httpx2.Client(timeout=30) as http:
            number = 0
            while not ended.is_set():
                number += 1
                name = f"p{person}-{number}"
                body = {"type": "execute", "timeout_ms": 600_000,
                        "target": {"agent_id": "shell", "workspace": str(self._workspace),
                                   "session_key": f"agent:shell:lane-{draw.randrange(SESSIONS)}",
                                   "runner_id": self._runner_id},
                        "payload": {"messages": [{"role": "user", "content": [
                            {"contentType": "text", "value": f"echo {name} >> {self._workspace}/done"}]}]}}
                answer = self.insist(http, "POST", "/v1/commands", json=body, key=f"proof-of-moving-{name}")
                if answer is not None:
                    with self._count:
                        self.acknowledged[str(answer.json()["id"])] = name
                    self.insist(http, "GET", f"/v1/commands/{answer.json()['id']}")
                ended.wait(PAUSE_S)

    def insist(self, http: httpx2.Client, method: str, path: str, key: str = "", **what: Any
               ) -> httpx2.Response | None:
        """Ask until it is answered for good; None if that is a fault."""
        began, headers = time.monotonic(), {"Authorization": f"Bearer {self._key}", "Idempotency-Key": key}
        while time.monotonic() - began < PATIENCE_S:
            try:
                answer = http.request(method, self._url + path, headers=headers if key else {
                    "Authorization": headers["Authorization"]}, **what)
            except httpx2.TransportError:
                self._note("cut, and repeated")
                time.sleep(PAUSE_S)
                continue
            after = answer.headers.get("retry-after", "")
            if answer.status_code < 300:
                self._note("2xx")
                with self._count:
                    self.slowest_s = max(self.slowest_s, time.monotonic() - began)
                return answer
            if answer.status_code == 421 and answer.headers.get("location"):
                self._note("421 with Location")
                self._url = answer.headers["location"].rstrip("/")
                continue
            if answer.status_code != 503 or not after.isdigit():
                self._fault(f"{method} {path.partition('?')[0][:20]}: {answer.status_code} {answer.text[:300]}")
                return None
            self._note("503 with Retry-After")
            time.sleep(int(after))
        self._fault(f"{method} {path[:20]}: not answered for good")
        return None

    def unfinished(self) -> list[str]:
        """Wait for the end of all that was acknowledged; returns those that have none."""
        live, until = list(self.acknowledged), time.monotonic() + 2 * PATIENCE_S
        with httpx2.Client(timeout=30) as http:
            while live and time.monotonic() < until:
                found = {one: self.insist(http, "GET", f"/v1/commands/{one}") for one in live}
                live = [one for one, answer in found.items()
                        if answer is None or answer.json()["state"] not in TERMINAL]
        return live

    def _note(self, what: str) -> None:
        with self._count:
            self.statuses[what] += 1

    def _fault(self, what: str) -> None:
        with self._count:
            self.faults[what] += 1


def move(source: Cluster, target: Cluster) -> tuple[dict[str, Any] | None, str]:
    """Move the tenant as an operator does: (report, "") or (None, output)."""
    done = subprocess.run(
        [sys.executable, "-m", "interlock", "migrate", "--tenant", TENANT, "--from", source.store, "--to", target.store,
         "--to-state", str(target.state), "--at", target.url, "--state", str(source.state), "--json"],
        capture_output=True, text=True, check=False, cwd=REPOSITORY, timeout=600)
    if done.returncode:
        return None, done.stderr.strip()[-600:]
    return json.loads(done.stdout.splitlines()[-1]), ""  # After the log lines about a PostgreSQL without fsync.


def back_and_forth(place: Path, seed: int, moves: int, clusters: Sequence[Cluster]) -> Findings:
    """Let clients work while the tenant moves this many times."""
    draw, here, there = random.Random(seed), *clusters
    workspace, home = place / "workspace", place / "r0"
    workspace.mkdir()
    home.mkdir(mode=0o700)
    here.post("/v1/tenants", {"tenant_id": TENANT, "name": ""}, here.gateways.key)
    key = here.post("/v1/keys", {"tenant_id": TENANT, "principal": {"type": "user", "id": "ann"},
                                  "roles": ["admin", "operator", "approver"]},
                    here.gateways.key)["key"]
    code = here.post("/v1/runners/pairings", {"device_name": "r0"}, key)["code"]
    paired = here.post("/v1/runners/pair", {"code": code, "device_name": "r0"}, key)
    (home / "token").write_text(paired["token"])
    (home / config.FILE_NAME).write_text(CONFIG)
    runner = process(["proof.processes.paired_runner", str(home), here.url, str(workspace), paired["runner_id"]],
                     place / "r0.log")
    people, ended = MigrationClients(here.url, key, workspace, paired["runner_id"]), threading.Event()
    reports, refused = list[dict[str, Any]](), list[str]()
    try:
        _until_attached(here, key)
        with ThreadPoolExecutor(PEOPLE) as pool:
            working = [pool.submit(people.work, seed * PEOPLE + at, ended) for at in range(PEOPLE)]
            try:
                for _ in range(moves):
                    time.sleep(draw.random() * BETWEEN_S)
                    report, printed = move(here, there)
                    if report is None:
                        refused.append(printed)
                        break
                    reports.append(report)
                    here, there = there, here
            finally:
                ended.set()
            for one in working:
                one.result()
        lost = people.unfinished()
    finally:
        end([runner])
    done = workspace / "done"
    written = Counter(done.read_text().split() if done.exists() else ())
    twice = sum(count > 1 for count in written.values())
    never = {people.acknowledged[one] for one in lost} | {
        name for name in people.acknowledged.values() if name not in written}
    return Findings(reports, refused, people.statuses, people.faults, len(people.acknowledged), len(never), twice,
                    people.slowest_s, [cluster.verified() for cluster in clusters])


def _until_attached(cluster: Cluster, key: str) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until:
        nodes = httpx2.get(cluster.url + "/v1/edge/nodes", headers={"Authorization": f"Bearer {key}"}).json()["nodes"]
        if any(node["status"] != "offline" for node in nodes):
            return
        time.sleep(0.05)
    raise NotReady(cluster.gateways.logs()[-2_000:])


def run(seed: int, rounds: int | None) -> bool:
    """Run the proof and print its findings; `rounds` counts moves."""
    with tempfile.TemporaryDirectory(prefix="interlock-moving-") as name:
        place = Path(name)
        place.chmod(0o755)
        clusters = [Cluster(place / one) for one in ("a", "b")]
        try:
            for cluster in clusters:
                cluster.up()
            seen = back_and_forth(place, seed, rounds or MOVES, clusters)
        finally:
            for cluster in clusters:
                cluster.gateways.down()
            if os.environ.get("INTERLOCK_PROOF_LOGS"):
                for cluster, label in zip(clusters, "ab", strict=True):
                    Path(os.environ["INTERLOCK_PROOF_LOGS"], f"{label}.log").write_text(cluster.gateways.logs())
                for log in place.glob("*.log"):
                    Path(os.environ["INTERLOCK_PROOF_LOGS"], log.name).write_text(log.read_text())
    print(seen.table())
    print(f"{'load of the machine':<50} {os.getloadavg()[0]:.1f}")
    print("passed" if seen.passed else f"FAILED; repeat with --seed {seed}")
    return seen.passed
