"""`python -m proof.processes.skewed_gateway gateway STATE URL ROOT`: a gateway on a machine whose clock is set.

The file `<STATE>/jump` has the clock's error in milliseconds; without it the error is 0.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from interlock.app.place import Sources, SystemClock
from proof.processes import component

JUMP_NAME = "jump"


def main() -> None:
    """Run the gateway, with both of its ways to the machine's clock led past the file."""
    place = Path(sys.argv[2]) / JUMP_NAME

    def wall_ms(_self: object) -> int:
        try:
            off_ms = int(place.read_text() or 0)
        except FileNotFoundError:
            off_ms = 0
        return time.time_ns() // 1_000_000 + off_ms

    setattr(SystemClock, "now_ms", wall_ms)  # noqa: B010 - a class is patched on purpose
    setattr(Sources, "wall_ms", wall_ms)  # noqa: B010 - see above
    component.main()


if __name__ == "__main__":
    main()
