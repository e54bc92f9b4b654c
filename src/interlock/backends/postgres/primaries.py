"""Detection of the ledger's primary, and of former ones, which are not used (C-4, D-1).

A primary that returns after its standby was promoted accepts writes as if nothing had happened, and these are lost.
Each promotion begins a new *timeline*, which PostgreSQL numbers upwards and never begins twice, so of two servers that
are copies of one (they have one system identifier) the one with the lower timeline is the former primary.

A process knows the newest timeline that any of its connections has seen, and stores it in a file, so that it survives a
restart. Every server of the address is queried when the ledger is opened, every LOOK_S, and before a new connection is
used: a former primary may be back before any connection has reached the new one. All connections to a server that
proves to be a former primary are closed.
"""

from __future__ import annotations

import asyncio
import json
import threading
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import asyncpg
import structlog

from interlock.backends.postgres.faults import LINK_FAULTS, FormerPrimary, is_away
from interlock.durable_files import replace_file

LOOK_S = 5.0
"""Interval between queries of all servers of the address."""
LOOK_TIMEOUT_S = 3.0
"""A server that has not answered by then is left out of the query."""
CONFIRM_TIMEOUT_S = 1.0
"""How long a new connection waits for the answers of the other servers: less than a renewal has to reconnect. A server
that did not answer the last query is not waited for."""
FILE_NAME = "postgres-primary.json"
WHICH = """
SELECT system_identifier::text, CASE WHEN pg_is_in_recovery() THEN NULL
    ELSE ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int END
FROM pg_control_system()
"""
"""The name of the current write-ahead log file begins with its timeline."""
log = structlog.get_logger("interlock.postgres")


class DriverConnection(Protocol):
    """A connection of the driver, as far as it is used here."""

    async def fetchrow(self, query: str) -> tuple[Any, ...] | None: ...

    def terminate(self) -> None: ...


class Severable(Protocol):
    """A connection that can be closed at once."""

    def terminate(self) -> None: ...


class PrimaryServer(NamedTuple):
    """A server that accepts writes: its database system, and its timeline."""

    system: str
    timeline: int


