"""A group of processes that represent other hosts: together they get one share of the processor.

Runners and agents of a cluster are on hosts of their own. When a proof runs all of it on one machine, 1,000 agents
that end at once would each compete with a gateway and PostgreSQL as an equal.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

GROUPS = (Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup"))
"""Of the first and of the second version of control groups."""
EMPTY_TIMEOUT_S = 10.0


class Scheduled(NamedTuple):
    """What a process's first thread has had of the processor, in seconds; a gateway's event loop runs in it."""

    ran_s: float
    waited_s: float
    """It had something to do, and no core was free."""

    @classmethod
    def of(cls, pid: int) -> Scheduled:
        """Read it. Raises OSError for a process that is gone, or on another system than Linux."""
        ran, waited, *_ = Path(f"/proc/{pid}/schedstat").read_text().split()
        return cls(int(ran) / 1e9, int(waited) / 1e9)

    def since(self, before: Scheduled) -> Scheduled:
        """Return what was had after `before` was read."""
        return Scheduled(self.ran_s - before.ran_s, self.waited_s - before.waited_s)


class HostProcessor:
    """One control group; without one (another user than root, another system) every process competes by itself."""

    def __init__(self, name: str) -> None:
        self._place: Path | None = None
        for root in GROUPS:
            with suppress(OSError):
                if root.name == "cpu" or "cpu" in (root / "cgroup.subtree_control").read_text().split():
                    place = root / f"interlock-{name}-{os.getpid()}"
                    place.mkdir()
                    self._place = place
                    return

    @property
    def is_apart(self) -> bool:
        """Whether the processes that are added have a share of their own."""
        return self._place is not None

    def add(self, pid: int) -> None:
        """Put a process there; what it starts from now on is there, too."""
        if self._place is not None:
            (self._place / "cgroup.procs").write_text(str(pid))

    def close(self) -> None:
        """Remove the group once its processes have ended."""
        until = time.monotonic() + EMPTY_TIMEOUT_S
        while self._place is not None and time.monotonic() < until:
            try:
                self._place.rmdir()
            except OSError:
                time.sleep(0.05)
            else:
                self._place = None
