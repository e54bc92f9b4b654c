"""The gateway's own requests: to public addresses over https, to the address that was checked, and within limits."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from certificates import certificates
from interlock.backends.outgoing.addresses import taken_apart
from interlock.backends.outgoing.http import HttpOutgoing
from interlock.ports.outbound_http import Unreached, UrlRefused
from proof.access import internal_urls
from proof.access.oidc_issuer import Issuer

pytestmark = pytest.mark.anyio


@pytest.mark.req("K-1")
async def test_no_internal_address_is_requested() -> None:
    tried, wrong = await internal_urls.trial()
    assert wrong == []
    assert tried > 150


@pytest.mark.req("K-1")
@pytest.mark.parametrize("address", [
    "::127.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b:1::a00:1", "fec0::1", "3fff::1", "5f00::1", "192.88.99.1"])
async def test_a_seemingly_public_address_is_not_requested(address: str) -> None:
    async def resolve(_host: str, _port: int) -> list[str]:
        return [address]

    with pytest.raises(UrlRefused, match="an address inside"):
        await HttpOutgoing(resolve=resolve).send("GET", "https://example.org/", headers={}, max_bytes=1, timeout_s=1)
    HttpOutgoing([f"{address}/128" if ":" in address else f"{address}/32"]).check(
        f"https://[{address}]/" if ":" in address else f"https://{address}/")


@pytest.mark.req("K-1")
def test_errors_visible_in_the_url_are_raised_immediately() -> None:
    HttpOutgoing().check("https://example.org/hook")
    HttpOutgoing(["127.0.0.0/8"]).check("http://127.0.0.1:9/hook")
    for url in ("http://127.0.0.1/", "https://[::1]/", "https://a@b/"):
        with pytest.raises(UrlRefused):
            HttpOutgoing().check(url)
    assert taken_apart("https://[2606:4700::1]:8443/a?b=c") == ("https", "2606:4700::1", 8443, "/a?b=c")
    assert taken_apart("https://Example.org").authority == "example.org"


@pytest.mark.req("K-1")
async def test_a_too_large_response_and_an_unknown_name_are_one_sentence() -> None:
    async with Issuer() as there:
        outgoing = HttpOutgoing(["127.0.0.1/32"])
        with pytest.raises(Unreached, match="larger than 10 bytes"):
            await outgoing.send("GET", there.url + "/keys", headers={}, max_bytes=10, timeout_s=5)
        answer = await outgoing.send("POST", there.url + "/nothing", headers={"X-A": "b"}, body=b"{}", max_bytes=10,
                                     timeout_s=5)
        assert (answer.status, answer.body) == (404, b"{}")
    with pytest.raises(Unreached, match=r"^127\.0\.0\.1 cannot be asked: it refuses the connection\.$"):
        await outgoing.send("GET", there.url, headers={}, max_bytes=10, timeout_s=5)

    async def unknown(_host: str, _port: int) -> list[str]:
        raise OSError

    with pytest.raises(Unreached, match="is not known"):
        await HttpOutgoing(resolve=unknown).send("GET", "https://nowhere.example/", headers={}, max_bytes=1,
                                                 timeout_s=1)


@pytest.mark.req("K-1")
async def test_an_untrusted_or_incompatible_server_is_named_with_the_reason(tmp_path: Path) -> None:
    async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    own = certificates(tmp_path, "127.0.0.1")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(own.cert, own.key)
    outgoing = HttpOutgoing(["127.0.0.1/32"])
    for scheme, context, reason in (("https", tls, r"its certificate does not verify \(.+\)"),
                                    ("http", None, "it broke the connection off")):
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0, ssl=context)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(Unreached, match=f"^127.0.0.1 cannot be asked: {reason}\\.$"):
                await outgoing.send("GET", f"{scheme}://127.0.0.1:{port}/", headers={}, max_bytes=1, timeout_s=5)
