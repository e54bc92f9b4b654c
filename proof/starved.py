"""`proof.starved SEED gateway|runner …`: a part of a house on a disk that can be full; SIGUSR1 has it look how."""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path
from typing import cast

from proof.processes import component
from proof.scarce import Scarce, State, scarce

LOOK = signal.SIGUSR1


def told(place: Path, which: str) -> Path:
    """The file in which a part is told how its disk is; it is gone once the part knows."""
    return place / f"disk-of-{which}"


def main() -> None:
    """Be the part, and have a thread of its own change the disk meanwhile."""
    seed = int(sys.argv.pop(1))
    signal.pthread_sigmask(signal.SIG_BLOCK, {LOOK})
    state = Path(sys.argv[2])
    disk = scarce(state, random.Random(seed).randrange(2**32))
    threading.Thread(target=_look, args=(disk, told(state.parent, sys.argv[1])), daemon=True).start()
    component.main()


def _look(disk: Scarce, message: Path) -> None:
    while True:
        signal.sigwait({LOOK})
        disk.state = cast("State", message.read_text())
        message.unlink()


if __name__ == "__main__":
    main()
