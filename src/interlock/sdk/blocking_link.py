"""The blocking shell: it sends, reads and sleeps; the flows decide."""

from __future__ import annotations

import ssl
import time
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import httpx2

from interlock.sdk import exchange as flows
from interlock.sdk.exchange import ConnectionCut, Effect, Flow, HttpReply, RequestSpec, RetryPolicy
from interlock.sdk.multiplexer import Seen, Watched, watching
from interlock.sdk.place import KeySource, SocketPlace, cut_of, fresh_key, place, reply_of, unopened

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

T = TypeVar("T")


class BlockingLink:
    """A gateway's address and the HTTP client for it."""

    def __init__(self, url: str | None, key: str | KeySource | None, retries: RetryPolicy, *, in_clear: bool,
                 tls: ssl.SSLContext | bool, transport: httpx2.BaseTransport | None) -> None:
        self._place = place(url, key, in_clear=in_clear)
        self.retries = retries
        self._tls = tls
        self._http = httpx2.Client(
            timeout=httpx2.Timeout(flows.ANSWER_TIMEOUT_S, connect=flows.CONNECT_TIMEOUT_S),
            verify=self._place.certificates(tls),
            # A proxy in the environment is for other hosts, never for this machine.
            trust_env=not self._place.is_local, transport=transport,
        )

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def answer(self, ask: RequestSpec[T]) -> T:
        """Send one request, and retry it as long as that is safe. Raises InterlockError."""
        return self.drive(flows.exchange(ask.with_key(fresh_key()), self.retries))

    def drive(self, flow: Flow[T]) -> T:
        """Perform a flow's effects until it has its result. Raises InterlockError."""
        return flows.driven(flow, lambda effect: self._done(effect, None))

    def stream(self, flow: Flow[None]) -> Generator[Any]:
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
                    came = self._done(effect, opened)
        finally:
            flow.close()
            opened.close()

    def _done(self, effect: Effect, opened: _Opened | None) -> Any:
        match effect:
            case flows.Send(ask):
                return self._send(ask)
            case flows.Open(ask) if opened is not None:
                return self._open(ask, opened)
            case flows.ReadMore() if opened is not None:
                return opened.read()
            case flows.Connect(path) if opened is not None:
                return opened.connect(self._place.socket(path, self._tls, self._place.credential()))
            case flows.SendMessage(text) if opened is not None:
                return opened.say(text)
            case flows.ReceiveMessage(seconds) if opened is not None:
                return opened.receive(seconds)
            case flows.Rest(seconds):
                time.sleep(seconds)
                return None
            case flows.Now():
                return time.monotonic()
            case flows.Call(function, argument):
                return function(argument)
            case _:
                raise AssertionError(f"{effect} has no place here")

    def _request(self, ask: RequestSpec[Any]) -> httpx2.Request:
        content = _pieces(ask.file) if ask.file is not None else ask.body
        return self._http.build_request(ask.method, self._place.url + ask.path, params=ask.query or None,
                                        content=content, headers=ask.headers(self._place.credential()))

    def _send(self, ask: RequestSpec[Any]) -> HttpReply | ConnectionCut:
        try:
            return reply_of(self._http.send(self._request(ask)))
        except httpx2.RequestError as error:
            return cut_of(error)

    def _open(self, ask: RequestSpec[Any], opened: _Opened) -> HttpReply | ConnectionCut:
        opened.close()
        request = self._request(ask)
        request.extensions["timeout"] = httpx2.Timeout(
            flows.STREAM_SILENCE_S, connect=flows.CONNECT_TIMEOUT_S).as_dict()
        try:
            response = self._http.send(request, stream=True)
            if response.status_code != 200:
                try:
                    response.read()
                    return reply_of(response)
                finally:
                    response.close()
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
        self._closing = ExitStack()

    def take(self, response: httpx2.Response) -> None:
        self._response, self._chunks = response, response.iter_bytes()

    def read(self) -> bytes | ConnectionCut:
        try:
            return next(self._chunks, b"")
        except httpx2.RequestError as error:
            return cut_of(error)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None
        if self._socket is not None:
            self._closing.close()
            self._socket = None

    def connect(self, wanted: SocketPlace) -> HttpReply | ConnectionCut:
        from websockets.sync.client import connect

        self.close()
        try:
            opening = cast("AbstractContextManager[ClientConnection]", connect(wanted.url, **wanted.options))
            self._socket = self._closing.enter_context(opening)
        except Exception as error:  # noqa: BLE001 - what a failed opening raises is many things, and none of ours
            return unopened(error)
        return HttpReply(101, b"")

    def say(self, text: str) -> ConnectionCut | None:
        from websockets.exceptions import ConnectionClosed

        assert self._socket is not None
        try:
            self._socket.send(text)
        except ConnectionClosed as closed:
            return ConnectionCut(str(closed))
        return None

    def receive(self, seconds: float) -> str | ConnectionCut | None:
        from websockets.exceptions import ConnectionClosed

        assert self._socket is not None
        try:
            return self._socket.recv(timeout=seconds, decode=True)
        except TimeoutError:
            return None
        except ConnectionClosed as closed:
            return ConnectionCut(str(closed))


def _pieces(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while piece := opened.read(flows.UPLOAD_BYTES):
            yield piece


class BlockingWatch(Watched):
    """Streams over one connection that reconnects by itself: select streams, then read them with `for`. A later
    iteration continues after what was yielded."""

    def __init__(self, link: BlockingLink) -> None:
        super().__init__()
        self._link = link

    def __iter__(self) -> Generator[Seen]:
        return self._link.stream(watching(self, self._link.retries))
