"""A request whose head or body trickles in is ended: anyone who holds connections with few bytes holds no one else
up."""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from interlock.gateway.connections import HttpConnection, refusal
from interlock.protocol.problems import Problem

HEAD_TIMEOUT_S = 10.0
"""From a connection's first moment, or the first byte of its next request, to the end of the request's head."""
BODY_TIMEOUT_S = 120.0
"""From the head to the end of the body: 8 MiB at 70 kB a second."""


class SenderTimeouts(NamedTuple):
    """How long a sender may take; others than these only in tests."""

    head_s: float = HEAD_TIMEOUT_S
    body_s: float = BODY_TIMEOUT_S


NORMAL_PATIENCE = SenderTimeouts()


def protocol_class(patience: SenderTimeouts = NORMAL_PATIENCE) -> type[HttpConnection]:
    """Make uvicorn's protocol with these limits: it makes one for each connection, and passes nothing of ours."""

    class PatientProtocol(HttpConnection):
        """Ends a connection whose request does not arrive in time: with 408 where nothing was answered yet."""

        _clock: asyncio.TimerHandle | None = None
        _in_body = False

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._arm(patience.head_s)

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._in_body = False
            if self._clock is None:  # The first request's clock runs since the connection was made.
                self._arm(patience.head_s)

        def on_headers_complete(self) -> None:
            self._in_body = True
            self._arm(patience.body_s)
            super().on_headers_complete()

        def on_message_complete(self) -> None:
            self._disarm()
            super().on_message_complete()

        def handle_websocket_upgrade(self) -> None:
            self._disarm()
            super().handle_websocket_upgrade()

        def _arm(self, after_s: float) -> None:
            self._disarm()
            self._clock = self.loop.call_later(after_s, self._out_of_patience)

        def _disarm(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

        def _out_of_patience(self) -> None:
            self._clock = None
            if self.transport.is_closing():
                return
            cycle: Any = self.cycle
            answered = bool(cycle and cycle.response_started)
            if not answered or (not self._in_body and cycle.response_complete):
                self.transport.write(_TOO_SLOW)
            if cycle is not None and not cycle.response_complete:
                cycle.disconnected = True  # What would still be answered would stand behind our own answer.
            self.transport.close()

    return PatientProtocol


_TOO_SLOW = refusal(b"408 Request Timeout", Problem("RequestTimeout", "The request did not arrive in time."))
