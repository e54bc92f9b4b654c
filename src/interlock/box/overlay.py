"""An overlay over the agent's workspace: it works as before, and what it writes lies elsewhere (H-17). Runs between
fork and exec, in the mount namespace that the walls made."""

from __future__ import annotations

import os

from interlock.box import kernel

OPTIONS = b"userxattr,index=off,metacopy=off"
"""`userxattr` lets a plain user mount it, and makes root's upper directory read the same (Linux 5.11). Without
`metacopy` and redirects each changed file lies whole in the upper directory."""


def stage(workspace: bytes, upper: bytes, work: bytes) -> None:
    """Mount an overlay over `workspace`: what is written goes to `upper`, on the same file system as `work`. Raises
    OSError."""
    descriptors = [os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in (workspace, upper, work)]
    try:
        # By descriptor: commas and colons in a path would be read as separators.
        lower, over, scratch = (b"/proc/self/fd/%d" % number for number in descriptors)
        kernel.mount(b"interlock", workspace, b"overlay", 0,
                     b"lowerdir=%s,upperdir=%s,workdir=%s,%s" % (lower, over, scratch, OPTIONS))
    finally:
        for number in descriptors:
            os.close(number)
