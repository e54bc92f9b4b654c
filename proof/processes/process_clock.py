"""The processor time of another process."""

from __future__ import annotations

import sys
import time


def cpu_s(pid: int) -> float:
    """Processor time of all threads of a process so far, in seconds, in steps of 1 ns.

    /proc/PID/stat counts in ticks of 10 ms, which a short round of a fast gateway does not fill.

    Raises:
        OSError: the process has ended, or the system has no such clock (other than Linux).
    """
    if not sys.platform.startswith("linux"):
        raise OSError("the clock of another process is read on Linux only")
    # The system's number for the clock of a process: clock_getcpuclockid(3), which Python does not have.
    clock = ~pid << 3 | 2
    return time.clock_gettime(clock)
