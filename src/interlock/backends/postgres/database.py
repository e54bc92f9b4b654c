"""Connections to PostgreSQL: the part of asyncpg that the stores use, its settings, and waiting for a restart."""

from __future__ import annotations

import asyncio
import random
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol, TypeVar, cast

import asyncpg

from interlock.backends.postgres.faults import (
    LINK_FAULTS,
    FormerPrimary,
    NotReached,
    PostgresClosed,
    is_away,
    translate,
)
from interlock.backends.postgres.primaries import LedgerHost, Primaries
from interlock.backends.postgres.texts import decoded, encoded
from interlock.ports import trips
from interlock.ports.trips import one_trip

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
STATEMENT_TIMEOUT_MS = 15_000
"""The server ends a longer statement of the writer, and its transaction with it."""
IDLE_TIMEOUT_MS = 2_000
"""The server ends a transaction that is idle for longer, such as that of a suspended gateway: its locks block others no
longer."""
CALL_TIMEOUT_S = 20.0
"""A server that has not answered by then is considered unreachable: the connection is discarded."""
WAIT_FOR_SERVER_S = 30.0
"""Timeout of a request that is made while the server is unreachable."""
RETRY_MIN_S = 0.05
RETRY_MAX_S = 1.0
READ_CONNECTIONS = 4
"""Parallel reads; a further one waits."""
LANE_CONNECTIONS = 3
"""Parallel reads of many lanes, after a gateway has died or a runner attaches: they do not wait for other requests."""

WANTS_WRITES = re.compile(r"[?&]target_session_attrs=(read-write|primary)\b")
PROMOTE = " One of its hosts must take writes: promote the standby if the primary is gone."

Row = tuple[Any, ...]
"""Rows as asyncpg's records behave, and as `Readers` returns them."""
_Asked = tuple[str, tuple[Any, ...]]


class PostgresConnection(Protocol):
    """A connection. Every call may raise `LINK_FAULTS`."""

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str: ...

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> list[Row]: ...

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Row | None: ...

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any: ...

    def is_closed(self) -> bool: ...

    async def close(self, *, timeout: float | None = None) -> None: ...

    def terminate(self) -> None: ...


class PostgresSettings(NamedTuple):
    """How PostgreSQL is reached. `dsn` is a URL in libpq's syntax, including several hosts, TLS and a password file."""

    dsn: str
    pooled: bool = False
    """Behind a connection pool that uses another connection for each transaction (pgbouncer): nothing is prepared."""
    primaries: Primaries | None = None
    """The knowledge of the named servers; without it a former primary is not detected."""


_open = cast("Callable[..., Awaitable[PostgresConnection]]", getattr(asyncpg, "connect"))  # noqa: B009 - it has no types


def read_settings(text: str) -> PostgresSettings:
    """Parse an address: libpq's syntax, and `pooled=1` for a server behind a connection pool (pgbouncer)."""
    address, mark, query = text.partition("?")
    options = query.split("&") if mark else []
    rest = [one for one in options if one.partition("=")[0] != "pooled"]
    return PostgresSettings(address + ("?" + "&".join(rest) if rest else ""), pooled="pooled=1" in options)


async def connect(settings: PostgresSettings) -> PostgresConnection:
    """Open a connection, once, and not to a known former primary. Raises asyncpg's exceptions, and FormerPrimary."""
    if settings.primaries is None:
        return CountedConnection(await _opened(settings, None))
    opened, server = await settings.primaries.connect(settings.dsn, lambda host: _opened(settings, host))
    connection = CountedConnection(opened)
    settings.primaries.opened(connection, server)
    return connection


async def look_at_primaries(settings: PostgresSettings) -> None:
    """Query all servers of the address, so that the newest of them is known."""
    if settings.primaries is not None:
        await settings.primaries.look(settings.dsn, lambda host: _opened(settings, host))


async def _opened(settings: PostgresSettings, host: LedgerHost | None) -> PostgresConnection:
    one = {} if host is None else {"host": host.name, "port": host.port}
    return await _open(settings.dsn, timeout=CONNECT_TIMEOUT_S, command_timeout=CALL_TIMEOUT_S,
                       statement_cache_size=0 if settings.pooled else 256, **one)


