"""The address of a gateway, and the key for it: an invalid one is refused before anything is sent (K-1, L-2)."""

from __future__ import annotations

import ssl

import httpx2
import pytest

from interlock.sdk.exchange import NO_ANSWER, ConnectionCut
from interlock.sdk.place import GatewayAddress, cut_of, fresh_key, place, unopened

URL = "https://gateway.example"


@pytest.mark.parametrize(("url", "key", "sentence"), [
    (None, "k", "no url: pass"), ("http://127.0.0.1:7420", None, "no key: pass"),
    ("ftp://x", "k", "not the URL"), ("http://u:p@127.0.0.1", "k", "carries no name"),
    ("http://gateway.example", "k", "in the clear"), ("http://127.0.0.1:1", "a b", "characters that no key has")])
def test_a_wrong_url_is_refused_before_anything_is_sent(
    url: str | None, key: str | None, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    monkeypatch.delenv("INTERLOCK_KEY", raising=False)
    with pytest.raises(ValueError, match=sentence):
        place(url, key, in_clear=False)


def test_url_and_key_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INTERLOCK_URL", "https://gateway.example/")
    monkeypatch.setenv("INTERLOCK_KEY", "ilk_k")
    assert place(None, None, in_clear=False) == GatewayAddress("https://gateway.example", "ilk_k", is_local=False)


@pytest.mark.parametrize(("url", "is_local"), [
    ("http://127.0.0.1:7420", True), ("http://[::1]:7420/", True), ("http://localhost", True),
    ("https://gateway.example/", False)])
def test_loopback_needs_no_tls(url: str, is_local: bool) -> None:
    assert place(url, "ilk_k", in_clear=False) == GatewayAddress(url.rstrip("/"), "ilk_k", is_local)


@pytest.mark.parametrize("url", ["", "gateway.example", "http://", "https://:7420", "https://u@h", "https://h/?a=1",
                                 "https://h/#a", "file:///etc"])
def test_a_url_that_is_not_a_gateways_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    with pytest.raises(ValueError, match=r"URL|no url"):
        place(url, "ilk_k", in_clear=False)


def test_an_unencrypted_key_must_be_allowed_explicitly() -> None:
    assert place("http://gateway.example", "ilk_k", in_clear=True).is_local is False


@pytest.mark.req("Y-11")
def test_a_key_may_be_requested_for_each_request() -> None:
    keys = iter(["one", "two"])
    address = place(URL, lambda: next(keys), in_clear=False)
    assert [address.credential(), address.credential()] == ["one", "two"]


def test_certificates_are_checked_as_configured_and_only_with_tls() -> None:
    own = ssl.create_default_context()
    assert place(URL, "k", in_clear=False).certificates(own) is own
    assert place(URL, "k", in_clear=False).certificates(True) is True
    local = place("http://127.0.0.1:1", "k", in_clear=False).certificates(True)
    assert isinstance(local, ssl.SSLContext)
    assert local.get_ca_certs() == []


def test_a_websocket_has_the_same_address_and_credential() -> None:
    found = place(URL + "/base", "ilk_k", in_clear=False).socket("/v1/ws", True, "ilk_k")
    assert found.url == "wss://gateway.example/base/v1/ws"
    assert found.options["additional_headers"] == {"Authorization": "Bearer ilk_k"}
    assert "ssl" not in found.options
    assert "proxy" not in found.options
    unverified = place(URL, "k", in_clear=False).socket("/", False, "k").options["ssl"]
    assert unverified.verify_mode is ssl.CERT_NONE
    local = place("http://127.0.0.1:1", "k", in_clear=False).socket("/", True, "k")
    assert (local.url, local.options["proxy"]) == ("ws://127.0.0.1:1/", None)


def test_a_socket_that_did_not_open_is_a_cut_and_other_errors_are_raised() -> None:
    assert unopened(OSError("refused")) == ConnectionCut("refused")
    assert unopened(TimeoutError()) == ConnectionCut("TimeoutError")
    with pytest.raises(KeyError):
        unopened(KeyError("a bug"))


@pytest.mark.req("M-1")
def test_each_idempotency_key_is_unique() -> None:
    keys = {fresh_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(8 <= len(key) <= 255 and key.isascii() for key in keys)


@pytest.mark.req("M-1")
@pytest.mark.parametrize(("error", "cut"), [
    (httpx2.ReadTimeout("timed out"), ConnectionCut(NO_ANSWER)),
    (httpx2.ConnectTimeout("timed out"), ConnectionCut("timed out")),
    (httpx2.ConnectError("refused"), ConnectionCut("refused")),
    (httpx2.ReadError(""), ConnectionCut("ReadError", broke_off=True)),
    (httpx2.RemoteProtocolError("no response"), ConnectionCut("no response", broke_off=True)),
])
def test_silence_a_lost_connection_and_an_absent_gateway_are_distinguished(
        error: httpx2.RequestError, cut: ConnectionCut) -> None:
    assert cut_of(error) == cut
