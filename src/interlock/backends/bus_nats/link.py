"""The connection to NATS: it is reopened indefinitely, with every subscription."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, cast

import nats.errors
import structlog
from nats.aio.client import Client

from interlock.backends.bus_nats.places import InClear, NatsServers
from interlock.ports.bus import BusError

RECONNECT_WAIT_S = 0.25
CONNECT_TIMEOUT_S = 2
PING_INTERVAL_S = 2
"""A server that has not answered two pings is unreachable: the connection is reopened, maybe to another."""
FLUSH_TIMEOUT_S = 5
CLOSE_TIMEOUT_S = 0.5
"""The library closes the socket, and then waits for its end: after a failed TLS handshake forever."""
WAITING_BYTES = 64 * 1024 * 1024
"""Messages that wait for one subscriber, in bytes; beyond it the newest are dropped and a gap is reported."""
WAITING_NOTES = 65_536

log = structlog.get_logger("interlock.bus")


class NatsMessage(Protocol):
    """A received message."""

    subject: str
    reply: str
    data: bytes
    headers: dict[str, str] | None


MessageHandler = Callable[[NatsMessage], Awaitable[None]]


class NatsSubscription:
    """A subscription that outlives connections. `queue` names a group of which one member receives each message."""

    def __init__(self, subject: str, handle: MessageHandler, queue: str = "") -> None:
        self.subject = subject
        self.handle = handle
        self.queue = queue
        self.client: Client | None = None
        """The client that has it; a client that reconnects by itself keeps it."""
        self.at_server: Any = None


class _Strict(Client):
    """The library's client, without two of its behaviours. It continues unencrypted if a server does not require TLS,
    whatever its address contains: then every credential is readable on the network. And it ignores a cancel while a
    blocked server accepts no bytes: the cancelled task continues, and a caller that waits for its end waits forever."""

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self.options.get("tls") is not None and not info.get("tls_required"):
            raise InClear
        await super()._process_info(info, initial_connection)

    async def _flush_pending(self, force_flush: bool = False) -> Any:
        task = asyncio.current_task()
        before = task.cancelling() if task is not None else 0
        written = await super()._flush_pending(force_flush)
        if task is not None and task.cancelling() > before:
            raise asyncio.CancelledError
        return written


class NatsLink:
    """A client that is replaced when it gives up. `gap` is called after each possible loss of messages; `missed` when a
    subscriber dropped a message; `lost` when the connection breaks."""

    def __init__(self, places: NatsServers, name: str, gap: Callable[[], None], missed: Callable[[], None],
                 lost: Callable[[], None]) -> None:
        self._places = places
        self._name = name
        self._gap = gap
        self._missed = missed
        self._lost = lost
        self._client: Client | None = None
        self._subscriptions = set[NatsSubscription]()
        self._gave_up = asyncio.Event()
        self._closed = False
        self._task: asyncio.Task[None] | None = None
        self._warned = False
        self._refusal: str | None = None

    async def open(self) -> None:
        """Connect; if no server is reachable now, keep trying, and return. Raises BusError if a server refuses this
        gateway, or is not to be trusted."""
        first = asyncio.Event()
        self._task = asyncio.create_task(self._keep(first), name="bus")
        await first.wait()
        if self._refusal is not None:
            await self.close()
            raise BusError(self._refusal)

    @property
    def client(self) -> Client | None:
        """Return the client, if messages can be sent now."""
        client = self._client
        return client if client is not None and client.is_connected else None

    async def add(self, subscription: NatsSubscription) -> None:
        """Subscribe from now on; if the connection is down, from when it is back."""
        self._subscriptions.add(subscription)
        client = self.client
        if client is not None:
            with suppress(nats.errors.Error, OSError):  # A link that breaks now is made again, with this subscription.
                await self._subscribe(client, subscription)
                await _flush(client)

    async def drop(self, subscription: NatsSubscription) -> None:
        """End a subscription."""
        self._subscriptions.discard(subscription)
        sub, subscription.at_server = subscription.at_server, None
        if sub is not None:
            with suppress(nats.errors.Error, OSError):
                await sub.unsubscribe()  # Also while the connection is down: the library would subscribe again with it.
                if self.client is not None:
                    await _flush(self.client)

    async def close(self) -> None:
        """Close the connection. May be called again."""
        self._closed = True
        self._gave_up.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            self._task = None
        if self._client is not None:
            await _close(self._client)
            self._client = None

    async def _keep(self, first: asyncio.Event) -> None:
        while not self._closed:
            self._gave_up.clear()
            client = _Strict()
            try:
                await self._connect(client)
            except asyncio.CancelledError:
                await _close(client)
                raise
            except Exception as error:  # noqa: BLE001 - a link that ended here would be away for ever
                self._refusal = self._places.refusal(error)
                self._warn(error)
                await _close(client)
                first.set()
                await asyncio.sleep(RECONNECT_WAIT_S)
                continue
            again, self._client = self._client is not None or first.is_set(), client
            self._warned, self._refusal = False, None
            await self._listen_all(client)
            first.set()
            if again:
                self._gap()
            await self._gave_up.wait()

    async def _connect(self, client: Client) -> None:
        async def closed() -> None:
            self._gave_up.set()

        async def disconnected() -> None:
            self._lost()
            if not self._closed:
                log.warning("bus_is_away", servers=self._places.shown())

        async def reconnected() -> None:
            self._warned = False
            log.info("bus_is_back", servers=self._places.shown())
            await self._listen_all(client)
            self._gap()

        async def failed(error: Exception) -> None:
            if isinstance(error, nats.errors.SlowConsumerError):
                self._missed()
                return
            self._warn(error)
            if not client.is_connected:
                _socket_of(client)()

        # Few attempts here, so that this task reports the error; after the first success the library retries forever.
        await client.connect(
            **self._places.options(), name=self._name, allow_reconnect=False, connect_timeout=CONNECT_TIMEOUT_S,
            reconnect_time_wait=cast("int", RECONNECT_WAIT_S), max_reconnect_attempts=1,
            ping_interval=PING_INTERVAL_S, error_cb=failed, closed_cb=closed, disconnected_cb=disconnected,
            reconnected_cb=reconnected)
        client.options.update(allow_reconnect=True, max_reconnect_attempts=-1)

    async def _listen_all(self, client: Client) -> None:
        """Subscribe what this client lacks: all if it is new, otherwise what was added while the connection was
        down."""
        with suppress(nats.errors.Error, OSError):  # A connection that breaks now returns here.
            missed = [one for one in self._subscriptions if one.client is not client]
            for subscription in missed:
                await self._subscribe(client, subscription)
            if missed:
                await _flush(client)

    async def _subscribe(self, client: Client, subscription: NatsSubscription) -> None:
        if subscription.client is client:
            return
        subscription.client = client
        subscribe = cast("Callable[..., Awaitable[Any]]", getattr(client, "subscribe"))  # noqa: B009 - half its types
        try:
            sub = await subscribe(subscription.subject, subscription.queue, cb=subscription.handle,
                                  pending_msgs_limit=WAITING_NOTES, pending_bytes_limit=WAITING_BYTES)
        except BaseException:
            subscription.client = None
            raise
        subscription.at_server = sub
        if subscription not in self._subscriptions:  # It was dropped meanwhile.
            await self.drop(subscription)

    def _warn(self, error: Exception) -> None:
        """Log an error once, until it has been resolved."""
        if not self._warned and not self._closed:
            self._warned = True
            log.warning("bus_cannot_be_reached", servers=self._places.shown(), reason=self._places.reason(error))


async def _flush(client: Client) -> None:
    """Return when the server has received everything written. The library's own ping overtakes what waits to be
    written, so its first answer only means that this was written, and the second that it has arrived."""
    for _ in range(2):
        await ping(client)


async def ping(client: Client) -> None:
    """Return when the server has answered, within FLUSH_TIMEOUT_S. Raises nats.errors.Error, OSError.

    The caller may be cancelled, the flush may not: the library breaks the link when the answer to a cancelled flush
    comes.
    """
    flush = asyncio.ensure_future(client.flush(FLUSH_TIMEOUT_S))
    flush.add_done_callback(lambda done: done.cancelled() or done.exception())  # It may fail after its caller is gone.
    await asyncio.shield(flush)


async def _close(client: Client) -> None:
    """Close a client permanently."""
    abandon = _socket_of(client)
    try:
        with suppress(nats.errors.Error, OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_S):
                await client.close()
    finally:
        abandon()


def _socket_of(client: Client) -> Callable[[], None]:
    """Return the function that closes the client's current socket: after a failed attempt the library abandons it
    open."""
    transport: Any = getattr(client, "_transport", None)

    def abandon() -> None:
        for name in ("_io_writer", "_bare_io_writer"):
            writer: Any = getattr(transport, name, None)
            if writer is not None:
                writer.transport.abort()

    return abandon
