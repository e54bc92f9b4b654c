"""A server that is restarted while the processes of a killed one still end; the port that it gets."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from interlock.app import own_servers
from interlock.app.own_servers import LISTENING_PORTS, OLD_CHILDREN, OwnServer, ServerMissing, free_port


class Programs:
    """What is started: each program writes its sentence to the log and fails, until the last, which stays."""

    def __init__(self, log: Path, *sentences: str) -> None:
        self.log = log
        self.started = 0
        self._sentences = sentences

    def spawn(self) -> subprocess.Popen[bytes]:
        """Start the next one."""
        self.started += 1
        if not self.stays():
            with self.log.open("a") as log:
                log.write(self._sentences[self.started - 1] + "\n")
            return subprocess.Popen(["false"])
        return subprocess.Popen(["sleep", "60"])

    def stays(self) -> bool:
        """Whether the one that was started last is ready."""
        return self.started > len(self._sentences)


def test_a_server_waits_for_the_children_of_the_former_one(tmp_path: Path) -> None:
    programs = Programs(tmp_path / "log", *[f"FATAL: {OLD_CHILDREN} (key 1, ID 2) is still in use"] * 2)
    server = OwnServer(programs.spawn, programs.stays, "postgresql://here", programs.log)
    assert programs.started == 3
    server.stop()


def test_a_server_that_fails_otherwise_is_not_retried_and_the_reason_is_reported(tmp_path: Path) -> None:
    programs = Programs(tmp_path / "log", "FATAL: no space left on device")
    with pytest.raises(ServerMissing, match=r"did not start; see .*: FATAL: no space left on device"):
        OwnServer(programs.spawn, programs.stays, "postgresql://here", programs.log)
    assert programs.started == 1


def test_a_free_port_is_outside_the_ephemeral_range_and_not_returned_twice() -> None:
    found = [free_port() for _ in range(50)]
    following = found[-1] + 1 if found[-1] + 1 in LISTENING_PORTS else LISTENING_PORTS[0]
    with socket.socket() as other:
        with suppress(OSError):  # Another process has it: as good.
            other.bind(("127.0.0.1", following))
        found.append(free_port())
    assert following not in found
    assert len(set(found)) == 51
    assert set(found) <= set(LISTENING_PORTS)


OTHER = """
import os, sys
os.getpid = lambda: int(sys.argv[1])
from interlock.app.own_servers import free_port
print(free_port(), flush=True)
sys.stdin.read()
"""
"""A process that starts where this one does; it keeps its port, on which nothing listens, until its input ends."""


def test_a_port_that_another_process_has_got_and_does_not_use_yet_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def first() -> int:
        monkeypatch.setattr(own_servers, "_tried", itertools.count())
        monkeypatch.setattr(own_servers, "_reserved", set())
        return free_port()

    free = first()
    with subprocess.Popen([sys.executable, "-c", OTHER, str(os.getpid())], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        theirs = int(other.stdout.readline())
        assert theirs != free, "this process has it"
        monkeypatch.setattr(own_servers, "_tried", itertools.count())
        assert theirs not in [free_port() for _ in range((theirs - free) % len(LISTENING_PORTS) + 1)]
        other.stdin.close()
    assert other.returncode == 0
