"""The hosts that a box's network reaches, by name and by address (H-19)."""

from __future__ import annotations

import pytest

from interlock.box.reach import (
    PROXY_PORT,
    Endpoint,
    Reach,
    from_entries,
    from_url,
    is_public,
    may_connect,
    normal,
)

pytestmark = pytest.mark.req("H-19")


@pytest.mark.parametrize(("host", "is_one"), [
    ("API.Example.com.", "api.example.com"), ("[::1]", "::1"), ("0:0:0:0:0:0:0:1", "::1"), ("192.0.2.1", "192.0.2.1"),
    ("0x7f.1", None), ("2130706433", None), ("127.1", None), ("a..b", None), ("-a.example", None), ("a b", None),
    ("", None), ("x" * 64 + ".example", None),
])
def test_a_host_has_one_spelling(host: str, is_one: str | None) -> None:
    assert normal(host) == is_one


@pytest.mark.parametrize("address", [
    "127.0.0.1", "10.0.0.1", "192.168.1.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",
    "::1", "fe80::1%eth0", "fc00::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1",
    "2002:7f00:1::", "ff02::1",
])
def test_a_private_address_is_not_public(address: str) -> None:
    assert not is_public(address)
    assert not may_connect(Endpoint("api.example.com", 443), address)
    assert may_connect(Endpoint("api.example.com", 443, anywhere=True), address), "a model may be there"


def test_a_public_address_is_public() -> None:
    assert is_public("93.184.216.34")
    assert is_public("2606:2800:220:1:248:1893:25c8:1946")
    assert is_public("::ffff:93.184.216.34")


def test_a_list_names_hosts_and_ports() -> None:
    reach = from_entries(["api.example.com", "git.example:22", "8443", "10.0.0.5:5000"])
    assert reach.find("api.example.com", 443) == Endpoint("api.example.com", 443)
    assert reach.find("api.example.com", 80) is None
    assert reach.find("git.example", 22) == Endpoint("git.example", 22, tls=False)
    assert reach.find("anything.example", 8443) == Endpoint("anything.example", 8443, tls=False)
    assert reach.find("192.0.2.1", 8443) is None, "a port is open to names alone"
    assert reach.find("evil.example", 443) is None
    assert reach.listening == (PROXY_PORT,)
    inside = reach.find("10.0.0.5", 5000)
    assert inside is not None
    assert may_connect(inside, "10.0.0.5"), "an address that is listed is meant"


@pytest.mark.parametrize("entry", ["127.0.0.1", "localhost:8080", "[::1]:443", "a.localhost", "0.0.0.0", "127.0.0.2:80",
                                   "::1", "http://a.example", "a.example:", "a.example:0", "a.example:x", ":443",
                                   "70000", "", "*.example.com"])
def test_no_list_may_contain_the_host_itself_or_be_empty(entry: str) -> None:
    with pytest.raises(ValueError, match=r"^network: "):
        from_entries([entry])


def test_a_base_url_is_reached_by_its_scheme() -> None:
    assert from_url("https://llm.example/v1") == Endpoint("llm.example", 443, tls=True, anywhere=True)
    assert from_url("http://llm.corp:8080") == Endpoint("llm.corp", 8080, tls=False, anywhere=True)
    assert from_url("localhost:11434").port == 11434
    with pytest.raises(ValueError, match="not an http or https URL"):
        from_url("ftp://x")


def test_a_model_on_this_machine_has_its_own_port_in_the_agents_network() -> None:
    reach = Reach((from_url("http://127.0.0.1:11434"), from_url("https://llm.example")))
    assert reach.listening == (PROXY_PORT, 11434)
    assert Reach().listening == ()
