"""Raise the walls of an order, in the process that becomes the agent (H-15).

Used by the supervisor, which starts without `site`: this module and those below it import only the standard library.
"""

from __future__ import annotations

import sys


def raise_walls(fields: list[bytes]) -> None:
    """Raise the walls encoded by `Walls.fields`, for this process and all its descendants, irrevocably.

    Raises OSError if the kernel refuses: the caller must not continue then.
    """
    if not fields:
        return
    if sys.platform != "linux":
        raise OSError(38, "walls need Linux")
    hidden = [field[1:] for field in fields[1:] if field[:1] == b"h"]
    read_only = [field[1:] for field in fields[1:] if field[:1] == b"r"]
    writable = [field[1:] for field in fields[1:] if field[:1] == b"w" and field != b"w"]
    limited = writable if b"w" in fields[1:] else None
    staged = [field[1:] for field in fields[1:] if field[:1] == b"o"]
    networks = [field[1:] for field in fields[1:] if field[:1] == b"n"]
    if fields[0] == b"namespace":
        from interlock.box.namespace import raise_namespace

        handover, _, ports = networks[0].partition(b":") if networks else (b"-1", b"", b"")
        raise_namespace(hidden, read_only, limited, int(handover),
                        [int(port) for port in ports.split(b",") if port] if networks else None, staged)
        return
    if networks:
        raise OSError(22, "only a namespace limits the network")
    if staged:
        raise OSError(95, "changes can be staged in a namespace only")
    if fields[0] == b"landlock":
        from interlock.box.landlock import raise_landlock

        raise_landlock(hidden, read_only, limited)
    else:
        raise OSError(22, "no such wall")
