"""When the link is dialled again, and which gateway."""

import asyncio
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interlock.runner.link.reconnect import Backoff, UnsafeUrl, check_url, failed_dial, moved_url


@pytest.mark.req("L-5")
def test_the_ceiling_doubles_from_a_quarter_second_to_thirty() -> None:
    backoff = Backoff(lambda count: b"\xff" * count)
    delays = [backoff.next_ms() for _ in range(10)]
    assert delays == [249, 499, 999, 1_999, 3_999, 7_999, 15_999, 29_999, 29_999, 29_999]
    backoff.reset()
    assert backoff.next_ms() == 249


@pytest.mark.req("L-5")
@given(st.binary(min_size=4, max_size=4))
def test_the_jitter_is_full(drawn: bytes) -> None:
    assert 0 <= Backoff(lambda _: drawn).next_ms() < 250
    assert Backoff(lambda _: b"\0\0\0\0").next_ms() == 0


@pytest.mark.req("L-2")
@pytest.mark.parametrize("url", ["ws://127.0.0.1:1/rawp", "ws://[::1]:1/rawp", "ws://localhost/rawp",
                                 "wss://gateway.example/rawp"])
def test_loopback_may_be_plaintext_and_every_other_host_needs_tls(url: str) -> None:
    assert check_url(url) in url


@pytest.mark.req("L-2")
@pytest.mark.parametrize(("url", "sentence"), [
    ("ws://gateway.example/rawp", "in clear to gateway.example: use wss"),
    ("ws://10.0.0.7/rawp", "in clear to 10.0.0.7"),
    ("ws://localhost.example/rawp", "in clear"),
    ("ws://127.0.0.1@gateway.example/rawp", "in clear to gateway.example"),
    ("http://gateway.example", "not of the form"),
    ("wss://", "not of the form"),
    ("ws://[::1/rawp", "cannot be read"),
])
def test_other_urls_are_refused_with_one_sentence(url: str, sentence: str) -> None:
    with pytest.raises(UnsafeUrl, match=sentence):
        check_url(url)


@pytest.mark.req("L-2", "K-1")
def test_a_tls_gateway_gives_no_plaintext_address() -> None:
    assert moved_url("wss://a.example/rawp", "https://b.example/") == "wss://b.example/rawp"
    assert moved_url("ws://127.0.0.1:1/rawp", "http://127.0.0.1:2") == "ws://127.0.0.1:2/rawp"
    for place in ("http://127.0.0.1:2", "http://b.example", "postgresql://b.example/il"):
        with pytest.raises(UnsafeUrl):
            moved_url("wss://a.example/rawp", place)


@pytest.mark.anyio
@pytest.mark.req("L-5")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_port_without_a_server_is_reported_in_words(host: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        with pytest.raises(OSError) as caught:
            await asyncio.open_connection(host, free.getsockname()[1])
    assert failed_dial(caught.value) == "Connection refused"


@pytest.mark.parametrize(("error", "words"), [
    (OSError("Multiple exceptions: [Errno 111] Connect call failed ('::1', 7420, 0, 0), "
             "[Errno 113] Connect call failed ('10.0.0.1', 7420)"), "Connection refused, No route to host"),
    (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
    (OSError("TLS ended."), "TLS ended"),
])
def test_other_failures_to_dial_are_reported_in_words(error: OSError, words: str) -> None:
    assert failed_dial(error) == words
