"""A client of A2A is notified by one POST, which can be verified with the public key alone (O-9)."""

from __future__ import annotations

import base64

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from channels.test_webhook import AT_MS, Receiver
from interlock.channels.task_push import PUBLIC_PREFIX, TaskPushSender
from interlock.ports.channel import NotAsked
from interlock.ports.outbound_http import Unreached, UrlRefused
from interlock.protocol.records import TaskPush

pytestmark = [pytest.mark.anyio, pytest.mark.req("O-9")]
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUSH = TaskPush(config_id="mine", task_id="cmd_1", url="https://client.example/x", origin="http://127.0.0.1")


async def test_a_notification_is_signed_by_a_key_other_than_the_logs() -> None:
    receiver = Receiver(204)
    sender = TaskPushSender(KEY, receiver)
    await sender.send(PUSH, "psh_1.mine", AT_MS, b'{"statusUpdate":{}}')
    ((line, headers, body),) = receiver.got
    assert line == "POST https://client.example/x"
    assert (headers["content-type"], headers["webhook-id"]) == ("application/a2a+json", "psh_1.mine")
    assert headers.keys().isdisjoint({"authorization", "x-a2a-notification-token"})
    signed = f"psh_1.mine.{headers['webhook-timestamp']}.".encode() + body
    version, _, signature = headers["webhook-signature"].partition(",")
    public = Ed25519PublicKey.from_public_bytes(base64.b64decode(sender.public_key.removeprefix(PUBLIC_PREFIX)))
    public.verify(base64.b64decode(signature), signed)
    assert version == "v1a"
    with pytest.raises(InvalidSignature):
        KEY.public_key().verify(base64.b64decode(signature), signed)


async def test_the_gateway_authenticates_with_the_clients_credentials() -> None:
    receiver = Receiver(200)
    known = TaskPush(**{name: getattr(PUSH, name) for name in ("config_id", "task_id", "url", "origin")},
                     token="its-token", scheme="Bearer", credentials="its-credentials")
    await TaskPushSender(KEY, receiver).send(known, "psh_1.mine", AT_MS, b"{}")
    ((_, headers, _),) = receiver.got
    assert (headers["x-a2a-notification-token"], headers["authorization"]) == ("its-token", "Bearer its-credentials")


@pytest.mark.parametrize(("answer", "final"), [
    (500, False), (302, False), (410, True), (Unreached("no answer"), False), (UrlRefused("inside"), True)])
async def test_a_failed_notification_reports_whether_it_is_permanent(answer: int | Exception, final: bool) -> None:
    with pytest.raises(NotAsked) as failed:
        await TaskPushSender(KEY, Receiver(answer)).send(PUSH, "psh_1.mine", AT_MS, b"{}")
    assert failed.value.final is final
