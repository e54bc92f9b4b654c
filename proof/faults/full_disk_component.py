"""A component of a stack on a disk that can be full: `proof.faults.full_disk_component SEED gateway|runner …`.

At SIGUSR1 it reads the new state of the disk from a file.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path
from typing import cast

from proof.faults.full_disk import FullDisk, State, limit_disk
from proof.processes import component

LOOK = signal.SIGUSR1


def state_file(place: Path, which: str) -> Path:
    """The file with a component's new disk state; the component removes it once the state is in effect."""
    return place / f"disk-of-{which}"


def main() -> None:
    """Run the component; a thread of its own changes the disk meanwhile."""
    seed = int(sys.argv.pop(1))
    signal.pthread_sigmask(signal.SIG_BLOCK, {LOOK})
    state = Path(sys.argv[2])
    disk = limit_disk(state, random.Random(seed).randrange(2**32))
    threading.Thread(target=_look, args=(disk, state_file(state.parent, sys.argv[1])), daemon=True).start()
    component.main()


def _look(disk: FullDisk, message: Path) -> None:
    while True:
        signal.sigwait({LOOK})
        disk.state = cast("State", message.read_text())
        message.unlink()


if __name__ == "__main__":
    main()
