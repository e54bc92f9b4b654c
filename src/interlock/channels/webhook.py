"""Notify approvers by webhook: one POST per question, signed according to Standard Webhooks, so that a service that
forwards it to Slack, ntfy or mail can verify its origin (P-8)."""

from __future__ import annotations

import base64
import hashlib
import hmac

import msgspec

from interlock.channels.notice_post import post_webhook
from interlock.ports.channel import ApprovalNotice, Channel
from interlock.ports.outbound_http import Outgoing
from interlock.protocol.clock import iso

SECRET_PREFIX = "whsec_"
SECRET_BYTES_MIN = 24


class WebhookChannel(Channel):
    """POSTs `{type, timestamp, data}` with `webhook-id`, `webhook-timestamp` and `webhook-signature`."""

    def __init__(self, url: str, secret: bytes, outgoing: Outgoing) -> None:
        self._url = url
        self._secret = secret
        self._outgoing = outgoing

    async def ask(self, delivery_id: str, at_ms: int, asking: ApprovalNotice) -> None:
        """Send one question. Raises NotAsked."""
        await self._send(delivery_id, at_ms, "approval.pending", msgspec.to_builtins(asking))

    async def test(self, delivery_id: str, at_ms: int) -> None:
        """Send a test message without a question. Raises NotAsked."""
        await self._send(delivery_id, at_ms, "test", {})

    async def _send(self, delivery_id: str, at_ms: int, kind: str, data: object) -> None:
        body = msgspec.json.encode({"type": kind, "timestamp": iso(at_ms), "data": data})
        seconds = str(at_ms // 1000)
        headers = {"content-type": "application/json", "webhook-id": delivery_id, "webhook-timestamp": seconds,
                   "webhook-signature": signature(self._secret, delivery_id, seconds, body)}
        await post_webhook(self._outgoing, self._url, headers, body)


def signature(secret: bytes, message_id: str, seconds: str, body: bytes) -> str:
    """Sign according to Standard Webhooks: `v1,` and the base64 of HMAC-SHA-256 over `id.timestamp.body`."""
    mac = hmac.digest(secret, f"{message_id}.{seconds}.".encode() + body, hashlib.sha256)
    return "v1," + base64.b64encode(mac).decode()


def read_secret(text: str) -> bytes:
    """Read a secret, `whsec_` and base64 of at least 24 bytes. Raises ValueError with one sentence."""
    encoded = text.strip().removeprefix(SECRET_PREFIX)
    try:
        secret = base64.b64decode(encoded, validate=True)
    except ValueError:
        raise ValueError("is not `whsec_` and base64") from None
    if len(secret) < SECRET_BYTES_MIN:
        raise ValueError(f"has {len(secret)} bytes; at least {SECRET_BYTES_MIN} keep it from being guessed")
    return secret
