"""A message to a browser: only that browser can read it, its push service can verify its origin, and the service's
response decides whether it is sent again (J-18)."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from channels.post_server import post_server
from channels.push_service import SubscribedBrowser
from interlock.backends.outgoing.http import HttpOutgoing
from interlock.channels.web_push import (
    CONTENT_BYTES_MAX,
    CURVE,
    TOKEN_LIFE_S,
    PushMessage,
    SubscriptionEnded,
    WebPush,
    encrypted,
    from_base64url,
    in_base64url,
    pause_of,
    vapid_key,
)
from interlock.ports.channel import NotAsked
from interlock.ports.outbound_http import UrlRefused

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-18")]
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CONTACT = "mailto:ops@example.org"
NOW_MS = 1_790_000_000_000
MESSAGE = PushMessage(b'{"title": "1 approval waits"}', 60, "apr_01")


def sender(*allowed: str) -> WebPush:
    return WebPush(KEY, CONTACT, HttpOutgoing(allowed or ["127.0.0.1/32"]))


def test_a_message_is_encrypted_as_in_the_example_of_rfc_8291() -> None:
    private = ec.derive_private_key(int.from_bytes(from_base64url("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw"),
                                                   "big"), CURVE)
    receiver = from_base64url(
        "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4")
    body = encrypted(b"When I grow up, I want to be a watermelon", receiver, from_base64url("BTBZMqHH6r4Tts7J_aSIgg"),
                     private, from_base64url("DGv6ra1nlYgDCS1FRnbzlw"))
    assert in_base64url(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27mlmlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl"
        "7A_yl95bQpu6cVPTpK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN")


@pytest.mark.needs("http-ece")
@pytest.mark.req("P-8")
async def test_a_browser_decrypts_the_message_and_the_service_verifies_the_token() -> None:
    async with post_server() as server:
        browser = SubscribedBrowser(server)
        for content in (MESSAGE.content, b"x" * CONTENT_BYTES_MAX):
            await sender().send(browser.target, MESSAGE._replace(content=content), NOW_MS)
            assert browser.read(browser.posted()[-1]) == content
    first, longest = browser.posted()
    assert len(longest.body) == 4_096
    assert b"approval" not in first.body
    assert {name: first.headers[name] for name in ("ttl", "topic", "urgency", "content-encoding")} == {
        "ttl": "60", "topic": "apr_01", "urgency": "high", "content-encoding": "aes128gcm"}


async def test_the_token_names_the_service_the_contact_and_a_stable_key() -> None:
    async with post_server() as server:
        browser = SubscribedBrowser(server)
        await sender().send(browser.target, MESSAGE, NOW_MS)
    assert browser.claims(browser.posted()[0]) == {
        "aud": server.url, "exp": NOW_MS // 1000 + TOKEN_LIFE_S, "sub": CONTACT, "k": sender().public_key}
    other = Ed25519PrivateKey.from_private_bytes(bytes(32))
    assert vapid_key(other).private_numbers() != vapid_key(KEY).private_numbers()
    assert len(from_base64url(sender().public_key)) == 65


@pytest.mark.parametrize("status", [404, 410])
async def test_a_subscription_that_the_service_ended_is_gone(status: int) -> None:
    async with post_server() as server:
        server.status = status
        with pytest.raises(SubscriptionEnded):
            await sender().send(SubscribedBrowser(server).target, MESSAGE, NOW_MS)


@pytest.mark.parametrize(("status", "retry_after", "final", "pause_ms"), [
    (429, "120", False, 120_000), (503, "7", False, 7_000), (500, "7", False, 0), (429, "soon", False, 0),
    (403, "", True, 0), (413, "", True, 0), (302, "", False, 0)])
async def test_the_services_answer_decides_whether_and_when_it_is_sent_again(
        status: int, retry_after: str, final: bool, pause_ms: int) -> None:
    async with post_server() as server:
        server.status = status
        server.headers = {"retry-after": retry_after} if retry_after else {}
        with pytest.raises(NotAsked) as failed:
            await sender().send(SubscribedBrowser(server).target, MESSAGE, NOW_MS)
    assert (failed.value.final, failed.value.retry_after_ms) == (final, pause_ms)
    assert str(failed.value) == f"the push service 127.0.0.1 answered with status {status}"


def test_a_pause_is_read_as_seconds_or_as_a_date() -> None:
    assert pause_of("Wed, 21 Oct 2015 07:28:00 GMT", 1_445_412_420_000) == 60_000
    assert pause_of("Wed, 21 Oct 2015 07:28:00 GMT", NOW_MS) == 0
    assert [pause_of(text, 0) for text in (None, "", "-1", "1.5", "9" * 30, "²")] == [0] * 6


async def test_no_message_is_sent_to_a_private_address() -> None:
    async with post_server() as server:
        target = SubscribedBrowser(server).target
        with pytest.raises(NotAsked) as failed:
            await sender("10.0.0.0/8").send(target, MESSAGE, NOW_MS)
        assert failed.value.final
        assert server.got == []
    with pytest.raises(UrlRefused):
        sender("10.0.0.0/8").check("https://169.254.169.254/latest")
