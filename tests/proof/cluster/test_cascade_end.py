"""`python -m proof cascade` that is ended by SIGTERM ends at once, with everything that it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.req("C-4"), pytest.mark.long]
REPOSITORY = Path(__file__).resolve().parents[3]
STARTED_S = 120.0
ENDED_S = 15.0
"""A thread that waits for an answer of gateways that are gone asks for a minute."""


def test_sigterm_ends_the_cascade_while_commands_wait() -> None:
    with tempfile.TemporaryDirectory(prefix="ilk-") as name:
        place = Path(name)
        place.chmod(0o755)  # PostgreSQL is another user.
        with (place / "log").open("wb") as log:
            proof = subprocess.Popen(
                [sys.executable, "-m", "proof", "cascade", "--rtt", "25", "--kills", "1", "--sessions", "100"],
                stdout=log, stderr=log, start_new_session=True, cwd=REPOSITORY, env={**os.environ, "TMPDIR": name})
        try:
            _until(lambda: any("shell_agent" in line for line in _of(place)), STARTED_S, place)
            proof.send_signal(signal.SIGTERM)
            assert proof.wait(ENDED_S) == 128 + signal.SIGTERM
            _until(lambda: not _of(place), ENDED_S, place)
            assert "Traceback" not in (place / "log").read_text()
            assert not list(place.glob("interlock-cascade-*"))
        finally:
            proof.kill()
            proof.wait()


def _until(reached: Callable[[], bool], seconds: float, place: Path) -> None:
    until = time.monotonic() + seconds
    while not reached():
        assert time.monotonic() < until, f"{_of(place)}\n{(place / 'log').read_text()}"
        time.sleep(0.05)


def _of(place: Path) -> list[str]:
    """The processes that were started there: by their environment, or by their directory if they have overwritten
    that, as PostgreSQL's have."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            environment = (process / "environ").read_bytes()
            directory = str((process / "cwd").readlink())
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if line and (b"TMPDIR=%s\0" % str(place).encode() in environment or directory.startswith(str(place))):
            found.append(f"{process.name} {line[:80].decode(errors='replace')}")
    return found
