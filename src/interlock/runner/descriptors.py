"""A start that fails because no file descriptor is left: it alone is refused, in one sentence."""

from __future__ import annotations

import errno


def is_shortage(error: OSError) -> bool:
    """Return whether it failed for want of a descriptor, of this process (EMFILE) or of the machine (ENFILE)."""
    return error.errno in (errno.EMFILE, errno.ENFILE)


def shortage(program: str) -> str:
    """The sentence for a program or agent that was not started."""
    return (f"{program} was not started: the runner has no file descriptor left. Close sessions that are not needed, "
            f"or raise the runner's limit (`ulimit -n`, `LimitNOFILE=` in its unit) and start it again.")