class LedgerHost(NamedTuple):
    """A server of an address; a directory is that of its socket."""

    name: str
    port: int | None

    def __str__(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"


C = TypeVar("C", bound=DriverConnection)
Open = Callable[[LedgerHost | None], Awaitable[C]]
"""Opens a connection to one server of the address, or to any. Raises the driver's exceptions."""


async def server_of(connection: DriverConnection) -> PrimaryServer | None:
    """Return a server's identity; None for a standby, and for one that is like PostgreSQL and has no timelines or hides
    them. Raises LINK_FAULTS."""
    try:
        found = await connection.fetchrow(WHICH)
    except asyncpg.PostgresError as error:
        if is_away(error):
            raise
        return None
    return PrimaryServer(found[0], found[1]) if found is not None and found[1] is not None else None


def hosts_of(dsn: str) -> list[LedgerHost]:
    """Return the servers that an address names; none if it leaves that to the environment, or is not an address."""
    try:
        parts = urlsplit(dsn)
    except ValueError:  # The driver reports what is wrong with it.
        return []
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    listed = unquote(parts.netloc.rpartition("@")[2]) or query.get("host", "")
    ports = query.get("port", "").split(",")
    hosts: list[LedgerHost] = []
    for at, one in enumerate(filter(None, listed.split(","))):
        name, mark, port = one.rpartition(":")
        if not mark or not port.isdigit() or (one.startswith("[") and one.endswith("]")):
            name, port = one, ports[at] if at < len(ports) else ports[-1]
        hosts.append(LedgerHost(name.strip("[]"), int(port) if port else None))
    return hosts


class _Silent(NamedTuple):
    """A server that did not answer in time."""


class _Opened(NamedTuple):
    """The server of a connection, and its loop."""

    server: PrimaryServer
    loop: asyncio.AbstractEventLoop


class _Looks:
    """The queries of one loop: one at a time, shared by all who requested it before it began."""

    def __init__(self) -> None:
        self._one = asyncio.Lock()
        self._begun = self._done = 0

    async def after_now(self, look: Callable[[], Awaitable[None]]) -> None:
        """Return once a query has been done that began after the call."""
        begun = self._begun
        async with self._one:
            if self._done > begun:
                return
            self._begun = number = self._begun + 1
            await look()
            self._done = number  # Not if it was cancelled: the next waiter does it.


class Primaries:
    """A process's knowledge of the servers of one address, for all connections that it opens there, on any loop."""

    def __init__(self, file: Path | None = None) -> None:
        """Create it; `file` stores the newest timeline across restarts."""
        self._file = file
        self._newest = _read(file) if file is not None else None
        self._open = weakref.WeakKeyDictionary[Severable, _Opened]()
        self._one = threading.RLock()
        """A lease is renewed in a thread of its own."""
        self._looks = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _Looks]()
        self._silent = frozenset[LedgerHost | None]()
        """Servers that did not answer the last look in time."""
        self.former: list[LedgerHost] = []
        """Servers that accepted writes at the last query although another one is the primary."""

    def is_former(self, server: PrimaryServer | None) -> bool:
        """Return whether a server is known to be a former primary."""
        newest = self._newest
        return (server is not None and newest is not None and server.system == newest.system
                and server.timeline < newest.timeline)

    def learn(self, server: PrimaryServer | None) -> None:
        """Record that a server accepts writes; close the connections to servers that are thereby former primaries."""
        with self._one:
            self._learn(server)

    def _learn(self, server: PrimaryServer | None) -> None:
        newest = self._newest
        if server is None or server == newest or self.is_former(server):
            return
        self._newest = server
        if newest is not None and newest.system != server.system:
            log.warning("postgres_server_changed", reason=(
                "The ledger is on another database system than before, as after a restore into a new server. If that "
                "is not so, stop the gateways and look at the address."))
        elif newest is not None:
            log.info("postgres_was_promoted", timeline=server.timeline, former=newest.timeline)
        if self._file is not None:
            _write(self._file, server)
        here = asyncio.get_running_loop()
        for connection, its in list(self._open.items()):
            if not self.is_former(its.server):
                continue
            if its.loop is here:
                connection.terminate()
            else:
                with suppress(RuntimeError):  # That loop is closed, and its connections with it.
                    its.loop.call_soon_threadsafe(connection.terminate)

    def opened(self, connection: Severable, server: PrimaryServer | None) -> None:
        """Close this connection once its server is a former primary."""
        with self._one:
            if self.is_former(server):
                connection.terminate()
            elif server is not None:
                self._open[connection] = _Opened(server, asyncio.get_running_loop())

    def refusal(self, where: str, server: PrimaryServer) -> str:
        """Return why a former primary is not used, and what to do."""
        newest = self._newest
        assert newest is not None, "without one no server is a former primary"
        copy = f" If this older copy is to be the ledger from now on, remove {self._file}." if self._file else ""
        return (f"the server at {where} is a former primary (timeline {server.timeline}, and the ledger went on at "
                f"timeline {newest.timeline}), so nothing is read from it or written to it. Stop it, or make it a "
                f"standby with pg_rewind.{copy}")

    async def connect(self, dsn: str, open_one: Open[C]) -> tuple[C, PrimaryServer | None]:
        """Open a connection to a server that is not a former primary, to another one of the address if necessary.
        Raises FormerPrimary and the driver's exceptions."""
        found, server = await self._opened(open_one, None)
        if server is not None and len(hosts_of(dsn)) > 1:
            try:
                await self._confirm(dsn, open_one)
            except BaseException:
                found.terminate()
                raise
        if not self.is_former(server):
            return found, server
        found.terminate()
        assert server is not None, "a former primary has a timeline"
        for host in hosts_of(dsn):
            with suppress(*LINK_FAULTS, ValueError):
                found, other = await self._opened(open_one, host)
                if other is not None and not self.is_former(other):
                    return found, other
                found.terminate()
        raise FormerPrimary(self.refusal(", ".join(map(str, hosts_of(dsn))) or "this address", server))

    async def _confirm(self, dsn: str, open_one: Open[C]) -> None:
        """Find a primary that was promoted before now, if it answers: no connection may have reached it yet."""
        looks = self._looks.setdefault(asyncio.get_running_loop(), _Looks())
        await looks.after_now(lambda: self.look(dsn, open_one, CONFIRM_TIMEOUT_S, passing_over=self._silent))

    async def _opened(self, open_one: Open[C], host: LedgerHost | None) -> tuple[C, PrimaryServer | None]:
        connection = await open_one(host)
        try:
            server = await server_of(connection)
        except BaseException:
            connection.terminate()
            raise
        self.learn(server)
        return connection, server

    async def look(self, dsn: str, open_one: Open[C], timeout_s: float = LOOK_TIMEOUT_S, *,
                   passing_over: frozenset[LedgerHost | None] = frozenset()) -> None:
        """Query all servers of an address except those to skip, record the newest, and note which others accept
        writes."""
        hosts = [host for host in hosts_of(dsn) or [None] if host not in passing_over]
        found = await asyncio.gather(*(self._looked(open_one, host, timeout_s) for host in hosts))
        self._silent = passing_over | {host for host, one in zip(hosts, found, strict=True) if isinstance(one, _Silent)}
        servers = [one for one in found if isinstance(one, PrimaryServer)]
        for server in sorted(servers, key=lambda one: one.timeline):
            self.learn(server)
        former = [host for host, one in zip(hosts, found, strict=True)
                  if host is not None and isinstance(one, PrimaryServer) and self.is_former(one)]
        if former != self.former:
            self.former = former
            if former:
                log.warning("postgres_former_primary", reason=former_trouble(former))
            else:
                log.info("postgres_former_primary_is_gone")

    async def _looked(self, open_one: Open[C], host: LedgerHost | None, timeout_s: float
                      ) -> PrimaryServer | _Silent | None:
        """Query one server; None for one that is unreachable, or accepts no writes."""
        try:
            async with asyncio.timeout(timeout_s):
                connection = await open_one(host)
                try:
                    return await server_of(connection)
                finally:
                    connection.terminate()
        except TimeoutError:
            return _Silent()
        except (*LINK_FAULTS, ValueError):
            return None


