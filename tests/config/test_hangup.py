"""Meaning of SIGHUP: read the config again, or end if the terminal is gone (G-1)."""

import os
import pty
import signal
import subprocess
import sys

import pytest

PATIENCE_S = 60
PROGRAM = """
import asyncio, fcntl, os, signal, sys, termios
from interlock.config.hangup import on_hangup
if sys.argv[1] != "detached":
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
# The tests may themselves have been started with SIGHUP ignored, which a child inherits.
signal.signal(signal.SIGHUP, signal.SIG_IGN if sys.argv[1] == "nohup" else signal.SIG_DFL)
async def main():
    ended = asyncio.Event()
    def reload():
        if sys.argv[1] == "nohup":
            sys.exit(8)
        print("reload", flush=True)
    on_hangup(reload, ended.set)
    print("ready", flush=True)
    await ended.wait()
asyncio.run(main())
sys.exit(7)
"""


def started(how: str) -> tuple[subprocess.Popen[bytes], int]:
    """A process whose terminal is the one that is returned, unless it is detached from any."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", PROGRAM, how], stdin=theirs, stdout=theirs, stderr=theirs,
                               start_new_session=True)
    os.close(theirs)
    until(ours, b"ready\r\n")  # Its end may be a write of its own, which a closed terminal refuses.
    return process, ours


def until(terminal: int, word: bytes) -> None:
    """Read until a word was written."""
    printed = b""
    while word not in printed:
        printed += os.read(terminal, 1024)


@pytest.mark.req("G-1", "G-3")
@pytest.mark.parametrize("how", ["terminal", "detached"])
def test_a_hangup_reloads_the_config(how: str) -> None:
    process, terminal = started(how)
    try:
        process.send_signal(signal.SIGHUP)
        until(terminal, b"reload")
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


@pytest.mark.req("G-1", "G-3")
@pytest.mark.parametrize(("how", "status"), [("terminal", 7), ("nohup", 8)])
def test_the_terminals_end_ends_its_children_unless_they_were_detached(how: str, status: int) -> None:
    process, terminal = started(how)
    os.close(terminal)
    assert process.wait(PATIENCE_S) == status
