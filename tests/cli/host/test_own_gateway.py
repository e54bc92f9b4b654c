"""Requests of `up` to its own gateway: runners and a console link, or one sentence (Y-18, J-10)."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from pathlib import Path

import pytest

from cli.scripted_server import Answer, ScriptedServer, scripted_server
from interlock.cli.host.own_gateway import OwnGateway
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("Y-18")
CODE = {"code": "once", "expires_at": "2026-01-01T00:05:00.000Z", "roles": ["owner"]}


@pytest.fixture
def gateway() -> Generator[ScriptedServer]:
    with scripted_server() as made:
        yield made


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("INTERLOCK_KEY", raising=False)
    (tmp_path / "owner.key").write_text("ilk_mine\n")
    return tmp_path


def test_runners_are_listed_with_the_owners_key(gateway: ScriptedServer, state: Path) -> None:
    gateway.by_path["/v1/edge/nodes"] = Answer(200, {"nodes": []})
    assert asyncio.run(OwnGateway(gateway.url, state).nodes()) == []
    assert [asked[:4] for asked in gateway.asked] == [("GET", "/v1/edge/nodes", "Bearer ilk_mine", None)]


def test_a_gateway_that_is_not_ready_has_no_runner_yet(gateway: ScriptedServer, state: Path) -> None:
    gateway.by_path["/v1/edge/nodes"] = Answer(503, {"code": "Overloaded"})
    assert asyncio.run(OwnGateway(gateway.url, state).nodes()) == []
    gateway.server.server_close()
    assert asyncio.run(OwnGateway("http://127.0.0.1:1", state).nodes()) == []


def test_a_refusal_is_one_sentence(gateway: ScriptedServer, state: Path) -> None:
    gateway.by_path["/v1/edge/nodes"] = Answer(401, {"code": "Unauthorized", "detail": "The key is not known here."})
    with pytest.raises(Trouble, match=r"The key is not known here\."):
        asyncio.run(OwnGateway(gateway.url, state).nodes())


def test_an_address_that_is_not_a_gateway_is_reported(gateway: ScriptedServer, state: Path) -> None:
    gateway.by_path["/v1/edge/nodes"] = Answer(200, ["a list"])
    with pytest.raises(Trouble, match="is not a gateway's"):
        asyncio.run(OwnGateway(gateway.url, state).nodes())


@pytest.mark.req("J-10")
def test_a_console_link_uses_the_shown_url(gateway: ScriptedServer, state: Path) -> None:
    gateway.by_path |= {"/console/": Answer(200, {}), "/v1/browser-codes": Answer(201, CODE)}
    assert asyncio.run(OwnGateway(gateway.url, state).console_link("https://there.example")) == \
        "https://there.example/console/#once"
    assert [asked[:2] for asked in gateway.asked] == [("GET", "/console/"), ("POST", "/v1/browser-codes")]
    assert str(gateway.asked[1].idempotency_key).startswith("cli-")


def test_without_the_console_there_is_no_console_link(gateway: ScriptedServer, state: Path) -> None:
    gateway.by_path["/console/"] = Answer(404, {"code": "NotFound"})
    assert asyncio.run(OwnGateway(gateway.url, state).console_link()) is None
    with pytest.raises(Trouble, match="does not answer"):
        asyncio.run(OwnGateway("http://127.0.0.1:1", state).console_link())
