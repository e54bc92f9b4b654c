"""Reloading of the config on SIGHUP, unless that means that the terminal was closed (G-1)."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable


def on_hangup(reload: Callable[[], object], end: Callable[[], object]) -> None:
    """Handle SIGHUP in the running loop: call `reload`, or `end` if the terminal that this was started from was closed.
    A process that was started with the signal ignored (nohup) outlives its terminal."""
    had_terminal = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN and _has_terminal()

    def hangup() -> None:
        if had_terminal and not _has_terminal():
            end()
        else:
            reload()

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, hangup)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
