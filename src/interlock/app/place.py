"""Properties of this machine: its clocks, and the name of the runner that `up` starts."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import msgspec

from interlock.durable_files import replace_file

LOCAL_RUNNER = "local"
"""The runner that `interlock up` starts and pairs by itself (G-3)."""


class SystemClock:
    """Wall and monotonic time of this machine."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Return milliseconds that never decrease."""
        return time.monotonic_ns() // 1_000_000


MAX_JUMP_MS = 24 * 60 * 60 * 1000
"""A larger difference is not a change of the clock, but its first setting."""
LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


CLOCK_NAME = "clock.json"
"""The file, in the state directory."""


class _Line(msgspec.Struct):
    boot_id: str
    offset_ms: int
    """The line's time less the time since the boot."""


class Sources:
    """The sources of this machine's time."""

    def wall_ms(self) -> int:
        """Return milliseconds since the epoch by the machine's clock."""
        return time.time_ns() // 1_000_000

    def since_boot_ms(self) -> int:
        """Return milliseconds since the boot, including sleep if the system counts it."""
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        return time.monotonic_ns() // 1_000_000

    def boot_id(self) -> str:
        """Return an id that differs from boot to boot; "" if the system has none."""
        try:
            return LINUX_BOOT_ID.read_text("ascii").strip()
        except OSError:
            return ""


class DeadlineClock:
    """Time for commands and approvals, which jumps of the machine's clock do not change (C-1, C-4).

    Deadlines are instants in the ledger. If they used the wall clock, setting it an hour forward would time out what
    has just started, and setting it back would let it run an hour longer. So it starts at the wall's time and
    continues with the time since the boot, also across a restart of the gateway: the file stores its offset in this
    boot. After another boot it starts at the wall's time again; a wall that is more than a day away is trusted at once,
    since a clock that was never set carries no information.
    """

    def __init__(self, path: Path, sources: Sources | None = None) -> None:
        self._path = path
        self._sources: Sources = sources or Sources()
        self._boot_id = self._sources.boot_id()
        kept = self._kept()
        self._offset_ms = kept if kept is not None else self._begin()

    def now_ms(self) -> int:
        """Return the line's time."""
        since_boot_ms = self._sources.since_boot_ms()
        if abs(self._sources.wall_ms() - since_boot_ms - self._offset_ms) > MAX_JUMP_MS:
            self._offset_ms = self._begin()
        return since_boot_ms + self._offset_ms

    def monotonic_ms(self) -> int:
        """Return milliseconds that never decrease."""
        return self._sources.since_boot_ms()

    def _kept(self) -> int | None:
        try:
            line = msgspec.json.decode(self._path.read_bytes(), type=_Line)
        except (OSError, msgspec.DecodeError):
            return None
        return line.offset_ms if self._boot_id and line.boot_id == self._boot_id else None

    def _begin(self) -> int:
        offset_ms = self._sources.wall_ms() - self._sources.since_boot_ms()
        with suppress(OSError):  # A full disk: the line is kept in memory, and starts again after a restart.
            replace_file(self._path, msgspec.json.encode(_Line(self._boot_id, offset_ms)))
        return offset_ms
