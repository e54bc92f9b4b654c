"""The limit of the whole path: an ASGI WebSocket that returns each message. `python -m benchmarks.harness.echo_process`

It runs under the gateway's own server settings. Prints its URL once it listens; ends with SIGTERM.
"""

from __future__ import annotations

import uvloop
from starlette.types import Receive, Scope, Send

from interlock.gateway.server.server import serve


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Give each message back: one in, one out."""
    if scope["type"] != "websocket":
        return
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        await send({"type": "websocket.send", "text": message["text"]})


def main() -> None:
    """Run until SIGTERM."""
    uvloop.run(serve(echo, "127.0.0.1", 0, on_stop=lambda: None,
                     ready=lambda port: print(f"http://127.0.0.1:{port}", flush=True)))


if __name__ == "__main__":
    main()
