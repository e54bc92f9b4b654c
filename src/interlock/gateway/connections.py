"""uvicorn's connections, with ways for an answer to end its own at once and to bound what waits in it (S-4)."""

from __future__ import annotations

import socket
import struct
from contextlib import suppress
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request

from interlock.protocol.limits import KIB

VIEWER_SEND_BYTES = 128 * KIB
"""The kernel keeps so much for a viewer that reads slowly: left to itself it takes megabytes, and a viewer that reads
nothing is found only once they are full. A viewer 100 ms away is still sent a megabyte a second."""


RESET = struct.pack("ii", 1, 0)
"""SO_LINGER for no time: what waits in the kernel is dropped too, and the other side is told at once."""


def _ways(transport: Any) -> dict[str, Any]:
    """What an answer may do with its connection. `abort` ends it at once: uvicorn closes one by writing first what
    waits, and to a viewer that reads nothing that never ends. `bound` has the kernel keep VIEWER_SEND_BYTES at most."""

    def choose(option: int, value: int | bytes) -> None:
        with suppress(OSError):  # The connection is over already.
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, value)

    def abort() -> None:
        choose(socket.SO_LINGER, RESET)
        transport.abort()

    return {"abort": abort, "bound": lambda: choose(socket.SO_SNDBUF, VIEWER_SEND_BYTES)}


class Connection(HttpToolsProtocol):
    """An HTTP connection that an answer can end and bound (S-4)."""

    def on_message_begin(self) -> None:
        """Make the scope of a request."""
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)["state"].update(_ways(self.transport))


class SocketConnection(WebSocketsSansIOProtocol):
    """The same of a WebSocket."""

    def handle_connect(self, event: Request) -> None:
        """Make the scope, and have the application asked."""
        super().handle_connect(event)
        cast("dict[str, Any]", self.scope)["state"].update(_ways(self.transport))
