"""The only way out of a boxed agent's network: a proxy in the runner that allows hosts by name (H-19).

The agent's process sends its loopback listeners to the runner before it becomes the agent (`box.loopback`); the runner
accepts there and connects out. HTTP's CONNECT is answered for allowed hosts only, a TLS ClientHello must name the same
host, and a name that resolves to a private address is refused: the connection goes to the address that was checked.
Nothing is decrypted. The proxy ends with the agent's process.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import structlog

from interlock.box.client_hello import MAX_HELLO_BYTES, NotTls, server_name
from interlock.box.reach import PROXY_PORT, Endpoint, Reach, may_connect, normal

MAX_HEAD_BYTES = 16 * 1024
MAX_CONNECTIONS = 128
"""Simultaneous connections of one process of an agent; more are refused."""
HEAD_TIMEOUT_S = 15.0
"""Limit for a request's head, and for the ClientHello after it."""
CONNECT_TIMEOUT_S = 20.0
IDLE_TIMEOUT_S = 900.0
"""A connection that is idle in both directions is closed after one to two times this; models think for minutes."""
MAX_ADDRESSES = 4
"""Addresses of a name that are tried."""
PUMP_BYTES = 64 * 1024
MAX_REPORTS = 20
"""Refused hosts that are reported per opening, each once."""
MAX_NAMED_CHARS = 200

Report = Callable[[str], Awaitable[None]]
"""Report a refusal to the session, in one sentence."""
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
log = structlog.get_logger()


class ConnectionRefused(Exception):
    """A connection was refused. `status` is HTTP's; the text is one sentence."""

    def __init__(self, status: str, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


class ProxyRequest(NamedTuple):
    """A request to the proxy. `head` is sent to the host first: empty for a tunnel."""

    host: str
    port: int
    tunnel: bool
    head: bytes = b""


def parse(head: bytes) -> ProxyRequest:
    """Parse a request's head, up to its empty line. Raises ConnectionRefused."""
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ConnectionRefused("400 Bad Request", "This is not an HTTP/1.1 request.")
    method, target, _ = words
    if method == "CONNECT":
        named, colon, number = target.rpartition(":")
        host = normal(named)
        if not colon or host is None or not number.isdecimal() or not 0 < int(number) < 65_536:
            raise ConnectionRefused("400 Bad Request", f"CONNECT needs host:port, not {target[:MAX_NAMED_CHARS]!r}.")
        return ProxyRequest(host, int(number), tunnel=True)
    try:
        parts = urlsplit(target)
        host, port = normal(parts.hostname or ""), parts.port or 80
    except ValueError:
        host, port, parts = None, 0, urlsplit("")
    if parts.scheme != "http" or host is None:
        raise ConnectionRefused("400 Bad Request", "This proxy accepts CONNECT, and requests with a whole http URL.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    kept = [line for line in lines if line and line.partition(":")[0].strip().lower() not in (
        "host", "connection", "proxy-connection", "proxy-authorization", "keep-alive")]
    rewritten = [f"{method} {path} HTTP/1.1", f"Host: {parts.netloc.rpartition('@')[2]}", "Connection: close", *kept]
    return ProxyRequest(host, port, tunnel=False, head="\r\n".join((*rewritten, "", "")).encode("latin-1"))


async def resolved(host: str, port: int) -> Sequence[str]:
    """Return the addresses of a host, by this machine's resolver. Raises OSError."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class Outlet:
    """The hosts that one opening may reach, and those refused so far. Each of its processes has ProcessConnections."""

    def __init__(self, reach: Reach, report: Report, resolve: Resolve = resolved) -> None:
        self.reach = reach
        self._report = report
        self._resolve = resolve
        self._reported: set[str] = set()

    async def open(self, listeners: Sequence[tuple[int, socket.socket]]) -> ProcessConnections:
        """Serve the listeners of a process, each with its port, until the result is closed."""
        opened = ProcessConnections(self)
        for port, listener in listeners:
            listener.setblocking(False)
            local = [one for one in self.reach.local if one.port == port]
            await opened.serve(listener, local[0] if local and port != PROXY_PORT else None)
        return opened

    async def connect(self, host: str, port: int, endpoint: Endpoint | None
                      ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to an allowed host, at an address that was checked. Raises ConnectionRefused."""
        if endpoint is None:
            raise ConnectionRefused("403 Forbidden", f"{host}:{port} is not among the hosts that this agent may reach: "
                                    f"{str(self.reach)[:1_000] or 'none'}.")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                addresses = await self._resolve(host, port)
                allowed = [address for address in addresses if may_connect(endpoint, address)]
                if addresses and not allowed:
                    raise ConnectionRefused("403 Forbidden",
                                            f"{host} leads to an address of a private network, which this agent "
                                            "may not reach.")
                return await _first(allowed[:MAX_ADDRESSES], port)
        except TimeoutError:
            raise ConnectionRefused("504 Gateway Timeout", f"{host}:{port} did not answer in {CONNECT_TIMEOUT_S:.0f} s."
                                    ) from None
        except OSError as error:
            raise ConnectionRefused("502 Bad Gateway",
                                    f"{host}:{port} cannot be reached: {error.strerror or error}.") from None

    async def report(self, about: str, sentence: str) -> None:
        """Report a refusal to the session, once for each host and at most MAX_REPORTS of them."""
        if about in self._reported or len(self._reported) > MAX_REPORTS:
            return
        self._reported.add(about)
        if len(self._reported) > MAX_REPORTS:
            sentence = f"More than {MAX_REPORTS} hosts were refused to the agent; further ones are not reported."
        await self._report(sentence)


