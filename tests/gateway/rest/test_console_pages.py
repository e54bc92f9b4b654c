"""The console's files: the files a browser loads without a credential, and their security headers (J-9, J-16)."""

import gzip
import os
from pathlib import Path

import httpx2
import pytest
from starlette.requests import Request

from interlock.config import GatewaySection
from interlock.gateway.rest.answers import HttpResponse
from interlock.gateway.rest.console_pages import SECURITY_HEADERS, ConsolePages
from interlock.gateway.rest.request.request_guard import RequestGuard
from interlock.protocol.problems import Problem
from small_gateway.running import Gateway

SCRIPT = b"console.log(1)\n" * 200


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "assets").mkdir()
    (tmp_path / "index.html").write_bytes(b"<!doctype html><title>Interlock</title>")
    (tmp_path / "assets" / "app-3f2a.js").write_bytes(SCRIPT)
    (tmp_path / "sw.js").write_bytes(b"self.x = 1")
    (tmp_path / ".stamp").write_bytes(b"the build's own")
    (tmp_path / "leak.txt").symlink_to("/etc/hostname")
    return tmp_path


def asked(path: str, method: str = "GET", **headers: str) -> Request:
    sent = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return Request({"type": "http", "method": method, "path": path, "headers": sent, "query_string": b""})


def answered(pages: ConsolePages, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    answer = pages.answer(asked(path, **headers))
    assert isinstance(answer, HttpResponse)
    found = {name.decode(): value.decode() for name, value in answer.headers}
    for name, value in SECURITY_HEADERS.items():
        assert found[name.lower()] == value, f"{path} lacks {name}"
    return answer.status, found, answer.body


@pytest.mark.req("K-2", "J-9")
def test_files_are_sent_with_their_type_and_cache_lifetime(directory: Path) -> None:
    pages = ConsolePages(directory)
    status, headers, body = answered(pages, "/console/")
    assert (status, headers["content-type"], headers["cache-control"]) == (200, "text/html; charset=utf-8", "no-cache")
    assert body.startswith(b"<!doctype html>")
    status, headers, body = answered(pages, "/console/assets/app-3f2a.js")
    assert (status, headers["content-type"], body) == (200, "text/javascript; charset=utf-8", SCRIPT)
    assert headers["cache-control"] == "public, max-age=31536000, immutable"
    assert answered(pages, "/console/sw.js")[1]["cache-control"] == "no-cache"


def test_application_paths_are_the_one_page_and_missing_files_are_not(directory: Path) -> None:
    pages = ConsolePages(directory)
    index = answered(pages, "/console/")[2]
    assert answered(pages, "/console/a/apr_01")[::2] == (200, index)
    assert answered(pages, "/console/sessions/ses_1/at")[::2] == (200, index)
    for path in ("/console/assets/app-old.js", "/console/.stamp", "/console/../app.py", "/console/leak.txt",
                 "/console/%2e%2e/secret.key", "/a/../etc.txt"):
        assert answered(pages, path)[0] == 404, path


def test_a_browser_is_redirected_to_the_console_and_a_program_is_not() -> None:
    pages = ConsolePages(Path("/nowhere"))
    assert pages.serves(asked("/", accept="text/html,*/*;q=0.8"))
    assert not pages.serves(asked("/", accept="application/json"))
    assert not pages.serves(asked("/"))
    assert not pages.serves(asked("/v1/status", accept="text/html"))
    for path, status, to in (("/", 303, "/console/"), ("/console", 308, "/console/"),
                             ("/a/apr_01JX", 303, "/console/a/apr_01JX")):
        assert answered(pages, path)[:2][0] == status
        assert answered(pages, path)[1]["location"] == to
    with pytest.raises(Problem, match="does not take POST"):
        pages.answer(asked("/console/", "POST"))


def test_a_browser_that_has_a_file_is_not_sent_it_again(directory: Path) -> None:
    pages = ConsolePages(directory)
    status, headers, body = answered(pages, "/console/assets/app-3f2a.js", accept_encoding="gzip, br")
    assert (status, headers["content-encoding"], gzip.decompress(body)) == (200, "gzip", SCRIPT)
    assert "content-encoding" not in answered(pages, "/console/assets/app-3f2a.js", accept_encoding="gzip;q=0")[1]
    again = answered(pages, "/console/assets/app-3f2a.js", if_none_match=f'"other", {headers["etag"]}')
    assert again[::2] == (304, b"")


def test_a_rebuilt_console_is_served_without_a_restart(directory: Path) -> None:
    pages = ConsolePages(directory)
    answered(pages, "/console/")
    (directory / "assets" / "app-9999.js").write_bytes(b"new")
    index = directory / "index.html"
    index.write_bytes(b"<!doctype html>second")
    os.utime(index, ns=(1, 1))
    assert answered(pages, "/console/")[2] == b"<!doctype html>second"
    assert answered(pages, "/console/assets/app-9999.js")[2] == b"new"


def test_a_package_without_the_console_names_the_remedy(tmp_path: Path) -> None:
    status, headers, body = answered(ConsolePages(tmp_path / "absent"), "/console/sessions")
    assert (status, headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert b"CONSOLE=1 pip install" in body


OWN = [
    ({}, "http://localhost:7420", "localhost:7420", True),
    ({}, "http://127.0.0.1:7420", "127.0.0.1:7420", True),
    ({}, "http://[::1]:7420", "[::1]:7420", True),
    ({}, "http://localhost:3000", "localhost:7420", False),
    ({}, "http://127.0.0.1:7420", "localhost:7420", False),
    ({}, "https://localhost:7420", "localhost:7420", False),
    ({}, "http://localhost", "localhost:7420", False),
    ({}, "null", "localhost:7420", False),
    ({}, "localhost:7420", "localhost:7420", False),
    ({"hosts": ["gw.example"], "tls_cert": "c", "tls_key": "k"}, "https://gw.example", "gw.example", True),
    ({"hosts": ["gw.example"], "tls_cert": "c", "tls_key": "k"}, "http://gw.example", "gw.example", False),
    ({"hosts": ["gw.example"], "behind_proxy": True}, "https://gw.example", "gw.example", True),
    ({"hosts": ["gw.example"], "behind_proxy": True}, "http://gw.example", "gw.example", False),
    ({"behind_proxy": True}, "http://localhost:7420", "localhost:7420", True),
    ({"behind_proxy": True}, "http://localhost", "localhost", False),
]


@pytest.mark.req("K-2")
@pytest.mark.parametrize(("section", "origin", "host", "taken"), OWN)
def test_only_the_gateways_exact_origin_is_its_own(section: dict[str, object], origin: str, host: str, taken: bool
                                                   ) -> None:
    door = RequestGuard(GatewaySection(**section))  # type: ignore[arg-type]
    headers = {b"host": [host], b"origin": [origin]}
    if taken:
        door.check(headers)
    else:
        with pytest.raises(Problem, match="may not use this gateway"):
            door.check(headers)


@pytest.mark.anyio
async def test_the_running_gateway_serves_them_without_a_key(gateway: Gateway) -> None:
    async with httpx2.AsyncClient(base_url=gateway.base) as browser:
        led = await browser.get("/", headers={"Accept": "text/html"})
        assert (led.status_code, led.headers["Location"]) == (303, "/console/")
        page = await browser.head("/console/")
        assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert page.content == b""
        own = {"Origin": gateway.base.rstrip("/")}
        assert (await browser.get("/healthz", headers=own)).status_code == 200
        assert (await browser.get("/healthz", headers={"Origin": "http://localhost:1"})).status_code == 403
