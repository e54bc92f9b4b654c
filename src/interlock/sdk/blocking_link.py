"""The blocking shell: it sends, reads and sleeps; what that leads to is decided in the flows."""

from __future__ import annotations

import functools
import ssl
import time
from collections.abc import Callable, Generator
from typing import Any, Generic, ParamSpec, TypeVar

import httpx2

from interlock.protocol.resources import Command
from interlock.sdk import exchange as flows
from interlock.sdk.exchange import Ask, Cut, Effect, Flow, Manners, Reply
from interlock.sdk.following import Following, Heard, download, follow
from interlock.sdk.paging import Page, every, run
from interlock.sdk.place import fresh_key, place

P = ParamSpec("P")
T = TypeVar("T")


class Link:
    """One gateway, and how to reach it."""

    def __init__(self, url: str | None, key: str | None, manners: Manners, *, in_clear: bool,
                 tls: ssl.SSLContext | bool, transport: httpx2.BaseTransport | None) -> None:
        self._place = place(url, key, in_clear=in_clear)
        self.manners = manners
        self._http = httpx2.Client(
            timeout=httpx2.Timeout(flows.ANSWER_TIMEOUT_S, connect=flows.CONNECT_TIMEOUT_S), verify=tls,
            # A proxy of the environment is for the world, never for this machine.
            trust_env=not self._place.is_local, transport=transport,
        )

    def close(self) -> None:
        """Close its connections."""
        self._http.close()

    def answer(self, ask: Ask[T]) -> T:
        """Send one request, as often as that is safe. Raises InterlockError."""
        return self.drive(flows.exchange(ask.with_key(fresh_key()), self.manners))

    def drive(self, flow: Flow[T]) -> T:
        """Do what a flow wants until it has its result. Raises InterlockError."""
        came: Any = None
        while True:
            try:
                effect = flow.send(came)
            except StopIteration as over:
                return over.value
            came = self._done(effect, None)

    def stream(self, flow: Flow[None]) -> Generator[Any]:
        """Do what a flow wants, and give what it gives. Raises InterlockError."""
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
            case flows.Read() if opened is not None:
                return opened.read()
            case flows.Rest(seconds):
                time.sleep(seconds)
                return None
            case flows.Now():
                return time.monotonic()
            case _:
                raise AssertionError(f"{effect} has no place here")

    def _request(self, ask: Ask[Any]) -> httpx2.Request:
        return self._http.build_request(ask.method, self._place.url + ask.path, params=ask.query or None,
                                        content=ask.body, headers=ask.headers(self._place.key))

    def _send(self, ask: Ask[Any]) -> Reply | Cut:
        try:
            return _reply(self._http.send(self._request(ask)))
        except httpx2.RequestError as error:
            return _cut(error)

    def _open(self, ask: Ask[Any], opened: _Opened) -> Reply | Cut:
        opened.close()
        request = self._request(ask)
        request.extensions["timeout"] = httpx2.Timeout(
            flows.STREAM_SILENCE_S, connect=flows.CONNECT_TIMEOUT_S).as_dict()
        try:
            response = self._http.send(request, stream=True)
            if response.status_code != 200:
                try:
                    response.read()
                    return _reply(response)
                finally:
                    response.close()
        except httpx2.RequestError as error:
            return _cut(error)
        opened.take(response)
        return Reply(200, b"")


class _Opened:
    """The one answer that a stream reads in."""

    def __init__(self) -> None:
        self._response: httpx2.Response | None = None
        self._chunks: Any = None

    def take(self, response: httpx2.Response) -> None:
        self._response, self._chunks = response, response.iter_bytes()

    def read(self) -> bytes | Cut:
        try:
            return next(self._chunks, b"")
        except httpx2.RequestError as error:
            return _cut(error)

    def close(self) -> None:
        if self._response is not None:
            self._response.close()
            self._response = None


def _reply(response: httpx2.Response) -> Reply:
    return Reply(response.status_code, response.content, response.headers.get("Retry-After"))


def _cut(error: httpx2.RequestError) -> Cut:
    return Cut(str(error).strip() or type(error).__name__)


# --- how an operation becomes a method: its arguments are those of its ask ---
class Room:
    """A part of the API."""

    def __init__(self, link: Link) -> None:
        self._link = link

    @property
    def link(self) -> Link:
        """The gateway that it asks."""
        return self._link


class Once(Generic[P, T]):
    """One request, one answer."""

    def __init__(self, ask: Callable[P, Ask[T]]) -> None:
        self.ask = ask

    def __get__(self, room: Room, _kind: type[Room] | None = None) -> Callable[P, T]:
        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            return room.link.answer(self.ask(*args, **kwargs))

        return call


class Every(Generic[P, T]):
    """The items of all pages of a list, fetched as they are read."""

    def __init__(self, ask: Callable[P, Ask[Page[T]]]) -> None:
        self.ask = ask

    def __get__(self, room: Room, _kind: type[Room] | None = None) -> Callable[P, Generator[T]]:
        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Generator[T]:
            return room.link.stream(every(self.ask(*args, **kwargs), room.link.manners))

        return call


class Stream(Generic[P, T]):
    """Events that go on by themselves over lost connections, which are told as Lost and Reattached."""

    def __init__(self, following: Callable[P, Following[T]]) -> None:
        self.ask = following

    def __get__(self, room: Room, _kind: type[Room] | None = None) -> Callable[P, Generator[Heard[T]]]:
        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Generator[Heard[T]]:
            return room.link.stream(follow(self.ask(*args, **kwargs), room.link.manners))

        return call


class Pieces(Generic[P]):
    """A long answer, piece by piece."""

    def __init__(self, ask: Callable[P, Ask[bytes]]) -> None:
        self.ask = ask

    def __get__(self, room: Room, _kind: type[Room] | None = None) -> Callable[P, Generator[bytes]]:
        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Generator[bytes]:
            return room.link.stream(download(self.ask(*args, **kwargs), room.link.manners))

        return call


class ToEnd(Generic[P]):
    """Submit, and wait for the end."""

    def __init__(self, ask: Callable[P, Ask[Command]]) -> None:
        self.ask = ask

    def __get__(self, room: Room, _kind: type[Room] | None = None) -> Callable[P, Command]:
        @functools.wraps(self.ask)
        def call(*args: P.args, **kwargs: P.kwargs) -> Command:
            return room.link.drive(run(self.ask(*args, **kwargs).with_key(fresh_key()), room.link.manners))

        return call
