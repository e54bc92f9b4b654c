"""`proof.powered SEED gateway|runner …`: a part of a house on a disk that forgets; SIGUSR1 cuts its power."""

from __future__ import annotations

import random
import signal
import sys
import threading
from pathlib import Path

from proof.power import Disk, forgetful
from proof.processes import component

CUT = signal.SIGUSR1


def main() -> None:
    """Wait for the cut in a thread of its own, and be the part meanwhile."""
    seed = int(sys.argv.pop(1))
    signal.pthread_sigmask(signal.SIG_BLOCK, {CUT})
    disk = forgetful(Path(sys.argv[2]))
    threading.Thread(target=_await_cut, args=(disk, seed), daemon=True).start()
    component.main()


def _await_cut(disk: Disk, seed: int) -> None:
    signal.sigwait({CUT})
    disk.cut(random.Random(seed))


if __name__ == "__main__":
    main()
