"""Requests to a gateway on this machine, one after another, with the standard library only (Y-18).

Importing an event loop and the library's HTTP client takes longer than the requests of a list or `interlock status`. As
there, the flows decide what is sent, how often, and what a reply means.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from interlock.sdk.exchange import (
    ANSWER_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    NO_ANSWER,
    ConnectionCut,
    Effect,
    Flow,
    HttpReply,
    Now,
    RequestSpec,
    Rest,
    Send,
    driven,
)

T = TypeVar("T")


class PlainLink:
    """One connection to one gateway. `credential` returns the key of each request."""

    def __init__(self, url: str, credential: Callable[[], str], tls: ssl.SSLContext | None,
                 sleep: Callable[[float], None] = time.sleep, clock: Callable[[], float] = time.monotonic,
                 answer_timeout_s: float = ANSWER_TIMEOUT_S) -> None:
        self._url = url
        self._credential = credential
        self._tls = tls
        self._sleep = sleep
        self._clock = clock
        self._answer_timeout_s = answer_timeout_s
        self._connection: HTTPConnection | None = None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def move_to(self, url: str) -> None:
        """Send later requests to this URL: the same gateway, started again elsewhere."""
        self.close()
        self._url = url

    def drive(self, flow: Flow[T]) -> T:
        """Perform the exchanges of a flow until it has its result. Raises what the flow raises."""
        return driven(flow, self._done)

    def _done(self, effect: Effect) -> HttpReply | ConnectionCut | float | None:
        match effect:
            case Send(ask):
                return self._send(ask)
            case Rest(seconds):
                return self._sleep(seconds)
            case Now():
                return self._clock()
            case _:
                raise AssertionError(f"{effect} is of a stream, which this link does not read")

    def _send(self, ask: RequestSpec[Any]) -> HttpReply | ConnectionCut:
        assert ask.file is None, "files are sent by the library"
        sent = False
        try:
            connection = self._connected()
            target = urlsplit(self._url).path + ask.path + (f"?{urlencode(ask.query)}" if ask.query else "")
            connection.request(ask.method, target, ask.body, ask.headers(self._credential()))
            sent = True
            response = connection.getresponse()
            body = response.read()
            if response.will_close:
                self.close()
            return HttpReply(response.status, body, response.headers.get("Retry-After"),
                             response.headers.get("Location"))
        except (OSError, HTTPException) as error:
            self.close()
            if sent and isinstance(error, TimeoutError):
                return ConnectionCut(NO_ANSWER)  # Not a lost connection, so a read is not repeated.
            why = (error.strerror if isinstance(error, OSError) else None) or str(error).strip() or type(error).__name__
            return ConnectionCut(why, broke_off=sent)

    def _connected(self) -> HTTPConnection:
        if self._connection is None:
            parts = urlsplit(self._url)
            assert parts.hostname is not None
            connection = (HTTPSConnection(parts.hostname, parts.port, timeout=CONNECT_TIMEOUT_S, context=self._tls)
                          if parts.scheme == "https"
                          else HTTPConnection(parts.hostname, parts.port, timeout=CONNECT_TIMEOUT_S))
            connection.connect()
            connection.sock.settimeout(self._answer_timeout_s)
            self._connection = connection
        return self._connection
