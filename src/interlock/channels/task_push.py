"""Notification of an A2A client about a task by one POST, signed with the gateway's key according to Standard Webhooks
(O-9)."""

from __future__ import annotations

import base64

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from interlock.channels.notice_post import post_webhook
from interlock.ports.outbound_http import Outgoing
from interlock.protocol.records import TaskPush

PUBLIC_PREFIX = "whpk_"
TOKEN_HEADER = "x-a2a-notification-token"


class TaskPushSender:
    """Sends notifications. `key` is the gateway's; they are signed with one that is derived from it, so that a text
    signed for a client is never valid in the gateway's own log."""

    def __init__(self, key: Ed25519PrivateKey, outgoing: Outgoing) -> None:
        seed = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
        self._key = Ed25519PrivateKey.from_private_bytes(
            HKDF(SHA256(), 32, salt=None, info=b"interlock task push key 1").derive(seed))
        self._outgoing = outgoing
        public = self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public_key = PUBLIC_PREFIX + base64.b64encode(public).decode()
        """The key with which receivers verify signatures."""

    def configure(self, outgoing: Outgoing) -> None:
        """Send by `outgoing` from now on."""
        self._outgoing = outgoing

    def check(self, url: str) -> None:
        """Check the address for a client's notifications. Raises UrlRefused."""
        self._outgoing.check(url)

    async def send(self, push: TaskPush, message_id: str, at_ms: int, body: bytes) -> None:
        """Send one notification. Raises NotAsked."""
        seconds = str(at_ms // 1000)
        signed = self._key.sign(f"{message_id}.{seconds}.".encode() + body)
        headers = {"content-type": "application/a2a+json", "webhook-id": message_id, "webhook-timestamp": seconds,
                   "webhook-signature": "v1a," + base64.b64encode(signed).decode()}
        if push.token:
            headers[TOKEN_HEADER] = push.token
        if push.scheme:
            headers["authorization"] = f"{push.scheme} {push.credentials}"
        await post_webhook(self._outgoing, push.url, headers, body)
