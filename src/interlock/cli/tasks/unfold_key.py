"""Ctrl-O unfolds a tool's output while a command runs (Y-6).

The key is set as the terminal's quit character, so it arrives as a signal, and text that is typed ahead stays in the
terminal for the shell. A signal reaches every program of a pipeline, so the key is set only outside of a pipeline.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress

from interlock.cli.display.terminal import is_terminal
from interlock.cli.tasks.screen import Screen

KEY = b"\x0f"
HINT = "Ctrl-O shows them"
LOCAL_MODES, CONTROL_CHARACTERS = 3, 6
"""Indexes of these in the result of `tcgetattr`."""


@contextmanager
def unfold_key(screen: Screen) -> Generator[None]:
    """Let Ctrl-O unfold the screen's output, and fold it again; afterwards the terminal's settings are restored."""
    descriptor = _terminal()
    if descriptor is None:
        yield
        return
    try:
        before = termios.tcgetattr(descriptor)
        ours = termios.tcgetattr(descriptor)
        ours[CONTROL_CHARACTERS][termios.VQUIT] = KEY
        ours[LOCAL_MODES] &= ~termios.ECHOCTL  # The terminal does not echo the key.
        ours[LOCAL_MODES] |= termios.NOFLSH  # It does not discard text that was typed before it either.
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGQUIT, screen.toggle_fold)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, ours)
    except (termios.error, OSError):
        yield
        return
    hint = screen.hint_unfold(HINT)
    try:
        yield
    finally:
        screen.hint_unfold(hint)
        with suppress(termios.error, OSError):  # The terminal may be closed.
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        loop.remove_signal_handler(signal.SIGQUIT)


def _terminal() -> int | None:
    """Return the terminal, if this process is alone in its foreground: all three streams are that terminal."""
    if not (is_terminal(sys.stdin) and is_terminal(sys.stdout) and is_terminal(sys.stderr)):
        return None
    try:
        descriptor = sys.stdin.fileno()
        return descriptor if os.tcgetpgrp(descriptor) == os.getpgrp() else None
    except (OSError, ValueError):
        return None
