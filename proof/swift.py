"""Parts of houses, forked out of one process that has loaded everything: a start costs a tenth of a new interpreter's.

For proofs that start a thousand parts; one that measures a start takes whole processes.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
LOADED = ("interlock.app.gateway", "interlock.app.runner", "uvloop", "uvicorn.protocols.http.httptools_impl",
          "uvicorn.protocols.websockets.websockets_sansio_impl", "uvicorn.loops.auto", "proof.part",
          "interlock.agents.dps.agent")


class Forked:
    """A process that somebody else is the parent of; the part of `subprocess.Popen` that a house uses."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        try:
            self._end: int | None = os.pidfd_open(pid)
        except ProcessLookupError:
            self._end = None

    def poll(self) -> int | None:
        """0 once it has ended, whatever it ended with."""
        if self._end is not None and select.select([self._end], [], [], 0)[0]:
            os.close(self._end)
            self._end = None
        return 0 if self._end is None else None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end. Raises subprocess.TimeoutExpired."""
        if self._end is not None and not select.select([self._end], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        self.poll()
        return 0

    def send_signal(self, number: int) -> None:
        """Send a signal; to one that has ended nothing is sent."""
        if self._end is not None:
            try:
                signal.pidfd_send_signal(self._end, number)
            except ProcessLookupError:
                return

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Swift:
    """Starts modules of this package, each in a process of its own, by forking a process that has them loaded."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair()
        self._zygote = subprocess.Popen([sys.executable, "-m", "proof.swift", str(theirs.fileno())],
                                        pass_fds=[theirs.fileno()], cwd=REPOSITORY, stdin=subprocess.DEVNULL)
        theirs.close()
        self._link = ours.makefile("rwb")
        ours.close()
        self._turn = threading.Lock()

    def start(self, arguments: list[str], log: Path) -> Forked:
        """Run `main` of the module `arguments[0]` with these as its `sys.argv`; output goes to the end of `log`."""
        with self._turn:
            self._link.write(json.dumps([arguments, str(log)]).encode() + b"\n")
            self._link.flush()
            return Forked(int(self._link.readline()))

    def close(self) -> None:
        """End the process that forks; what it forked goes on."""
        self._link.close()
        self._zygote.wait()


def main() -> None:
    """Fork what is asked for, until no one asks any more."""
    link = socket.socket(fileno=int(sys.argv[1])).makefile("rwb")
    for name in LOADED:
        importlib.import_module(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # What has ended is reaped by the kernel.
    for line in link:
        arguments, log = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(arguments, log)
        link.write(b"%d\n" % pid)
        link.flush()


def _become(arguments: list[str], log: str) -> None:
    """Go on as the part that was asked for, and end with it."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.closerange(3, 64)
        sys.argv = arguments
        importlib.import_module(arguments[0]).main()
        code = 0
    except BaseException:  # noqa: BLE001 - the end of a process that has no interpreter's own end
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    main()
