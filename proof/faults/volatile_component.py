"""A component of a stack on a volatile disk: `proof.faults.volatile_component SEED gateway|runner …`.

SIGUSR1 cuts its power: what was not synced is taken back, and the process ends.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path

from proof.faults.volatile_disk import VolatileDisk, make_volatile
from proof.processes import component

CUT = signal.SIGUSR1


def main() -> None:
    """Run the component; a thread of its own waits for the cut."""
    seed = int(sys.argv.pop(1))
    signal.pthread_sigmask(signal.SIG_BLOCK, {CUT})
    disk = make_volatile(Path(sys.argv[2]))
    threading.Thread(target=_await_cut, args=(disk, seed), daemon=True).start()
    component.main()


def _await_cut(disk: VolatileDisk, seed: int) -> None:
    signal.sigwait({CUT})
    disk.cut(random.Random(seed))


if __name__ == "__main__":
    main()
