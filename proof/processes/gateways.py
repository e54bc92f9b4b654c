"""Gateways of one ledger, each a process of its own that may be killed or stopped alone, behind one address."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx2

from interlock.app import child_cleanup
from interlock.app.own_servers import free_port
from interlock.cli.host.balancer import Balancer
from interlock.cli.host.up_cluster import SHARED_DIRECTORIES
from interlock.gateway.access.credentials import new_key
from interlock.gateway.audit.signing_key import KEY_NAME, PUBLIC_NAME, load_or_make_key
from proof import REPOSITORY
from proof.processes import interpreter
from proof.processes.cluster_servers import section

GATEWAYS = 3
STOP_S = 30.0


def process(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start a module of this package; its output goes to the end of `log`, and it ends with this process."""
    with log.open("ab") as out:
        started = subprocess.Popen([sys.executable, "-m", *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   start_new_session=True, cwd=REPOSITORY, env=interpreter.environment())
    child_cleanup.leave(started.pid)
    return started


def end(processes: list[subprocess.Popen[bytes]]) -> None:
    """SIGTERM for all of them, also for those that were stopped, and SIGKILL for those that ignore it."""
    for one in processes:
        one.send_signal(signal.SIGCONT)
        one.terminate()
    for one in processes:
        try:
            one.wait(STOP_S)
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()
        child_cleanup.take_back(one.pid)


def kill(processes: list[subprocess.Popen[bytes]]) -> None:
    """kill -9 for all of them, and wait for their ends."""
    for one in processes:
        one.kill()
    for one in processes:
        one.wait()
        child_cleanup.take_back(one.pid)


class Gateways:
    """They share `state`: keys and files. Each has a directory of its own, `<place>/g<number>`."""

    def __init__(self, place: Path, state: Path, config: str, module: str = "proof.processes.component") -> None:
        self.place = place
        self._module = module
        load_or_make_key(state)
        self.key = new_key(secrets.token_bytes)
        (state / "owner.key").write_text(self.key + "\n")
        (state / "owner.key").chmod(0o600)
        self.ports = [free_port() for _ in range(GATEWAYS)]
        self.processes: list[subprocess.Popen[bytes] | None] = [None] * GATEWAYS
        shared = section()
        for name in SHARED_DIRECTORIES:
            (state / name).mkdir(mode=0o700)
        for number, port in enumerate(self.ports):
            home = self.home(number)
            home.mkdir(mode=0o700)
            for name in ("owner.key", KEY_NAME, PUBLIC_NAME, *SHARED_DIRECTORIES):
                (home / name).symlink_to(state / name)
            (home / "interlock.toml").write_text(f"[gateway]\nport = {port}\n{config}{shared}")
            (home / "runner").mkdir()
            (home / "runner" / "token").write_text("ilr_" + secrets.token_urlsafe(32))
        self._http = httpx2.Client(limits=httpx2.Limits(max_keepalive_connections=0), timeout=5)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._balancer = Balancer(self.ports, uses_tls=False)

    def home(self, number: int) -> Path:
        """The state directory of one of them."""
        return self.place / f"g{number}"

    def url(self, number: int) -> str:
        """The address of one of them, past the balancer."""
        return f"http://127.0.0.1:{self.ports[number]}"

    def start(self, number: int) -> None:
        """Start one of them; it does not listen yet when this returns."""
        self.processes[number] = process([self._module, "gateway", str(self.home(number)), "", ""],
                                         self.place / f"g{number}.log")

    def kill(self, number: int) -> None:
        """kill -9, and wait for the end."""
        running = self.running(number)
        running.kill()
        running.wait()
        child_cleanup.take_back(running.pid)

    def kill_all(self) -> None:
        """kill -9 for all that were started."""
        kill([one for one in self.processes if one is not None])
        self.processes = [None] * GATEWAYS

    def running(self, number: int) -> subprocess.Popen[bytes]:
        """The process of one that was started."""
        found = self.processes[number]
        assert found is not None, "it was started"
        return found

    def answers(self, number: int) -> bool:
        """Whether one of them reports that it is ready."""
        with contextlib.suppress(httpx2.TransportError):
            return self._http.get(f"{self.url(number)}/healthz").status_code == 200
        return False

    def balance(self, port: int = 0) -> int:
        """Listen before all of them; gives the port."""
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._balancer.start(port), self._loop).result(30)

    def logs(self) -> str:
        """What all of them have logged."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.place.glob("g[0-9].log")))

    def down(self) -> None:
        """End all of them, and the proxies before them."""
        end([one for one in self.processes if one is not None])
        self.processes = [None] * GATEWAYS
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._balancer.stop(), self._loop).result(30)
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(10)
        if not self._thread.is_alive():
            self._loop.close()
        self._http.close()
