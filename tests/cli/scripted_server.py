"""A gateway of its own port that answers from a script, for clients that use a real connection."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import NamedTuple


class Answer(NamedTuple):
    status: int
    body: object
    headers: Mapping[str, str] = MappingProxyType({})


class ReceivedRequest(NamedTuple):
    method: str
    path: str
    authorization: str | None
    idempotency_key: str | None
    port: int
    """The client's: requests over one connection have the same."""


class ScriptedServer:
    """Answers a path as `by_path` has it, any other request by `answers`, in order; None there ends the connection
    without one. Keeps what was asked."""

    def __init__(self) -> None:
        self.by_path: dict[str, Answer] = {}
        self.answers: list[Answer | None] = []
        self.asked: list[ReceivedRequest] = []
        script = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def _answer(self) -> None:
                script.asked.append(ReceivedRequest(self.command, self.path, self.headers["Authorization"],
                                                    self.headers["Idempotency-Key"], self.client_address[1]))
                answer = script.by_path.get(self.path) or script.answers.pop(0)
                if answer is None:
                    self.close_connection = True
                    return
                raw = json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(raw)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(raw)

            def do_GET(self) -> None:
                self._answer()

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self._answer()

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@contextmanager
def scripted_server() -> Generator[ScriptedServer]:
    made = ScriptedServer()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield made
    finally:
        made.server.shutdown()
        thread.join()
        made.server.server_close()
