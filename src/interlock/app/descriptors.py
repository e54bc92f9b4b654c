"""The limit of open files: each link, stream and agent's pipe is one, and many systems start a process with 1,024."""

from __future__ import annotations

import resource
from contextlib import suppress

DESCRIPTORS_WANTED = 65_536
"""The soft limit is raised up to this. An agent takes four descriptors of its runner, a stream takes one."""


def raise_limit() -> int:
    """Raise this process's soft limit of open files to its hard limit, at most to DESCRIPTORS_WANTED.

    Returns the previous soft limit, 0 if there was none: child processes should get that one, since a program that uses
    select(2) fails with more than 1,024 open files.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_WANTED if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS_WANTED)
    if soft == resource.RLIM_INFINITY:
        return 0
    if soft < wanted:
        with suppress(OSError, ValueError):  # macOS may refuse what its hard limit states.
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return soft
