"""`interlock up --cluster N`: start PostgreSQL, NATS, gateways that use them and a runner, all on this machine
(C-4)."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from interlock.app.objects import OBJECTS_NAME
from interlock.app.own_database import DIRECTORY, GATEWAY_PREFIX, database_place
from interlock.app.own_servers import OwnServer, ServerMissing, check_installed, free_port, start_nats, start_postgres
from interlock.cli.config.place import (
    GATEWAY_FILE,
    LOGS,
    OWNER_KEY_FILE,
    RUNNER_TOKEN_FILE,
    GatewayFile,
    gateway_file,
    write_private,
)
from interlock.cli.display.terminal import say
from interlock.cli.host.balancer import Balancer
from interlock.cli.host.children import Child, SupervisedChild, last_words
from interlock.cli.host.up_gateway import Up
from interlock.cli.verb_error import Trouble
from interlock.config import FILE_NAME, Config
from interlock.gateway.access.credentials import new_key
from interlock.gateway.audit.audit_state import CHECKPOINTS_NAME
from interlock.gateway.audit.signing_key import KEY_NAME, PUBLIC_NAME, load_or_make_key

MAX_GATEWAYS = 16
CONNECTIONS = 200
"""Connections that the database accepts; a gateway opens about ten."""
SERVERS = ("database", "bus")
SHARED_FILES = (FILE_NAME, OWNER_KEY_FILE, KEY_NAME, PUBLIC_NAME, RUNNER_TOKEN_FILE)
SHARED_DIRECTORIES = (OBJECTS_NAME, CHECKPOINTS_NAME)


class KeptServer:
    """A server that the gateways share, as a child that is restarted when it ends."""

    def __init__(self, name: str, server: OwnServer) -> None:
        self.name = name
        self.log = server.log
        self._server = server

    @property
    def pid(self) -> int | None:
        """Return its process id."""
        return self._server.pid

    async def wait(self) -> int:
        """Wait for its end; returns its exit status, negative for a signal."""
        return await asyncio.to_thread(self._server.process.wait)

    def last_words(self) -> str:
        """Return the last line of its log."""
        return last_words(self.log)

    async def start(self) -> None:
        """Start it at the same address, on the same data. Raises Trouble."""
        try:
            await asyncio.to_thread(self._server.start_again)
        except ServerMissing as missing:
            raise Trouble("StartFailed", str(missing)) from None


class UpCluster(Up):
    """All processes of the cluster, from their start to their end. Each gateway has a directory of its own below
    `<state>/cluster`, with links to the files that all of them share."""

    def __init__(self, count: int, state: Path, port: int, roots: list[str], config: Config, aside: list[str], *,
                 verbose: bool) -> None:
        super().__init__(state, port, roots, config.runner.drain_ms, aside, verbose=verbose)
        self._uses_tls = config.gateway.tls_cert is not None
        self._places = [state / DIRECTORY / f"{GATEWAY_PREFIX}{number}" for number in range(1, count + 1)]
        self._ports = [free_port() for _ in self._places]
        self._servers: list[OwnServer] = []
        self._shared: tuple[str, str] = "", ""
        """Addresses of the database and the bus."""
        self._balancer = Balancer(self._ports, uses_tls=self._uses_tls)
        self._gateways = [Child(place.name, self._arguments(place, port), state / LOGS / f"{place.name}.log")
                          for place, port in zip(self._places, self._ports, strict=True)]

    def _arguments(self, place: Path, port: int) -> Callable[[], list[str]]:
        def arguments() -> list[str]:
            store, bus = self._shared
            return ["gateway", "--state", str(place), "--port", str(port), "--store", store, "--bus", bus]

        return arguments

    async def _start_servers(self) -> tuple[str, str]:
        """Start the shared servers; returns the addresses of the database and the bus. Raises Trouble."""
        try:
            check_installed()
            database = _database_directory(self._state)
            self._servers.append(await asyncio.to_thread(
                start_postgres, database, options=[f"max_connections={CONNECTIONS}"]))
            self._servers.append(await asyncio.to_thread(start_nats, self._state / DIRECTORY / "nats"))
        except ServerMissing as missing:
            raise Trouble("StartFailed", str(missing)) from None
        postgres, nats = self._servers
        return postgres.url, nats.url

    async def _start_gateways(self) -> None:
        self._shared = await self._start_servers()
        load_or_make_key(self._state)
        if not (self._state / OWNER_KEY_FILE).exists():
            write_private(self._state / OWNER_KEY_FILE, new_key(secrets.token_bytes).encode() + b"\n")
        for place in self._places:
            self._furnish(place)
        # The first gateway creates the schema; the others find it, and receive connections as soon as they answer.
        await self._gateways[0].start()
        await self._announced(self._gateways[0], self._places[0])
        port = await self._balancer.start(self._port)
        first = gateway_file(self._places[0])
        assert first is not None, "it has just been read"
        self._url = f"{first.url.rpartition(':')[0]}:{port}"
        write_private(self._state / GATEWAY_FILE, msgspec.json.encode(GatewayFile(self._url, os.getpid(), first.cert)))
        for gateway in self._gateways[1:]:
            await gateway.start()
        for gateway, place in zip(self._gateways[1:], self._places[1:], strict=True):
            await self._announced(gateway, place)

    def _furnish(self, place: Path) -> None:
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        (place / GATEWAY_FILE).unlink(missing_ok=True)
        for name in SHARED_DIRECTORIES:
            (self._state / name).mkdir(exist_ok=True, mode=0o700)
        for name in (*SHARED_FILES, *SHARED_DIRECTORIES):
            link = place / name
            link.parent.mkdir(exist_ok=True, mode=0o700)
            if (self._state / name).exists() and not link.exists():
                link.symlink_to(self._state / name)

    def _supervised(self) -> Sequence[SupervisedChild]:
        servers = [KeptServer(name, server) for name, server in zip(SERVERS, self._servers, strict=True)]
        return [*self._gateways, *servers]

    def _say_gateways(self) -> None:
        processes = ", ".join(str(gateway.pid) for gateway in self._gateways)
        say(f"gateway  {self._url} → {len(self._gateways)} gateways (processes {processes})")
        for name, server in zip(SERVERS, self._servers, strict=True):
            say(f"{name:<8} {server.url} (process {server.pid})")

    async def _stop_gateways(self) -> None:
        await self._balancer.stop()
        await asyncio.gather(*(gateway.stop() for gateway in self._gateways))
        for server in reversed(self._servers):
            await asyncio.to_thread(server.stop)
        known = gateway_file(self._state)
        if known is not None and known.pid == os.getpid():
            (self._state / GATEWAY_FILE).unlink(missing_ok=True)


def _database_directory(state: Path) -> Path:
    """Return the directory of the database; one outside the state directory is created and checked. Raises Trouble."""
    place = database_place(state)
    if place == state / DIRECTORY:
        return place
    place.mkdir(mode=0o755, exist_ok=True)
    if place.is_symlink() or place.stat().st_uid != 0:
        raise Trouble("StartFailed", f"{place} is another user's.", "Remove it, or do not start it as root.")
    place.chmod(0o755)
    say(f"the database lies in {place}: PostgreSQL does not run as root", "dim")
    return place
