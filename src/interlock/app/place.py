"""What is of this machine: its clocks, and the name of the runner that `up` starts."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

import msgspec

LOCAL_RUNNER = "local"
"""The runner that `interlock up` starts and pairs by itself (G-3)."""


class SystemClock:
    """Wall and monotonic time of this machine."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        return time.monotonic_ns() // 1_000_000


MAX_JUMP_MS = 24 * 60 * 60 * 1000
"""A wall that is farther away was not moved but set for the first time."""
LINUX_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


STEADY_NAME = "clock.json"
"""The file, in the state directory."""


class _Line(msgspec.Struct):
    boot_id: str
    offset_ms: int
    """The line's time less the time since the boot."""


class Sources:
    """Where the time of this machine comes from."""

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, as the machine's clock says."""
        return time.time_ns() // 1_000_000

    def since_boot_ms(self) -> int:
        """Milliseconds since the boot, sleep included where the system counts it."""
        if hasattr(time, "CLOCK_BOOTTIME"):
            return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000
        return time.monotonic_ns() // 1_000_000

    def boot_id(self) -> str:
        """What differs from boot to boot; "" where the system does not say."""
        try:
            return LINUX_BOOT_ID.read_text("ascii").strip()
        except OSError:
            return ""


class SteadyClock:
    """Time for commands and approvals: a line that a jump of the machine's clock does not bend (C-1, C-4).

    Deadlines are instants in the ledger. Were these the wall clock's, a clock that is set an hour forward would
    time out what has just begun, and one that is set back would let it run an hour longer. So the line begins at
    the wall's time and continues with the time since the boot, also over a restart of the gateway: the file keeps
    where it lay in this boot. After another boot it begins at the wall's time again; a wall that is more than a day
    away is believed at once, since a clock that was never set says nothing.
    """

    def __init__(self, path: Path, sources: Sources | None = None) -> None:
        self._path = path
        self._sources: Sources = sources or Sources()
        self._boot_id = self._sources.boot_id()
        kept = self._kept()
        self._offset_ms = kept if kept is not None else self._begin()

    def now_ms(self) -> int:
        """The line's time."""
        since_boot_ms = self._sources.since_boot_ms()
        if abs(self._sources.wall_ms() - since_boot_ms - self._offset_ms) > MAX_JUMP_MS:
            self._offset_ms = self._begin()
        return since_boot_ms + self._offset_ms

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back."""
        return self._sources.since_boot_ms()

    def _kept(self) -> int | None:
        try:
            line = msgspec.json.decode(self._path.read_bytes(), type=_Line)
        except (OSError, msgspec.DecodeError):
            return None
        return line.offset_ms if self._boot_id and line.boot_id == self._boot_id else None

    def _begin(self) -> int:
        offset_ms = self._sources.wall_ms() - self._sources.since_boot_ms()
        beside = self._path.with_suffix(".new")
        with suppress(OSError):  # A full disk: the line is kept in memory, and after a restart it begins again.
            beside.write_bytes(msgspec.json.encode(_Line(self._boot_id, offset_ms)))
            os.replace(beside, self._path)  # noqa: PTH105 - the name says what it does: all or nothing
        return offset_ms
