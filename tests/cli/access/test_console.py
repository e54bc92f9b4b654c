"""`interlock console`: the link that logs a browser in, and the browsers that are logged in (J-10)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from cli.scripted import Script, answer, problem
from interlock.cli.access import console
from interlock.cli.access.console import link_for, qr_code
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.verb_error import Trouble
from interlock.config import GatewaySection

Answers = dict[str, list[Callable[[httpx2.Request], httpx2.Response]]]
CODE = {"code": "7H2K-9QX0-WDAB-CDEF", "expires_at": "2099-01-01T00:00:00.000Z", "roles": ["owner"]}
HERE = "http://localhost:7/console/#7H2K-9QX0-WDAB-CDEF"
SESSION = {"id": "brs_01K9", "principal": {"type": "user", "id": "ann\x1b[2J"}, "roles": ["approver"],
           "key_id": "key_1", "created_at": "2026-11-01T00:00:00.000Z", "last_used_at": "2026-11-01T00:00:00.000Z",
           "expires_at": "2099-01-01T00:00:00.000Z", "label": "a browser"}


@pytest.fixture
def scripted(scripted: Any) -> Callable[..., tuple[Script, Where]]:
    """A gateway that answers from a script; it has the console unless the script has its answer."""
    return lambda answers: scripted({"GET /console/": [answer("<!doctype html>")],
                                     "POST /v1/browser-codes": [answer(CODE, 201)], **answers})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []

    def note(url: str) -> bool:
        urls.append(url)
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(console.webbrowser, "open", note)
    return urls


def test_the_link_is_the_only_result_and_is_opened_by_default(
        scripted: Any, opened: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    _, where = scripted({})
    assert console.console(where=where) == ExitStatus.DONE
    assert capsys.readouterr().out == HERE + "\n"
    assert opened == [HERE]
    assert console.console(no_open=True, where=where) == ExitStatus.DONE
    assert opened == [HERE]


def test_without_a_display_nothing_is_opened(scripted: Any, opened: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in console.DISPLAYS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(console.sys, "platform", "linux")
    _, where = scripted({})
    assert console.console(where=where) == ExitStatus.DONE
    assert opened == []


def test_roles_are_required_and_json_contains_the_link(
    scripted: Any, opened: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    script, where = scripted({})
    assert console.console(role=["viewer", "approver"], json=True, where=where) == ExitStatus.DONE
    assert json.loads(script.asked[-1].content)["roles"] == ["viewer", "approver"]
    assert json.loads(capsys.readouterr().out) == {"url": HERE, **CODE}
    assert opened == [], "a program that reads JSON opens it itself"


def test_a_gateway_without_a_console_explains_how_to_get_it(scripted: Any) -> None:
    script, where = scripted({"GET /console/": [lambda _: httpx2.Response(404, html="<h1>none</h1>")]})
    with pytest.raises(Trouble, match="without the console") as caught:
        console.console(where=where)
    assert "CONSOLE=1 pip install" in caught.value.remedy
    assert [request.url.path for request in script.asked] == ["/console/"], "no code is made for nothing"
    _, where = scripted({"GET /console/": [problem(403, "Forbidden", "not you")]})
    with pytest.raises(Trouble, match="not you"):
        console.console(where=where)


def test_browsers_are_listed_and_logged_out(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, where = scripted({"GET /v1/browser-sessions": [answer({"items": [SESSION]})],
                              "DELETE /v1/browser-sessions/brs_01K9": [answer(SESSION)]})
    assert console.sessions(where=where) == ExitStatus.DONE
    listed = capsys.readouterr().out
    assert "brs_01K9" in listed
    assert "\x1b" not in listed
    assert console.end("01k", where=where) == ExitStatus.DONE
    assert script.asked[-1].method == "DELETE"
    assert "is logged out" in capsys.readouterr().out
    with pytest.raises(Trouble, match="no console session") as caught:
        console.end("brs_other", where=where)
    assert "interlock console sessions" in caught.value.remedy


@pytest.mark.parametrize(("url", "link"), [
    ("http://127.0.0.1:7420", "http://localhost:7420/console/#C"),
    ("http://[::1]:7420", "http://localhost:7420/console/#C"),
    ("https://gate.example.org", "https://gate.example.org/console/#C"),
    ("https://gate.example.org:8443", "https://gate.example.org:8443/console/#C"),
])
def test_a_local_gateway_is_named_localhost_and_others_unchanged(url: str, link: str) -> None:
    assert link_for(url, "C") == link


def test_a_public_gateway_is_known_by_its_config() -> None:
    assert GatewaySection().public_url() is None
    assert GatewaySection(hosts=["gw.example"]).public_url() is None, "in clear it is reached by no other machine"
    assert GatewaySection(hosts=["gw.example"], behind_proxy=True).public_url() == "https://gw.example"
    tls = GatewaySection(hosts=["gw.example"], tls_cert="c", tls_key="k", port=7420)
    assert tls.public_url() == "https://gw.example:7420"


def test_a_qr_code_is_drawn_if_the_terminal_can_draw_it() -> None:
    segno = pytest.importorskip("segno", reason="installed with Interlock since the console")
    drawn = qr_code(HERE, "utf-8")
    rows = drawn.rstrip("\n").split("\n")
    assert len({len(row) for row in rows}) == 1
    assert len(rows[0]) == segno.make(HERE, error="m", micro=False).symbol_size(border=2)[0]
    assert len(rows[0]) <= 60
    assert "\x1b" not in drawn
    assert qr_code(HERE, "ascii") == ""
