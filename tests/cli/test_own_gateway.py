"""What `up` asks its own gateway: runners and a console link, or one sentence (Y-18, J-10)."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Generator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from interlock.cli.own_gateway import OwnGateway
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("Y-18")
CODE = {"code": "once", "expires_at": "2026-01-01T00:05:00.000Z", "roles": ["owner"]}


class Gateway:
    """Answers each path as `answers` has it, and keeps what was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, object]] = {}
        self.asked: list[tuple[str, str, str | None, str | None]] = []
        asked, answers = self.asked, self.answers

        class Handler(BaseHTTPRequestHandler):
            def _answer(self) -> None:
                asked.append((self.command, self.path, self.headers["Authorization"], self.headers["Idempotency-Key"]))
                status, body = answers[self.path]
                raw = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
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


@pytest.fixture
def gateway() -> Generator[Gateway]:
    made = Gateway()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("INTERLOCK_KEY", raising=False)
    (tmp_path / "owner.key").write_text("ilk_mine\n")
    return tmp_path


def test_runners_are_asked_for_with_the_owners_key(gateway: Gateway, state: Path) -> None:
    gateway.answers["/v1/edge/nodes"] = (200, {"nodes": []})
    assert asyncio.run(OwnGateway(gateway.url, state).nodes()) == []
    assert gateway.asked == [("GET", "/v1/edge/nodes", "Bearer ilk_mine", None)]


def test_a_gateway_that_is_not_ready_has_no_runner_yet(gateway: Gateway, state: Path) -> None:
    gateway.answers["/v1/edge/nodes"] = (503, {"code": "Overloaded"})
    assert asyncio.run(OwnGateway(gateway.url, state).nodes()) == []
    gateway.server.server_close()
    assert asyncio.run(OwnGateway("http://127.0.0.1:1", state).nodes()) == []


def test_a_refusal_is_one_sentence(gateway: Gateway, state: Path) -> None:
    gateway.answers["/v1/edge/nodes"] = (401, {"code": "Unauthorized", "detail": "The key is not known here."})
    with pytest.raises(Trouble, match=r"The key is not known here\."):
        asyncio.run(OwnGateway(gateway.url, state).nodes())


def test_what_is_no_gateway_is_said(gateway: Gateway, state: Path) -> None:
    gateway.answers["/v1/edge/nodes"] = (200, ["a list"])
    with pytest.raises(Trouble, match="is not a gateway's"):
        asyncio.run(OwnGateway(gateway.url, state).nodes())


@pytest.mark.req("J-10")
def test_a_console_link_is_made_for_the_url_that_is_shown(gateway: Gateway, state: Path) -> None:
    gateway.answers |= {"/console/": (200, {}), "/v1/browser-codes": (201, CODE)}
    assert asyncio.run(OwnGateway(gateway.url, state).console_link("https://there.example")) == \
        "https://there.example/console/#once"
    assert [asked[:2] for asked in gateway.asked] == [("GET", "/console/"), ("POST", "/v1/browser-codes")]
    assert str(gateway.asked[1][3]).startswith("cli-")


def test_without_the_console_there_is_no_link(gateway: Gateway, state: Path) -> None:
    gateway.answers["/console/"] = (404, {"code": "NotFound"})
    assert asyncio.run(OwnGateway(gateway.url, state).console_link()) is None
    with pytest.raises(Trouble, match="does not answer"):
        asyncio.run(OwnGateway("http://127.0.0.1:1", state).console_link())
