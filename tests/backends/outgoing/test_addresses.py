"""Allowed targets of the gateway's requests: no other machine of the network, in any notation of its address (K-4)."""

from __future__ import annotations

import pytest

from interlock.backends.outgoing.addresses import Fence, is_address, taken_apart
from interlock.ports.outbound_http import UrlRefused

PUBLIC, PRIVATE = "93.184.216.34", "10.0.0.5"
URL = taken_apart("https://there.example/x")


@pytest.mark.parametrize("address", [
    PRIVATE, "127.0.0.1", "169.254.169.254", "192.168.1.1", "0.0.0.0", "100.64.0.1", "224.0.0.1", "::1", "fe80::1",
    "fc00::1", "::ffff:10.0.0.5", "64:ff9b::a00:5", "2002:a00:5::1", "2001:0:0:0:0:0:f5ff:fffa", "::10.0.0.5",
    "fec0::1", "192.88.99.1", "64:ff9b:1::1",
])
def test_no_internal_address_is_requested_even_if_embedded_in_another(address: str) -> None:
    with pytest.raises(UrlRefused, match="an address inside"):
        Fence().check(URL, address)


@pytest.mark.parametrize("address", [PUBLIC, "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::5db8:d822"])
def test_public_addresses_are_requested(address: str) -> None:
    Fence().check(URL, address)


def test_an_allowed_network_is_requested_even_unencrypted() -> None:
    fence, clear = Fence(["10.0.0.0/8"]), taken_apart("http://there.example/x")
    fence.check_scheme(clear)
    fence.check(clear, PRIVATE)
    with pytest.raises(UrlRefused, match="over https only"):
        fence.check(clear, PUBLIC)
    with pytest.raises(UrlRefused, match="over https only"):
        Fence().check_scheme(clear)
    with pytest.raises(UrlRefused, match="an address inside"):
        fence.check(URL, "192.168.1.1")


@pytest.mark.parametrize(("url", "authority", "path"), [
    ("https://there.example", "there.example", "/"),
    ("https://there.example:8443/a?b=c", "there.example:8443", "/a?b=c"),
    ("https://[2606::1]/x", "[2606::1]", "/x"), ("http://there.example:80/", "there.example", "/"),
    ("https://there.example:443/", "there.example", "/"),
])
def test_a_url_is_parsed_as_it_is_sent(url: str, authority: str, path: str) -> None:
    found = taken_apart(url)

    assert (found.authority, found.path) == (authority, path)


@pytest.mark.parametrize("url", [
    "ftp://there.example", "https://", "https://a b.example", "https://there.example\\@inside",
    "https://kim@there.example",
    "https://there.example/#x", "https://there.example:0/", "https://there.example:99999/", "https://[::1",
    "//there.example",
    "https://there.example/" + "x" * 3_000, "https://höst.example", "https://[fe80::1%eth0]/",
])
def test_an_ambiguous_url_is_refused(url: str) -> None:
    with pytest.raises(UrlRefused):
        taken_apart(url)


def test_an_address_is_recognised_by_its_form() -> None:
    assert [is_address(one) for one in (PUBLIC, "::1", "there.example", "fe80::1%eth0")] == [True, True, False, False]