class ProcessConnections:
    """The connections of one process."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._servers: list[asyncio.Server] = []
        self._running: set[asyncio.Task[None]] = set()

    async def serve(self, listener: socket.socket, endpoint: Endpoint | None) -> None:
        """Accept connections as a proxy, or for one model on the runner's loopback."""

        def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            work = self._proxy(reader, writer) if endpoint is None else self._forward(reader, writer, endpoint)
            task = asyncio.create_task(self._guarded(work, writer))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

        self._servers.append(await asyncio.start_server(accepted, sock=listener, limit=MAX_HEAD_BYTES))

    async def close(self) -> None:
        """End every connection and listener."""
        for server in self._servers:
            server.close()
        running = [*self._running]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _guarded(self, work: Coroutine[Any, Any, None], writer: asyncio.StreamWriter) -> None:
        try:
            if len(self._running) > MAX_CONNECTIONS:
                work.close()
                writer.write(_answer("503 Service Unavailable", f"More than {MAX_CONNECTIONS} connections at once."))
            else:
                await work
        except ConnectionRefused as refused:
            writer.write(_answer(refused.status, str(refused)))
        except (OSError, EOFError, TimeoutError, asyncio.LimitOverrunError):
            pass  # The other side went away, or sent no head in time.
        finally:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(HEAD_TIMEOUT_S):
                    await writer.drain()
            writer.close()

    async def _proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            target = parse(await reader.readuntil(b"\r\n\r\n"))
        endpoint = self._outlet.reach.find(target.host, target.port)
        about = f"{target.host}:{target.port}"
        try:
            if endpoint is not None and endpoint.tls and not target.tunnel:
                raise ConnectionRefused("403 Forbidden", f"{about} is reached by TLS alone.")
            there, back = await self._outlet.connect(target.host, target.port, endpoint)
        except ConnectionRefused as refused:
            if refused.status.startswith("403"):
                await self._outlet.report(about, f"The agent's box refused a connection: {refused}")
            raise
        assert endpoint is not None
        with _closing(back):
            if target.tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                first = await self._checked_hello(reader, target.host) if endpoint.tls else b""
            else:
                first = target.head
            if first is None:
                await self._outlet.report(about, f"The agent's box cut a connection to {about}: its TLS names another "
                                          "host, or it is not TLS.")
                return
            back.write(first)
            await _join(reader, writer, there, back)

    async def _checked_hello(self, reader: asyncio.StreamReader, host: str) -> bytes | None:
        """Read a tunnel's ClientHello; None if it does not name the tunnel's host."""
        data = b""
        async with asyncio.timeout(HEAD_TIMEOUT_S):
            while len(data) <= 2 * MAX_HELLO_BYTES:
                piece = await reader.read(PUMP_BYTES)
                if not piece:
                    return None
                data += piece
                try:
                    name = server_name(data)
                except NotTls:
                    return None
                if name is not None:
                    return data if normal(name) == host else None
        return None

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, endpoint: Endpoint) -> None:
        try:
            there, back = await self._outlet.connect(endpoint.host, endpoint.port, endpoint)
        except ConnectionRefused:
            return  # A closed port looks the same without a box.
        with _closing(back):
            await _join(reader, writer, there, back)


def _answer(status: str, sentence: str) -> bytes:
    body = f"Interlock: {sentence}\n".encode()
    return (f"HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\n"
            "Connection: close\r\n\r\n").encode() + body


async def _first(addresses: Sequence[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    failure: OSError = OSError("its name has no address")
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port)
        except OSError as error:
            failure = error
    raise failure


@contextlib.contextmanager
def _closing(writer: asyncio.StreamWriter) -> Any:
    try:
        yield
    finally:
        writer.close()


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, there: asyncio.StreamReader,
                back: asyncio.StreamWriter) -> None:
    """Copy bytes both ways until both sides have ended, one has failed, or both are idle."""
    moved = asyncio.get_running_loop().time()

    async def carry(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        nonlocal moved
        loop = asyncio.get_running_loop()
        while data := await source.read(PUMP_BYTES):
            moved = loop.time()
            sink.write(data)
            await sink.drain()
            moved = loop.time()
        if sink.can_write_eof():
            sink.write_eof()

    waiting = {asyncio.create_task(carry(reader, back)), asyncio.create_task(carry(there, writer))}
    both = [*waiting]
    try:
        while waiting:
            before = moved
            done, waiting = await asyncio.wait(waiting, timeout=IDLE_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED)
            if any(task.exception() is not None for task in done) or (not done and moved == before):
                return
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


def variables(reach: Reach | None) -> dict[str, str]:
    """Return the variables of a process in its own network, so that its libraries find the proxy; "" for one that it
    must not inherit from the runner."""
    names = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
    proxy = f"http://127.0.0.1:{PROXY_PORT}" if reach is not None and reach.listening else ""
    local = "localhost,127.0.0.1,::1" if proxy else ""
    found = {name: proxy for one in names for name in (one, one.lower())}
    return {**found, "NO_PROXY": local, "no_proxy": local, "NODE_USE_ENV_PROXY": "1" if proxy else ""}
