"""A person at a real terminal: `interlock approve`'s question in a pseudo-terminal of some width, answered key by key.

The child process shows each request and reads the input; the parent types yes at once, then reads page by page.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import re
import select
import struct
import sys
import termios
from typing import NamedTuple

import msgspec
from rich.cells import cell_len

from interlock.cli.approvals import decide
from interlock.cli.approvals.approval_prompt import TerminalAnswers
from interlock.protocol.resources import Approval

ROWS = 24
PATIENCE_S = 30.0
MAX_PAGES = 1_000
_MORE = "? = as JSON: "
_AGREED, _OPEN = "<agreed>\n", "<left open>\n"
_COLOUR = re.compile("\x1b\\[[0-9;]*m")


class Seen(NamedTuple):
    """The screen when a grant was accepted; `at_once` if it was the first input. `widest` in cells."""

    text: str
    at_once: bool
    agreed: bool
    widest: int


def watch(approvals: list[Approval], columns: int) -> list[Seen]:
    """Show requests one after another in a terminal of this width, and answer each."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.pop("NO_COLOR", None)
        os.environ["TERM"] = "xterm-256color"
        os.environ["COLUMNS"], os.environ["LINES"] = str(columns), str(ROWS)
        os.execv(sys.executable, [sys.executable, "-m", "proof.policy.approval_terminal"])
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    screen = _Screen(terminal)
    try:
        screen.until("ready>")
        return [_answered(screen, approval) for approval in approvals]
    finally:
        os.close(terminal)  # The child reads the end of its input, and ends.
        os.waitpid(pid, 0)


def _answered(screen: _Screen, approval: Approval) -> Seen:
    screen.type(msgspec.json.encode(approval).hex())
    shown = screen.until(_MORE)
    screen.type("y")
    more = screen.until(_MORE, _AGREED)
    if more.endswith(_AGREED):
        return _seen(shown + more, at_once=True)
    shown += more
    for _ in range(MAX_PAGES):
        whole = shown.rfind("Allow it") > shown.rfind("Enter = next page")  # The question is what was printed last.
        screen.type("y" if whole else "")
        shown += screen.until(_MORE, _AGREED, _OPEN)
        if shown.endswith((_AGREED, _OPEN)):
            break
    return _seen(shown, at_once=False)


def _seen(shown: str, *, at_once: bool) -> Seen:
    text = _COLOUR.sub("", shown)
    drawn = [row for row in text.split("\n") if row.startswith(" ")]
    return Seen(text, at_once, text.endswith(_AGREED), max(map(cell_len, drawn), default=0))


class _Screen:
    def __init__(self, terminal: int) -> None:
        self._terminal = terminal
        self._rest = ""

    def type(self, line: str) -> None:
        """Type a line, in pieces that a terminal's line takes."""
        data = f"{line}\n".encode()
        for at in range(0, len(data), 1_024):
            os.write(self._terminal, data[at:at + 1_024])

    def until(self, *ends: str) -> str:
        """Read until one of these is at the end of the output. Raises TimeoutError."""
        while not self._rest.endswith(ends):
            if not select.select([self._terminal], [], [], PATIENCE_S)[0]:
                raise TimeoutError(f"the terminal shows nothing more: {self._rest[-200:]!r}")
            self._rest += os.read(self._terminal, 65_536).decode("utf-8", "replace").replace("\r\n", "\n")
        found, self._rest = self._rest, ""
        return found


async def _ask() -> None:
    answers = TerminalAnswers(sys.stdin.fileno())
    _type("ready>")
    while line := await answers.line():
        approval = msgspec.json.decode(bytes.fromhex(line), type=Approval)
        agreed, _ = await decide.confirm(approval, "grant", {}, answers)
        _type(_AGREED if agreed else _OPEN)


def _type(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()  # It is written by lines otherwise, and this may be none.


def main() -> None:
    """Ask as the child, without the terminal's own echo and line limit."""
    mode = termios.tcgetattr(sys.stdin.fileno())
    mode[3] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, mode)
    try:
        asyncio.run(_ask())
    except OSError:
        return  # The terminal was closed.


if __name__ == "__main__":
    main()