class CountedConnection:
    """A connection that counts its round trips for the operation that waits for them (`ports.trips`).

    A call is one, although the driver makes two for the first call of each statement on a connection, which prepares
    it.
    """

    __slots__ = ("__weakref__", "_connection")

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection

    async def execute(self, query: str, *args: Any, timeout: float | None = None) -> str:
        """Run a statement, or several without arguments; returns the last one's tag."""
        with one_trip():
            return await self._connection.execute(query, *args, timeout=timeout)

    async def fetch(self, query: str, *args: Any, timeout: float | None = None) -> list[Row]:
        """Run a query; returns its rows."""
        with one_trip():
            return await self._connection.fetch(query, *args, timeout=timeout)

    async def fetchrow(self, query: str, *args: Any, timeout: float | None = None) -> Row | None:
        """Run a query; returns its first row."""
        with one_trip():
            return await self._connection.fetchrow(query, *args, timeout=timeout)

    async def fetchval(self, query: str, *args: Any, timeout: float | None = None) -> Any:
        """Run a query; returns the first value of its first row."""
        with one_trip():
            return await self._connection.fetchval(query, *args, timeout=timeout)

    async def copy_records_to_table(self, table_name: str, **how: Any) -> str:
        """Write rows as one stream; `how` as asyncpg takes it."""
        with one_trip():
            return await cast("Any", self._connection).copy_records_to_table(table_name, **how)

    def cursor(self, query: str, *args: Any, **how: Any) -> Any:
        """Return asyncpg's cursor; its fetches are not counted, since no operation of the API uses one."""
        return cast("Any", self._connection).cursor(query, *args, **how)

    def is_closed(self) -> bool:
        """Return whether the connection has ended."""
        return self._connection.is_closed()

    async def close(self, *, timeout: float | None = None) -> None:
        """End the connection in order."""
        await self._connection.close(timeout=timeout)

    def terminate(self) -> None:
        """End the connection at once."""
        self._connection.terminate()


async def retrying(attempt: Callable[[], Awaitable[T]]) -> T:
    """Retry until the server is reachable, for at most WAIT_FOR_SERVER_S. Raises LedgerError."""
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + WAIT_FOR_SERVER_S
    delay_s = RETRY_MIN_S
    while True:
        try:
            return await attempt()
        except Exception as error:
            if not is_away(error) or loop.time() + delay_s > deadline_s:
                raise translate(error) from error
        # Not all gateways at the same instant, when the server is back.
        await asyncio.sleep(delay_s * random.uniform(0.5, 1.0))
        delay_s = min(2 * delay_s, RETRY_MAX_S)


