"""A server that is restarted while the processes of a killed one still end; the port that it gets."""

from __future__ import annotations

import socket
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

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


def test_a_server_waits_for_the_children_of_the_one_before(tmp_path: Path) -> None:
    programs = Programs(tmp_path / "log", *[f"FATAL: {OLD_CHILDREN} (key 1, ID 2) is still in use"] * 2)
    server = OwnServer(programs.spawn, programs.stays, "postgresql://here", programs.log)
    assert programs.started == 3
    server.stop()


def test_a_server_that_fails_otherwise_is_not_tried_again_and_says_why(tmp_path: Path) -> None:
    programs = Programs(tmp_path / "log", "FATAL: no space left on device")
    with pytest.raises(ServerMissing, match=r"did not start; see .*: FATAL: no space left on device"):
        OwnServer(programs.spawn, programs.stays, "postgresql://here", programs.log)
    assert programs.started == 1


def test_a_free_port_is_none_that_connections_get_and_is_not_found_twice() -> None:
    found = [free_port() for _ in range(50)]
    following = found[-1] + 1 if found[-1] + 1 in LISTENING_PORTS else LISTENING_PORTS[0]
    with socket.socket() as other:
        with suppress(OSError):  # Another process has it: as good.
            other.bind(("127.0.0.1", following))
        found.append(free_port())
    assert following not in found
    assert len(set(found)) == 51
    assert set(found) <= set(LISTENING_PORTS)
