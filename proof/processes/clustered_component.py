"""Three gateways behind one address, as the one gateway of a stack.

`python -m proof.processes.clustered_component gateway STATE URL ROOT`
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

from interlock import config
from interlock.cli.host.children import Child, keep_alive
from interlock.cli.host.up_cluster import UpCluster
from interlock.cli.host.up_gateway import first_failure
from proof.processes.fork_server import ForkServer

GATEWAYS = 3


class ForkedChild(Child):
    """A child that is forked, and not a new interpreter."""

    def __init__(self, name: str, arguments: Callable[[], list[str]], log: Path, fork_server: ForkServer) -> None:
        super().__init__(name, arguments, log)
        self._words = arguments
        self._fork_server = fork_server

    async def start(self) -> None:
        """Start it in a process group of its own."""
        forked = self._fork_server.supervised([*self._words(), "--with-parent"], self.log)
        self._process = cast("asyncio.subprocess.Process", forked)


class Gateways(UpCluster):
    """The gateways of a stack, whose config names the servers that they share."""

    def __init__(self, state: Path, settings: config.Config, fork_server: ForkServer) -> None:
        super().__init__(GATEWAYS, state, settings.gateway.port, [], settings, [], verbose=False)
        self._settings = settings
        log = state.parent / "gateway.log"
        self._gateways = [ForkedChild(place.name, self._arguments(place, port), log, fork_server)
                          for place, port in zip(self._places, self._ports, strict=True)]

    async def _start_servers(self) -> tuple[str, str]:
        shared = self._settings.cluster
        assert shared.store is not None, "the stack says so"
        assert shared.bus is not None, "the stack says so"
        return shared.store, shared.bus

    async def run(self) -> int:
        """Serve until SIGTERM, which also ends a start."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop_asked.set)
        keeping: list[asyncio.Task[None]] = []
        try:
            if await self._unless_stopped(self._start_gateways()):
                keeping = [asyncio.create_task(keep_alive(gateway)) for gateway in self._gateways]
                await self._unless_stopped(first_failure(keeping))
        finally:
            for task in keeping:
                task.cancel()
            await asyncio.gather(*keeping, return_exceptions=True)
            await self._stop_gateways()
        return 0


def main() -> None:
    """Run the gateways of the state directory that the arguments name."""
    _, state_name, _, _ = sys.argv[1:]
    state = Path(state_name)
    fork_server = ForkServer.of_this_process()
    asyncio.run(Gateways(state, config.load(state / config.FILE_NAME), fork_server).run())


if __name__ == "__main__":
    main()