class PostgresReaders:
    """A few connections for reading. A read sees every commit that had returned when it was called.

    While all of them are busy, equal reads that have not been sent yet are merged.
    """

    def __init__(self, settings: PostgresSettings, connections: int = READ_CONNECTIONS) -> None:
        self._settings = settings
        self._connections = connections
        self._free: list[PostgresConnection] = []
        self._room = asyncio.Semaphore(connections)
        self._closed = False
        self._unsent: dict[_Asked, asyncio.Task[list[Row]]] = {}
        self._shared: set[asyncio.Task[list[Row]]] = set()

    async def rows(self, sql: str, *values: Any) -> list[Row]:
        """Run a query; returns its rows. Raises LedgerError."""
        waits = trips.CURRENT.get()
        if waits is None:
            return await self._read(sql, values)
        # Counted from the call on: parallel reads are one in a row, also if one of them waits for a connection.
        begun_at = waits.in_a_row
        with trips.counting() as spent:
            found = await self._read(sql, values)
        waits.ended(begun_at, spent)
        return found

    async def row(self, sql: str, *values: Any) -> Row | None:
        """Run a query; returns its first row, or None."""
        found = await self.rows(sql, *values)
        return found[0] if found else None

    async def close(self) -> None:
        """Finish the reads under way, then close. May be called again."""
        self._closed = True
        for _ in range(self._connections):
            await self._room.acquire()
        while self._free:
            await close_quietly(self._free.pop())
        for _ in range(self._connections):
            self._room.release()
        await asyncio.gather(*self._shared, return_exceptions=True)

    async def _read(self, sql: str, values: tuple[Any, ...]) -> list[Row]:
        if not self._room.locked() or any(isinstance(one, list) for one in values):
            return await retrying(lambda: self._once(sql, values))
        query = (sql, values)
        if (shared := self._unsent.get(query)) is not None:
            with one_trip():
                return list(await asyncio.shield(shared))
        reading = retrying(lambda: self._once(sql, values, query))
        shared = self._unsent[query] = asyncio.create_task(reading, name="a read")
        self._shared.add(shared)
        shared.add_done_callback(self._has_read)
        return list(await asyncio.shield(shared))

    def _has_read(self, shared: asyncio.Task[list[Row]]) -> None:
        self._shared.discard(shared)
        if not shared.cancelled():
            shared.exception()  # The waiter may have been cancelled.

    async def _once(self, sql: str, values: tuple[Any, ...], pending: _Asked | None = None) -> list[Row]:
        async with self._room:
            if pending is not None:
                self._unsent.pop(pending, None)  # A later caller may have seen a newer commit.
            if self._closed:
                raise PostgresClosed("The ledger is closed.")
            connection = self._free.pop() if self._free else await connect(self._settings)
            if connection.is_closed():
                self._drop_idle()
                connection = await connect(self._settings)
            try:
                found = await connection.fetch(sql, *(encoded(one) if isinstance(one, str) else one for one in values))
            except asyncpg.PostgresError as error:
                if is_away(error):
                    connection.terminate()
                else:
                    self._free.append(connection)
                raise
            except BaseException:
                # What it would still receive is unknown.
                connection.terminate()
                raise
            self._free.append(connection)
            return [tuple(decoded(one) if isinstance(one, str) else one for one in row) for row in found]

    def _drop_idle(self) -> None:
        """Drop the idle connections: the server closed one of them, so the others are broken, too."""
        for one in self._free:
            one.terminate()
        self._free.clear()


async def close_quietly(connection: PostgresConnection) -> None:
    """Close a connection cleanly if the server is reachable."""
    try:
        await connection.close(timeout=2.0)
    except LINK_FAULTS:
        connection.terminate()


async def first_connection(settings: PostgresSettings) -> PostgresConnection:
    """Open a connection at the start: a wrong address or password is reported at once, in one sentence. Raises
    LedgerError."""
    await look_at_primaries(settings)
    try:
        return await connect(settings)
    except (*LINK_FAULTS, ValueError) as error:
        promote = PROMOTE if WANTS_WRITES.search(settings.dsn) else ""
        raise NotReached(f"PostgreSQL cannot be reached at {shown(settings.dsn)}: {_reason(error)}{promote}") from error


def shown(dsn: str) -> str:
    """Return an address without its password and without what follows `?`, which may contain one."""
    scheme, _, rest = dsn.partition("?")[0].rpartition("://")
    who, at, where = rest.rpartition("@")
    return f"{scheme or 'postgresql'}://{who.partition(':')[0]}{at}{where}"


def _reason(error: Exception) -> str:
    """Return the error and its remedy, in a sentence."""
    text = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    match error:
        case FormerPrimary():
            return str(error)
        case ssl.SSLCertVerificationError():
            return (f"its certificate is not trusted ({error.verify_message.rstrip('.')}). Name its authority with "
                    "sslrootcert=FILE, and the server as its certificate does.")
        case ssl.SSLError():
            return f"TLS with it fails ({error.reason or text}). Look at sslmode, sslrootcert, sslcert and sslkey."
        case ConnectionError() if "rejected SSL" in text:
            return "it does not speak TLS, and sslmode asks for it. Switch it on there (`ssl = on`)."
        case FileNotFoundError():  # Of the socket, or of a certificate: neither is named.
            return f"{text}. Check its address, and the files that sslrootcert, sslcert and sslkey name."
        case asyncpg.TargetServerAttributeNotMatched():
            return "each of its hosts is read-only."
        case asyncpg.InvalidAuthorizationSpecificationError():
            return f"{text}. Check the user and the password (PGPASSWORD, PGPASSFILE, or in the address)."
        case _:
            return f"{text}. Check its address, and that the server runs."
