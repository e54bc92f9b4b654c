"""The asynchronous shell: it sends, reads and sleeps; the flows decide."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx2

from interlock.sdk import exchange as flows
from interlock.sdk.exchange import ConnectionCut, Effect, Flow, HttpReply, RequestSpec, RetryPolicy
from interlock.sdk.multiplexer import Seen, Watched, watching
from interlock.sdk.place import KeySource, SocketPlace, cut_of, fresh_key, place, reply_of, unopened

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

T = TypeVar("T")


class AsyncLink:
    """A gateway's address and the HTTP client for it."""

    def __init__(self, url: str | None, key: str | KeySource | None, retries: RetryPolicy, *, in_clear: bool,
                 tls: ssl.SSLContext | bool, transport: httpx2.AsyncBaseTransport | None,
                 sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
                 clock: Callable[[], float] = time.monotonic,
                 answer_timeout_s: float = flows.ANSWER_TIMEOUT_S) -> None:
        self._sleep = sleep
        self._clock = clock
        self._place = place(url, key, in_clear=in_clear)
        self.retries = retries
        self._tls = tls
        self._http = httpx2.AsyncClient(
            timeout=httpx2.Timeout(answer_timeout_s, connect=flows.CONNECT_TIMEOUT_S),
            verify=self._place.certificates(tls),
            # A proxy in the environment is for other hosts, never for this machine.
            trust_env=not self._place.is_local, transport=transport,
        )

    async def close(self) -> None:
        """Close its connections."""
        await self._http.aclose()

    def move_to(self, url: str) -> None:
        """Send later requests to this URL: the same gateway, started again elsewhere."""
        self._place = self._place._replace(url=url)

    async def answer(self, ask: RequestSpec[T]) -> T:
        """Send one request, and retry it as long as that is safe. Raises InterlockError."""
        return await self.drive(flows.exchange(ask.with_key(fresh_key()), self.retries))

    async def drive(self, flow: Flow[T]) -> T:
        """Perform a flow's effects until it has its result. Raises InterlockError."""
        came: Any = None
        while True:
            try:
                effect = flow.send(came)
            except StopIteration as over:
                return over.value
            came = await self._done(effect, None)

    async def stream(self, flow: Flow[None]) -> AsyncGenerator[Any]:
        """Perform a flow's effects, and yield its items. Raises InterlockError."""
        opened = _Opened()
        came: Any = None
        try:
            while True:
                try:
                    effect = flow.send(came)
                except StopIteration:
                    return
                came = None
                if isinstance(effect, flows.Give):
                    yield effect.item
                else:
                    came = await self._done(effect, opened)
        finally:
            flow.close()
            await opened.close()

    async def _done(self, effect: Effect, opened: _Opened | None) -> Any:
        match effect:
            case flows.Send(ask):
                return await self._send(ask)
            case flows.Open(ask) if opened is not None:
                return await self._open(ask, opened)
            case flows.ReadMore() if opened is not None:
                return await opened.read()
            case flows.Connect(path) if opened is not None:
                return await opened.connect(self._place.socket(path, self._tls, await self._credential()))
            case flows.SendMessage(text) if opened is not None:
                return await opened.say(text)
            case flows.ReceiveMessage(seconds) if opened is not None:
                return await opened.receive(seconds)
            case flows.Rest(seconds):
                await self._sleep(seconds)
                return None
            case flows.Now():
                return self._clock()
            case flows.Call(function, argument):
                result = function(argument)
                return await cast("Awaitable[Any]", result) if isinstance(result, Awaitable) else result
            case _:
                raise AssertionError(f"{effect} has no place here")

    async def _credential(self) -> str:
        """Return the credential of the next request; a source that may call an issuer runs in a thread."""
        key = self._place.key
        return key if isinstance(key, str) else await asyncio.to_thread(key)

    async def _request(self, ask: RequestSpec[Any]) -> httpx2.Request:
        headers = ask.headers(await self._credential())
        content = _pieces(ask.file) if ask.file is not None else ask.body
        return self._http.build_request(ask.method, self._place.url + ask.path, params=ask.query or None,
                                        content=content, headers=headers)

    async def _send(self, ask: RequestSpec[Any]) -> HttpReply | ConnectionCut:
        try:
            return reply_of(await self._http.send(await self._request(ask)))
        except httpx2.RequestError as error:
            return cut_of(error)

    async def _open(self, ask: RequestSpec[Any], opened: _Opened) -> HttpReply | ConnectionCut:
        await opened.close()
        request = await self._request(ask)
        request.extensions["timeout"] = httpx2.Timeout(
            flows.STREAM_SILENCE_S, connect=flows.CONNECT_TIMEOUT_S).as_dict()
        try:
            response = await self._http.send(request, stream=True)
            if response.status_code != 200:
                try:
                    await response.aread()
                    return reply_of(response)
                finally:
                    await response.aclose()
        except httpx2.RequestError as error:
            return cut_of(error)
        opened.take(response)
        return HttpReply(200, b"")


class _Opened:
    """The response that a stream is reading."""

    def __init__(self) -> None:
        self._response: httpx2.Response | None = None
        self._chunks: Any = None
        self._socket: ClientConnection | None = None
        self._closing = AsyncExitStack()

    def take(self, response: httpx2.Response) -> None:
        self._response, self._chunks = response, response.aiter_bytes()

    async def read(self) -> bytes | ConnectionCut:
        try:
            return await anext(self._chunks, b"")
        except httpx2.RequestError as error:
            return cut_of(error)

    async def close(self) -> None:
        if self._response is not None:
            await self._response.aclose()
            self._response = None
        if self._socket is not None:
            await self._closing.aclose()
            self._socket = None

    async def connect(self, wanted: SocketPlace) -> HttpReply | ConnectionCut:
        from websockets.asyncio.client import connect

        await self.close()
        try:
            self._socket = await self._closing.enter_async_context(connect(wanted.url, **wanted.options))
        except Exception as error:  # noqa: BLE001 - what a failed opening raises is many things, and none of ours
            return unopened(error)
        return HttpReply(101, b"")

    async def say(self, text: str) -> ConnectionCut | None:
        from websockets.exceptions import ConnectionClosed

        assert self._socket is not None
        try:
            await self._socket.send(text)
        except ConnectionClosed as closed:
            return ConnectionCut(str(closed))
        return None

    async def receive(self, seconds: float) -> str | ConnectionCut | None:
        from websockets.exceptions import ConnectionClosed

        assert self._socket is not None
        try:
            async with asyncio.timeout(seconds):
                return await self._socket.recv(decode=True)
        except TimeoutError:
            return None
        except ConnectionClosed as closed:
            return ConnectionCut(str(closed))


async def _pieces(file: Path) -> AsyncIterator[bytes]:
    opened = await asyncio.to_thread(file.open, "rb")
    with opened:
        while piece := await asyncio.to_thread(opened.read, flows.UPLOAD_BYTES):
            yield piece


class AsyncWatch(Watched):
    """Streams over one connection that reconnects by itself: select streams, then read them with `async for`. A later
    iteration continues after what was yielded."""

    def __init__(self, link: AsyncLink) -> None:
        super().__init__()
        self._link = link

    def __aiter__(self) -> AsyncGenerator[Seen]:
        return self._link.stream(watching(self, self._link.retries))
