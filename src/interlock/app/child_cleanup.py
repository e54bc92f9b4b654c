"""Termination of this process's children if it is killed (A-4).

A kill -9 runs no `finally`, so a small process waits beside this one. It holds the other end of a pipe; when that
closes, its starter has ended, and it ends each registered process that was not unregistered. A parent-death signal of
Linux would not do: it is bound to the thread that forked, is lost when a program runs as another user, and exists on
Linux only. `python -I -S child_cleanup.py` is that process; it imports only what loads within a few milliseconds.
"""

from __future__ import annotations

import atexit
import os
import select
import signal
import subprocess
import sys
import threading
import time

GRACE_S = 10.0
"""From the signal that was chosen to SIGKILL."""
POLL_S = 0.05
_IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Ctrl-C and a service manager's SIGTERM are handled by the processes that shut down in order."""

_turn = threading.Lock()
_keeper: subprocess.Popen[bytes] | None = None


def leave(pid: int, how: signal.Signals = signal.SIGKILL) -> None:
    """Register a child to be ended by `how`, and after GRACE_S by SIGKILL, if this process ends before it."""
    _write(b"leave %d %d %d\n" % (pid, how, started(pid)))


def take_back(pid: int) -> None:
    """Unregister a child that has ended: its pid may be reused soon."""
    if _keeper is not None:
        _write(b"back %d 0 0\n" % pid)


def started(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; 0 if the system does not report it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:  # noqa: PTH123 - pathlib takes longer to import than this to run
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return 0


def _write(line: bytes) -> None:
    global _keeper  # One per process, created when the first child is registered.
    with _turn:
        if _keeper is None or _keeper.poll() is not None:
            _keeper = subprocess.Popen([sys.executable, "-I", "-S", __file__], stdin=subprocess.PIPE,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            atexit.register(_close, _keeper)
        assert _keeper.stdin is not None, "it has a pipe"
        # A line is shorter than PIPE_BUF, so it is written atomically.
        os.write(_keeper.stdin.fileno(), line)


def _close(keeper: subprocess.Popen[bytes]) -> None:
    """End the remaining processes now, at this process's own end."""
    assert keeper.stdin is not None, "it has a pipe"
    keeper.stdin.close()
    keeper.wait()


class Left:
    """A process to end. `since` is when it started: another process with its pid is not touched."""

    def __init__(self, pid: int, how: int, since: int) -> None:
        self._pid = pid
        self._how = how
        self._since = since
        self._handle: int | None = None
        self._gone = False
        if hasattr(os, "pidfd_open"):
            try:
                self._handle = os.pidfd_open(pid)
            except ProcessLookupError:
                self._gone = True
            except OSError:
                self._handle = None
        self._gone = self._gone or self._is_another()  # After the handle, which stays bound to its process.

    def close(self) -> None:
        """Close the handle."""
        if self._handle is not None:
            os.close(self._handle)

    def end(self, *, at_once: bool = False) -> None:
        """Send its signal, or SIGKILL; a stopped one is continued, since it could not receive the signal otherwise."""
        for number in (signal.SIGKILL,) if at_once else (self._how, signal.SIGCONT):
            self._send(number)

    def is_there(self) -> bool:
        """Return whether it has not ended yet."""
        if self._handle is not None:  # This also reports the end of a process that was not waited for.
            self._gone = self._gone or has_ended(self._handle)
        else:
            self._send(0)
        return not self._gone

    def _is_another(self) -> bool:
        return self._since != started(self._pid) if self._since else False

    def _send(self, number: int) -> None:
        try:
            if self._handle is None:
                self._gone = self._gone or self._is_another()
            if self._gone:
                return
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)
            else:
                os.kill(self._pid, number)
        except ProcessLookupError:
            self._gone = True
        except PermissionError:  # Another process: it was never ours to end.
            self._gone = True


def has_ended(handle: int) -> bool:
    """Return whether the process of a pidfd has ended. Not by select(2): the number may be above 1023."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(0))


def main() -> None:
    """Read the registered processes until the starter has ended; then end them."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    left: dict[int, Left] = {}
    for line in iter(sys.stdin.buffer.readline, b""):
        word, pid, how, since = line.split()
        before = left.pop(int(pid), None)
        if before is not None:
            before.close()
        if word == b"leave":
            left[int(pid)] = Left(int(pid), int(how), int(since))
    for one in left.values():
        one.end()
    until = time.monotonic() + GRACE_S
    while any(one.is_there() for one in left.values()) and time.monotonic() < until:
        time.sleep(POLL_S)
    for one in left.values():
        one.end(at_once=True)


if __name__ == "__main__":
    main()