def former_trouble(hosts: list[LedgerHost]) -> str:
    """Return the sentence about former primaries that accept writes."""
    return (f"A former primary of the ledger takes writes at {', '.join(map(str, hosts))}: this gateway asks nothing "
            "of it, but what others write there is lost. Stop it, or make it a standby of the new primary with "
            "pg_rewind.")


class PrimaryWatch:
    """Queries the servers every LOOK_S until it is stopped; without `primaries` never."""

    def __init__(self, primaries: Primaries | None, look: Callable[[], Awaitable[None]]) -> None:
        self._primaries = primaries
        self._look = look
        self._task: asyncio.Task[None] | None = None

    @property
    def trouble(self) -> str | None:
        """Return what is wrong with the servers, in one sentence."""
        former = self._primaries.former if self._primaries is not None else []
        return former_trouble(former) if former else None

    def start(self) -> None:
        """Start the queries."""
        if self._primaries is not None:
            self._task = asyncio.create_task(self._look_on(), name="primary watch")

    async def stop(self) -> None:
        """Stop the queries. May be called again."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _look_on(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self._look()


def _read(file: Path) -> PrimaryServer | None:
    try:
        found = json.loads(file.read_text("utf-8"))
        return PrimaryServer(str(found["system"]), int(found["timeline"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        log.warning("postgres_primary_not_known", file=str(file), reason=str(error))
        return None


def _write(file: Path, server: PrimaryServer) -> None:
    try:
        replace_file(file, json.dumps(server._asdict()).encode())
    except OSError as error:
        log.warning("postgres_primary_not_stored", file=str(file), reason=str(error))
