"""Run the model server in a thread of this process."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn

from .app import make_app
from .request_log import Recording

LOOPBACK = "127.0.0.1"
STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class ModelServer:
    """A running server: its base URL without a path or trailing slash, and the requests that it received."""

    url: str
    recording: Recording


class _Serving(uvicorn.Server):
    """uvicorn, but slow answers are aborted on shutdown."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._closing.set()
        await super().shutdown(sockets)


def make_server(recording: Recording) -> uvicorn.Server:
    """Return a server for `run(sockets=[…])`."""
    closing = asyncio.Event()
    config = uvicorn.Config(
        make_app(recording, closing),
        log_level="warning",
        access_log=False,
        lifespan="off",
        loop="asyncio",
        ws="none",
        timeout_graceful_shutdown=2,
    )
    return _Serving(config, closing)


def listen(port: int = 0) -> tuple[socket.socket, str]:
    """Return a listening socket on loopback and its URL; port 0 selects a free one."""
    listening = socket.create_server((LOOPBACK, port))
    return listening, f"http://{LOOPBACK}:{listening.getsockname()[1]}"


@contextmanager
def running_model_server(port: int = 0) -> Generator[ModelServer]:
    """Serve until the block ends. The socket listens before the block begins, so no request is too early."""
    recording = Recording()
    server = make_server(recording)
    listening, url = listen(port)
    with listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="model-server", daemon=True)
        thread.start()
        try:
            yield ModelServer(url, recording)
        finally:
            server.should_exit = True
            thread.join(STOP_SECONDS)
            if thread.is_alive():
                raise RuntimeError(f"the model server did not stop within {STOP_SECONDS} s")
