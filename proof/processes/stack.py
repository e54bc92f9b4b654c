"""A gateway and a runner as real processes on a state directory of their own, which may be killed and come back."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import httpx2

from interlock.app import child_cleanup
from interlock.app.own_servers import free_port
from interlock.cli.config.place import gateway_file
from interlock.gateway.audit.audit_state import verify_ledger_file
from proof import REPOSITORY
from proof.processes import interpreter
from proof.processes.fork_server import VERB_TIMEOUT_S, ForkedProcess, ForkServer

CLUSTER = os.environ.get("INTERLOCK_TEST_CLUSTER") == "1"
"""Whether stacks have three gateways on PostgreSQL and NATS instead of one on a file."""
READY_TIMEOUT_S = 60.0 if CLUSTER else 20.0
LOG_TAIL_CHARS = 2_000
COMPONENT = "proof.processes.component"

Component = Literal["gateway", "runner"]
"""What a stack has a process of."""


class NotReady(Exception):
    """A component did not come up in time; the text ends with its log."""


class Stack:
    """One gateway, one runner, and the owner's key."""

    def __init__(self, place: Path, config: str = "", fork_server: ForkServer | None = None,
                 on_file: bool = False) -> None:
        """With `on_file` it is always one gateway on a file: for properties of that
        file, or of a single gateway."""
        self.place = place
        self.state = place / "state"
        self.workspace = place / "workspace"
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.runner_url = self.url
        """The address that the runner dials; another one if a proxy is between the two."""
        self.processes: dict[Component, subprocess.Popen[bytes] | ForkedProcess] = {}
        self.entry: dict[Component, list[str]] = {}
        """The module that is a component's program, and what precedes its arguments; COMPONENT if none is given."""
        self._fork_server = fork_server
        self._http = _asking(keep=0)
        self.exported: list[bytes] = []
        """The audit log of a cluster, as it was before it went down."""
        self.clustered = CLUSTER and not on_file
        """Whether its transcripts and its audit log are had over REST alone."""
        if self.clustered:
            from proof.processes import cluster_servers

            config += cluster_servers.section()
            self.entry["gateway"] = ["proof.processes.clustered_component"]
        self.state.mkdir(mode=0o700, exist_ok=True)
        self.workspace.mkdir()
        (self.state / "interlock.toml").write_text(f"[gateway]\nport = {self.port}\n{config}")
        (self.state / "runner").mkdir(mode=0o700)
        self.token = self.state / "runner" / "token"
        self.token.write_text("ilr_" + secrets.token_urlsafe(32))
        self.token.chmod(0o600)

    def start(self, component: Component) -> None:
        """Start a component; its output goes to `<place>/<component>.log`."""
        arguments = [*self.entry.get(component, [COMPONENT]), component, str(self.state), self.runner_url,
                     str(self.workspace)]
        place = self.place / f"{component}.log"
        if self._fork_server is not None:
            self.processes[component] = self._fork_server.start(arguments, place)
        else:
            with place.open("ab") as log:
                self.processes[component] = subprocess.Popen([sys.executable, "-m", *arguments], stdout=log, stderr=log,
                                                        stdin=subprocess.DEVNULL, start_new_session=True,
                                                        cwd=REPOSITORY, env=interpreter.environment())
        child_cleanup.leave(self.processes[component].pid)

    def interlock(self, *words: str, cwd: Path | None = None, stdin: str | None = None,
                  environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end in the workspace, or in `cwd`, forked if this stack forks its components."""
        if self._fork_server is not None:
            return self._fork_server.run(list(words), cwd or self.workspace, stdin=stdin, environment=environment)
        given: dict[str, Any] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run([sys.executable, "-m", "interlock", *words], cwd=cwd or self.workspace, text=True,
                              capture_output=True, check=False, env=environment, timeout=VERB_TIMEOUT_S, **given)

    def up(self) -> None:
        """Start both and wait until the runner is attached."""
        self.start("gateway")
        self.start("runner")
        self.ready()

    def ready(self) -> float:
        """Wait until the gateway answers and the runner is attached; returns the seconds it took. Raises NotReady."""
        began = time.monotonic()
        while time.monotonic() - began < READY_TIMEOUT_S:
            with contextlib.suppress(httpx2.TransportError, KeyError, FileNotFoundError):
                nodes = self.get("/v1/edge/nodes")["nodes"]
                if any(node["status"] != "offline" for node in nodes):
                    return time.monotonic() - began
            time.sleep(0.02)
        raise NotReady("\n".join(self.log(component) for component in self.processes))

    def until_up(self) -> None:
        """Wait until the gateway answers, with or without a runner. Raises NotReady."""
        began = time.monotonic()
        while time.monotonic() - began < READY_TIMEOUT_S:
            with contextlib.suppress(httpx2.TransportError):
                if self._http.get(self.url + "/healthz").status_code == 200:
                    return
            time.sleep(0.02)
        raise NotReady(self.log("gateway"))

    def until_whole(self) -> None:
        """Wait until each gateway of a cluster listens; `ready` returns with the first. Raises NotReady."""
        if self.clustered:
            from interlock.cli.host.up_cluster import DIRECTORY
            from proof.processes.clustered_component import GATEWAYS

            places = [self.state / DIRECTORY / f"gateway-{number}" for number in range(1, GATEWAYS + 1)]
            self.until(lambda: all(gateway_file(place) is not None for place in places))

    def until(self, reached: Callable[[], bool]) -> None:
        """Look until something outside of our processes is so. Raises NotReady."""
        began = time.monotonic()
        while not reached():
            if time.monotonic() - began > READY_TIMEOUT_S:
                raise NotReady("\n".join(self.log(component) for component in self.processes))
            time.sleep(0.02)

    def kill(self, component: Component) -> None:
        """kill -9, and wait for the end."""
        process = self.processes[component]
        process.send_signal(signal.SIGKILL)
        process.wait()
        child_cleanup.take_back(process.pid)
        if self.clustered and component == "gateway":
            from proof.processes import cluster_servers

            cluster_servers.kill_gateways(self.state)

    def log(self, component: Component) -> str:
        """The end of a component's log."""
        path = self.place / f"{component}.log"
        return f"--- {component}\n{path.read_text(errors='replace')[-LOG_TAIL_CHARS:]}" if path.exists() else ""

    @property
    def headers(self) -> dict[str, str]:
        """The owner's credential."""
        return {"Authorization": f"Bearer {(self.state / 'owner.key').read_text().strip()}"}

    def ask(self, path: str, **params: Any) -> httpx2.Response:
        """GET as the owner, with any answer."""
        return self._http.get(self.url + path, headers=self.headers, params=params)

    def get(self, path: str, **params: Any) -> Any:
        """GET as the owner. Raises KeyError for a refusal, with its body."""
        answer = self.ask(path, **params)
        if answer.status_code != 200:
            raise KeyError(answer.text)
        return answer.json()

    def post(self, path: str, body: dict[str, Any], key: str) -> httpx2.Response:
        """POST as the owner under an idempotency key."""
        return self._http.post(self.url + path, headers={**self.headers, "Idempotency-Key": key}, json=body)

    def target(self, number: int) -> dict[str, Any]:
        """The target of commands of session `number` that spreads sessions over runners: here is one runner."""
        return {}

    def stay(self) -> None:
        """Keep connections from here on: no one is killed any more, and there is much to ask."""
        self._http = _asking(keep=1)

    def lines(self, path: str) -> Iterator[bytes]:
        """GET what comes as lines, as the owner, however much it is. Raises KeyError for a refusal."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            link.request("GET", path, headers=self.headers)
            answer = link.getresponse()
            if answer.status != 200:
                raise KeyError(answer.read().decode())
            yield from answer
        finally:
            link.close()

    def pages(self, path: str, item: str, **params: Any) -> list[Any]:
        """Read every page of a stream."""
        found: list[Any] = []
        cursor = None
        while True:
            page = self.get(path, limit=500, **({"since": cursor} if cursor else {}), **params)
            found += page[item]
            cursor = page["next_cursor"]
            if not page["has_more"]:
                return found

    def transcript(self, session_id: str) -> list[str]:
        """A session's stored transcript: the lines of its file, or else of its export."""
        if not self.clustered:
            return next(self.state.rglob(f"{session_id}.jsonl")).read_text().splitlines()
        answer = self._http.get(f"{self.url}/v1/sessions/{session_id}/export", headers=self.headers,
                                params={"view": "raw"})
        return answer.raise_for_status().text.splitlines()

    def places(self) -> tuple[set[str], set[str]]:
        """The places of its state and its ledger that a gateway may report."""
        if not self.clustered:
            return {str(self.state)}, {str(self.state / "ledger.db")}
        from proof.processes import cluster_servers

        return {str(one) for one in (self.state / "cluster").iterdir()}, {cluster_servers.shown(self.state)}

    def audit_ok(self) -> tuple[bool, int, str]:
        """Verify the log in the state directory with the verb's own code: (ok, records, output)."""
        if self.clustered:
            from proof.processes import cluster_servers

            return cluster_servers.verified(self.exported, self.state)
        report = verify_ledger_file(self.state)
        return report.ok, report.records, report.message

    def down(self) -> None:
        """End both, the runner first."""
        if self.clustered and "gateway" in self.processes:
            with contextlib.suppress(httpx2.TransportError, FileNotFoundError):
                answer = self._http.get(self.url + "/v1/audit/export", headers=self.headers)
                self.exported = answer.content.splitlines(keepends=True) if answer.status_code == 200 else []
        self._http.close()
        self._http = _asking(keep=0)
        for component in ("runner", "gateway"):
            process = self.processes.pop(component, None)
            if process is None or process.poll() is not None:
                continue
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            child_cleanup.take_back(process.pid)

    def leftovers(self, workspace: Path | None = None) -> list[int]:
        """Running processes of this stack's agents, in one workspace or all; with all, also their supervisors (A-4):
        a supervisor's environment is clean, so it is known by its directory."""
        within = re.compile(re.escape(f"RAWP_WORKSPACE_PATH={workspace or self.workspace}".encode()) + b"(/.*)?")
        found: list[int] = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    kept = any(map(within.fullmatch, (entry / "environ").read_bytes().split(b"\0")))
                    keeps = workspace is None and b"supervisor.py" in (entry / "cmdline").read_bytes() \
                        and (entry / "cwd").readlink() == self.place
                    if kept or keeps:
                        found.append(int(entry.name))
        return found


def _asking(keep: int) -> httpx2.Client:
    # A connection for each request while components are killed: one that is kept would be found broken behind each.
    return httpx2.Client(limits=httpx2.Limits(max_keepalive_connections=keep), timeout=30)
