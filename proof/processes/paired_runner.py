"""`python -m proof.processes.paired_runner STATE URL ROOT RUNNER_ID`: a paired runner as a process of its own."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from interlock import config
from interlock.app.runner import Dialled, run_runner


def main() -> None:
    """Run it until SIGTERM."""
    state_name, url, root, runner_id = sys.argv[1:]
    state = Path(state_name)
    token = (state / "token").read_text().strip()
    asyncio.run(run_runner(state, config.load(state / config.FILE_NAME), [Dialled(url, token, runner_id=runner_id)],
                           roots=[root]))


if __name__ == "__main__":
    main()
