"""uvicorn's connections, with a way for an answer to end its own at once (S-4)."""

from __future__ import annotations

from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.http11 import Request


class Connection(HttpToolsProtocol):
    """An HTTP connection that an answer can end at once, by `scope["state"]["abort"]`: uvicorn closes one by writing
    first what waits, and to a viewer that reads nothing that never ends (S-4)."""

    def on_message_begin(self) -> None:
        """Make the scope of a request."""
        super().on_message_begin()
        cast("dict[str, Any]", self.scope)["state"]["abort"] = self.transport.abort


class SocketConnection(WebSocketsSansIOProtocol):
    """The same of a WebSocket."""

    def handle_connect(self, event: Request) -> None:
        """Make the scope, and have the application asked."""
        super().handle_connect(event)
        cast("dict[str, Any]", self.scope)["state"]["abort"] = self.transport.abort
