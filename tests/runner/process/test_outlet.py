"""Requests to the proxy, and its responses (H-19)."""

from __future__ import annotations

import asyncio
import socket

import pytest

from interlock.box.reach import PROXY_PORT, Endpoint, Reach
from interlock.runner.process import outlet
from interlock.runner.process.outlet import ConnectionRefused, Outlet, ProxyRequest, parse, variables

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-19")]


def test_connect_names_a_host_and_a_port() -> None:
    assert parse(b"CONNECT API.example.com:443 HTTP/1.1\r\nHost: other\r\n\r\n") == ProxyRequest("api.example.com", 443,
                                                                                                 True)
    assert parse(b"CONNECT [2001:db8::1]:443 HTTP/1.0\r\n\r\n").host == "2001:db8::1"


def test_a_plain_request_is_forwarded_to_the_checked_host() -> None:
    asked = parse(b"POST http://llm.example:8080/v1?x=1 HTTP/1.1\r\nhost: evil.example\r\nContent-Length: 2\r\n"
                  b"Proxy-Authorization: Basic x\r\nConnection: keep-alive\r\n\r\n")
    assert (asked.host, asked.port, asked.tunnel) == ("llm.example", 8080, False)
    assert asked.head == (b"POST /v1?x=1 HTTP/1.1\r\nHost: llm.example:8080\r\nConnection: close\r\n"
                          b"Content-Length: 2\r\n\r\n")


@pytest.mark.parametrize("head", [
    b"GET / HTTP/1.1\r\n\r\n", b"GET https://a.example/ HTTP/1.1\r\n\r\n", b"CONNECT a.example HTTP/1.1\r\n\r\n",
    b"CONNECT a.example:0 HTTP/1.1\r\n\r\n", b"CONNECT a.example:99999 HTTP/1.1\r\n\r\n", b"CONNECT  HTTP/1.1\r\n\r\n",
    b"CONNECT 0x7f.1:80 HTTP/1.1\r\n\r\n", b"GET http://a.example:x/ HTTP/1.1\r\n\r\n", b"\x16\x03\x01\r\n\r\n",
    b"GET http://[::1/ HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\n",
])
def test_anything_else_is_a_bad_request(head: bytes) -> None:
    with pytest.raises(ConnectionRefused) as refused:
        parse(head)
    assert refused.value.status == "400 Bad Request"


async def exchange(way_out: Outlet, *sent: bytes) -> list[bytes]:
    """What the proxy answers to each connection."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    opened = await way_out.open([(PROXY_PORT, listener)])
    answers: list[bytes] = []
    try:
        for data in sent:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(data)
            answers.append(await asyncio.wait_for(reader.read(), 10))
            writer.close()
    finally:
        await opened.close()
    return answers


async def test_a_refused_host_is_answered_403_and_reported_once_up_to_a_limit() -> None:
    reports: list[str] = []

    async def report(sentence: str) -> None:
        reports.append(sentence)

    way_out = Outlet(Reach((Endpoint("api.example.com", 443),)), report)
    [first] = await exchange(way_out, b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"evil.example:443 is not among the hosts that this agent may reach: api.example.com:443." in first
    await exchange(way_out, *[b"CONNECT evil.example:443 HTTP/1.1\r\n\r\n"] * 2)
    assert len(reports) == 1
    await exchange(way_out, *(b"CONNECT x%d.example:443 HTTP/1.1\r\n\r\n" % one for one in range(30)))
    assert len(reports) == outlet.MAX_REPORTS + 1
    assert "further ones are not reported" in reports[-1]


async def test_an_endless_head_is_not_buffered(monkeypatch: pytest.MonkeyPatch) -> None:
    async def report(_sentence: str) -> None: ...

    monkeypatch.setattr(outlet, "HEAD_TIMEOUT_S", 0.05)
    way_out = Outlet(Reach((Endpoint("api.example.com", 443),)), report)
    assert await exchange(way_out, b"CONNECT " + b"x" * outlet.MAX_HEAD_BYTES * 2, b"CONNECT a") == [b"", b""]


async def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    async def report(_sentence: str) -> None: ...

    monkeypatch.setattr(outlet, "MAX_CONNECTIONS", 0)
    [answer] = await exchange(Outlet(Reach((Endpoint("api.example.com", 443),)), report), b"")
    assert answer.startswith(b"HTTP/1.1 503")


def test_a_process_gets_the_proxy_variables_and_none_of_the_runners() -> None:
    found = variables(Reach((Endpoint("api.example.com", 443),)))
    assert {found[name] for name in ("HTTP_PROXY", "https_proxy", "ALL_PROXY")} == {f"http://127.0.0.1:{PROXY_PORT}"}
    assert (found["NODE_USE_ENV_PROXY"], found["no_proxy"]) == ("1", "localhost,127.0.0.1,::1")
    assert set(variables(Reach()).values()) == {""}
