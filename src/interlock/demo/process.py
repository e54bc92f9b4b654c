"""`python -m interlock.demo.process gateway|runner …`: the two processes of the demonstration, started by it alone."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import structlog

from interlock.app import run_gateway, run_runner
from interlock.config import FILE_NAME, load


async def _gateway(state: Path, token_file: Path) -> None:
    _end_with_parent()
    await run_gateway(state, load(state / FILE_NAME), ready=lambda url: print(url, flush=True),
                      local_runner_token=token_file)


async def _runner(state: Path, token_file: Path, url: str, root: str) -> None:
    _end_with_parent()
    await run_runner(state, load(state / FILE_NAME), url, token_file.read_text("ascii").strip(), roots=[root])


def _end_with_parent() -> None:
    """Standard input ends when the demonstration does, however it ends: then this process ends, too."""
    loop = asyncio.get_running_loop()

    def read() -> None:
        if not os.read(0, 1024):
            loop.remove_reader(0)
            os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(0, read)


def main(arguments: list[str]) -> None:
    """Run `gateway STATE TOKEN_FILE` or `runner STATE TOKEN_FILE URL ROOT`; the gateway prints its URL when ready."""
    # Standard output says where the gateway listens, and nothing else.
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    role, state, token_file, *rest = arguments
    if role == "gateway":
        asyncio.run(_gateway(Path(state), Path(token_file)))
    else:
        asyncio.run(_runner(Path(state), Path(token_file), *rest))


if __name__ == "__main__":
    main(sys.argv[1:])
