"""An overlay over the agent's workspace: it can be used as before, but changes go to another directory (H-17). Runs
between fork and exec, in the mount namespace of the walls."""

from __future__ import annotations

import os

from interlock.box import kernel

OPTIONS = b"userxattr,index=off,metacopy=off"
"""`userxattr` lets a plain user mount it, and gives root's upper directory the same format (Linux 5.11). Without
`metacopy` and redirects each changed file is complete in the upper directory."""


def stage(workspace: bytes, upper: bytes, work: bytes) -> None:
    """Mount an overlay over `workspace`: changes go to `upper`, on the same file system as `work`. Raises OSError."""
    descriptors = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in (workspace, upper, work)]
    try:
        # By descriptor: commas and colons in a path would be parsed as separators.
        lower, over, scratch = (b"/proc/self/fd/%d" % number for number in descriptors)
        kernel.mount(b"interlock", workspace, b"overlay", 0,
                     b"lowerdir=%s,upperdir=%s,workdir=%s,%s" % (lower, over, scratch, OPTIONS))
    finally:
        for number in descriptors:
            os.close(number)
