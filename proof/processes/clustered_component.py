"""Three gateways behind one address, as the one gateway of a stack.

`python -m proof.processes.clustered_component gateway STATE URL ROOT`
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from interlock import config
from interlock.cli.host.children import Child, keep_alive
from interlock.cli.host.up_cluster import UpCluster
from interlock.cli.host.up_gateway import first_failure

GATEWAYS = 3


class Gateways(UpCluster):
    """The gateways of a stack, whose config names the servers that they share."""

    def __init__(self, state: Path, settings: config.Config) -> None:
        super().__init__(GATEWAYS, state, settings.gateway.port, [], settings, [], verbose=False)
        self._settings = settings
        log = state.parent / "gateway.log"
        self._gateways = [Child(place.name, self._arguments(place, port), log)
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
    asyncio.run(Gateways(state, config.load(state / config.FILE_NAME)).run())


if __name__ == "__main__":
    main()
