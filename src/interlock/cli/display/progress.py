"""Progress of an operation that takes longer than a second, shown on a terminal until it is done (G-7)."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from interlock.cli.display.terminal import is_terminal, transient
from interlock.protocol.extras import CHAT_SERVICES

FIRST_S = 1.0
"""Seconds before progress is shown."""
EVERY_S = 0.5
LASTING = frozenset({
    "acp", "answer", "approve", "attach", "chat", "demo", "deny", "gateway", "logs", "mcp", "run", "runner", "up",
    *CHAT_SERVICES, "__complete", "audit erase", "audit witness", "conformance",
})
"""Verbs that follow something, ask something, or run until they are ended: they report progress themselves."""


class _SoFar:
    text = ""
    waiting = ""
    suspended = False
    lock = threading.Lock()
    """Held while a line is shown, so that no line is written after the terminal was handed over."""


def so_far(text: str) -> None:
    """Set how far the work is, for example `12000 records`. It is cheap, so it may be called often."""
    _SoFar.text = text


def waiting_for(text: str) -> None:
    """Set what the work waits for, "" for nothing; shown as long as `so_far` sets no figures."""
    _SoFar.waiting = text


@contextmanager
def suspended() -> Generator[None]:
    """Print no progress while another program, such as an editor, has the terminal, or a question waits there."""
    with _SoFar.lock:
        _SoFar.suspended = True
        transient(None)
    try:
        yield
    finally:
        _SoFar.suspended = False


def agreed() -> bool:
    """Wait for a yes to the question that was printed; anything else is a no."""
    with suspended():
        return input("[y/N] ").strip().lower() in ("y", "yes")


@contextmanager
def working(words: Sequence[str], first_s: float = FIRST_S, every_s: float = EVERY_S) -> Generator[None]:
    """Show the verb of `words` and its elapsed seconds on a terminal; the line is removed when the work is done or
    anything else is printed."""
    if LASTING.intersection((" ".join(words[:1]), " ".join(words[:2]))) or not is_terminal(sys.stderr):
        yield
        return
    _SoFar.text = _SoFar.waiting = ""
    began, done = time.monotonic(), threading.Event()
    verb = " ".join(word for word in words[:2] if word.replace("-", "").isalpha())

    def show() -> None:
        pause_s = first_s
        while not done.wait(pause_s):
            pause_s = every_s
            text = _SoFar.text or _SoFar.waiting
            figures = f" · {text}" if text else ""
            with _SoFar.lock:
                if not _SoFar.suspended:
                    transient(f"{verb} … {time.monotonic() - began:.0f} s{figures}")

    display = threading.Thread(target=show, name="working", daemon=True)
    display.start()
    try:
        yield
    finally:
        done.set()
        display.join()
        transient(None)
