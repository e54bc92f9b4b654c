"""Starts that fail because no file descriptor is free: only that start is refused, in one sentence."""

from __future__ import annotations

import errno


def is_shortage(error: OSError) -> bool:
    """Return whether the error means that no descriptor is free, in this process (EMFILE) or on the host (ENFILE)."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def shortage(program: str) -> str:
    """Return the sentence for a program or agent that was not started."""
    return (f"{program} was not started: the runner has no file descriptor left. Close sessions that are not needed, "
            f"or raise the runner's limit (`ulimit -n`, `LimitNOFILE=` in its unit) and start it again.")
