"""Ctrl-O at a real terminal unfolds a tool's output, and the terminal is left as it was (Y-6)."""

from __future__ import annotations

import os
import pty
import select
import signal
import sys

import pytest

pytestmark = pytest.mark.req("Y-6")

PATIENCE_S = 20.0
SCRIPT = """
import asyncio, sys, termios
from interlock.cli.tasks.screen import Screen
from interlock.cli.tasks.unfold_key import unfold_key
from interlock.protocol import payloads as p

async def main():
    before = termios.tcgetattr(0)
    screen = Screen("claude")
    done = asyncio.Event()
    toggle = screen.toggle_fold
    def note():
        toggle()
        done.set()
    screen.toggle_fold = note
    with unfold_key(screen):
        text = "".join(f"line {n}\\n" for n in range(12))
        screen.frame("agent.tool.stream", p.ToolStream(invocation_id="i", channel="stdout", offset=0, text=text))
        print("READY", flush=True)
        await done.wait()
    print("SAME" if termios.tcgetattr(0) == before else "OTHER", flush=True)
    print("TYPED", input(), flush=True)

asyncio.run(main())
"""


def _until(terminal: int, end: str) -> str:
    shown_text = ""
    while end not in shown_text:
        assert select.select([terminal], [], [], PATIENCE_S)[0], shown_text
        shown_text += os.read(terminal, 65_536).decode()
    return shown_text


def test_the_key_unfolds_and_earlier_typed_input_is_kept() -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "xterm-256color"
        os.execv(sys.executable, [sys.executable, "-c", SCRIPT])
    try:
        folded = _until(terminal, "READY")
        assert "line 9" in folded
        assert "line 10" not in folded
        os.write(terminal, b"ahead\n\x0f")
        rest = _until(terminal, "TYPED ahead")
        assert "line 10" in rest
        assert "line 11" in rest
        assert "SAME" in rest
        assert "^O" not in rest
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
