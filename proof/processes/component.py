"""The gateway or the runner of a stack, started without the command line.

`python -m proof.processes.component gateway|runner STATE URL ROOT`
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from interlock import config


def main() -> None:
    """Run the component that the arguments name."""
    component, state_name, url, root = sys.argv[1:]
    state = Path(state_name)
    settings = config.load(state / config.FILE_NAME)
    token = state / "runner" / "token"
    if component == "gateway":
        import uvloop

        from interlock.app.gateway import run_gateway

        uvloop.run(run_gateway(state, settings, local_runner_token=token))
    else:
        from interlock.app.runner import Dialled, run_runner

        os.chdir(state.parent)  # By which the keepers of its agents are known.
        asyncio.run(run_runner(state, settings, [Dialled(url, token.read_text().strip())], roots=[root]))


if __name__ == "__main__":
    main()
