"""A network between gateways and a server that a proof makes worse: the proof's side of `slow_link_process`."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path


class SlowLink:
    """Leads from `listening` to `server`: paths of Unix sockets, or ports on loopback. Port 0 is one that is free."""

    def __init__(self, listening: Path | int, server: Path | int) -> None:
        self.port = 0
        self._ends = str(listening), str(server)
        self._rtt_s = 0.0
        self._one = threading.Lock()
        self._process: subprocess.Popen[str] | None = None

    @property
    def rtt_s(self) -> float:
        """A round trip, on top of what the machine takes; may be changed at any time."""
        return self._rtt_s

    @rtt_s.setter
    def rtt_s(self, seconds: float) -> None:
        self._rtt_s = seconds
        if self._process is not None:
            self._order(f"rtt {seconds}")

    def start(self) -> None:
        """Listen. Raises RuntimeError if it cannot."""
        self._process = subprocess.Popen([sys.executable, "-m", "proof.faults.slow_link_process", *self._ends],
                                         text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self._answer())
        self.rtt_s = self._rtt_s

    def stop(self) -> None:
        """Break every connection and listen no more. May be called again."""
        if self._process is not None:
            with self._process as process:  # Closes its pipes; the end of standard input ends it.
                assert process.stdin is not None, "with a pipe"
                process.stdin.close()
                process.wait(10)
            self._process = None

    def cut(self) -> None:
        """Break every connection at once."""
        self._order("cut")

    def stall(self, seconds: float) -> None:
        """Let nothing through for a while, in either direction; it arrives afterwards. Returns when it is over."""
        self._order(f"stall {seconds}")

    def _order(self, line: str) -> None:
        with self._one:
            if self._process is None or self._process.stdin is None:
                raise RuntimeError("the link is not up")
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            self._answer()

    def _answer(self) -> str:
        assert self._process is not None, "it was started"
        assert self._process.stdout is not None, "with a pipe"
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the link to {self._ends[1]} ended")
        return line.strip()
