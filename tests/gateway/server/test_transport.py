"""Keys travel over TLS, or behind a proxy whose address is known; an unencrypted remote client is refused (L-2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from certificates import certificates
from interlock.config import ConfigError, GatewaySection, parse
from interlock.gateway.rest.request.request_guard import Peers
from interlock.gateway.server.server import listen, port_of
from interlock.gateway.server.transport import BindRefused, load_certificate, may_be_public, tls_context
from interlock.protocol.problems import Problem

pytestmark = pytest.mark.req("L-2")


def scope(client: str | None, forwarded: str = "", server: str = "203.0.113.1") -> dict[str, Any]:
    return {"client": (client, 1) if client else None, "server": (server, 443),
            "headers": [(b"x-forwarded-for", forwarded.encode())] if forwarded else []}


BEHIND = GatewaySection(behind_proxy=True, trusted_proxies=["192.0.2.0/28", "2001:db8::7"])


@pytest.mark.parametrize(
    ("section", "public"),
    [(GatewaySection(), False), (GatewaySection(behind_proxy=True), False),
     (GatewaySection(trusted_proxies=["192.0.2.1"]), False), (BEHIND, True),
     (GatewaySection(tls_cert="c", tls_key="k"), True)],
)
def test_only_tls_or_a_known_proxy_opens_a_public_address(section: GatewaySection, public: bool) -> None:
    assert may_be_public(section) is public


def test_a_public_address_is_bound_if_it_is_protected() -> None:
    listener = listen("0.0.0.0", 0, public=True)
    assert port_of(listener)
    listener.close()


@pytest.mark.parametrize(
    ("client", "forwarded", "source"),
    [
        ("127.0.0.1", "", "127.0.0.1"), ("192.0.2.3", "198.51.100.9", "198.51.100.9"),
        ("2001:db8::7", "198.51.100.9", "198.51.100.9"), ("::ffff:192.0.2.3", "198.51.100.9", "198.51.100.9"),
        ("192.0.2.3", "6.6.6.6, 198.51.100.9", "198.51.100.9"),
        ("192.0.2.3", "198.51.100.9, 192.0.2.4", "198.51.100.9"), ("192.0.2.3", "nonsense", "192.0.2.3"),
        ("203.0.113.1", "198.51.100.9", "203.0.113.1"), (None, "", ""),
    ],
)
def test_a_source_address_is_that_reported_by_trusted_proxies(client: str | None, forwarded: str, source: str) -> None:
    assert Peers(BEHIND).source(scope(client, forwarded)) == source


@pytest.mark.parametrize("client", ["192.0.2.16", "198.51.100.9", "::ffff:198.51.100.9"])
def test_an_unencrypted_request_from_a_stranger_is_refused(client: str) -> None:
    with pytest.raises(Problem, match="by its proxy only"):
        Peers(BEHIND).source(scope(client))


def test_with_tls_any_client_is_accepted_and_no_proxy_is_trusted() -> None:
    peers = Peers(GatewaySection(tls_cert="c", tls_key="k"))
    assert peers.source(scope("198.51.100.9", "1.2.3.4")) == "198.51.100.9"


def test_an_unusable_certificate_is_refused_in_one_sentence(tmp_path: Path) -> None:
    made, other = certificates(tmp_path / "a", "localhost"), certificates(tmp_path / "b", "localhost")
    for cert, key in ((tmp_path / "none.pem", made.key), (made.cert, other.key), (made.key, made.key)):
        with pytest.raises(BindRefused) as caught:
            tls_context(GatewaySection(tls_cert=str(cert), tls_key=str(key)))
        assert "\n" not in str(caught.value)
    context = tls_context(GatewaySection(tls_cert=str(made.cert), tls_key=str(made.key)))
    assert context is not None
    load_certificate(context, GatewaySection(tls_cert=str(other.cert), tls_key=str(other.key)))
    assert tls_context(GatewaySection()) is None


@pytest.mark.req("G-1")
@pytest.mark.parametrize(
    ("text", "sentence"),
    [('tls_cert = "a.pem"', "needs its key"), ('tls_key = "a.pem"', "needs its key"),
     ('trusted_proxies = ["proxy.example"]', "neither an address nor a network")],
)
def test_an_incomplete_transport_is_a_config_error(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        parse(f"[gateway]\n{text}\n", "f")
