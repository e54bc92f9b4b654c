"""Notify browsers: messages that only the browser can decrypt (RFC 8291), sent to its push service (RFC 8030) with a
token of this gateway (RFC 8292)."""

from __future__ import annotations

import base64
import binascii
import os
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from interlock.channels.notice_post import post
from interlock.ports.channel import NotAsked
from interlock.ports.outbound_http import Outgoing
from interlock.protocol.records import PushTarget

RECORD_BYTES = 4_096
CONTENT_BYTES_MAX = 3_993
"""Limit of a message: one record of RECORD_BYTES with its header, the delimiter and the tag; push services accept no
more."""
TOKEN_LIFE_S = 43_200
"""RFC 8292 allows 24 hours."""
AUTH_BYTES = 16
SALT_BYTES = 16
GONE = frozenset({404, 410})
"""The subscription has ended (RFC 8030, section 7.3)."""
REJECTED = frozenset({400, 401, 403, 413})
"""The same message would be rejected again."""
BUSY = frozenset({429, 503})
CURVE = ec.SECP256R1()
_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of the curve P-256."""


class SubscriptionEnded(Exception):
    """The browser's subscription has ended."""


class PushMessage(NamedTuple):
    """One message: its content, the time in seconds that the push service stores it for an absent browser, and the
    topic, under which a later message replaces it there."""

    content: bytes
    ttl_s: int
    topic: str | None = None


class WebPush:
    """Sends messages to the endpoints of browsers, in the name of one gateway."""

    def __init__(self, signing_key: Ed25519PrivateKey, contact: str, outgoing: Outgoing) -> None:
        """`contact` is a `mailto:` or `https:` URL at which a push service reaches the operator."""
        from joserfc.jwk import ECKey  # It takes two of the gateway's megabytes: imported only to notify browsers.

        self._key = vapid_key(signing_key)
        self._jwk = ECKey.import_key(self._key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        self._contact = contact
        self._outgoing = outgoing
        self.public_key = in_base64url(point(self._key.public_key()))
        """The key with which browsers subscribe (`applicationServerKey`)."""

    def check(self, endpoint: str) -> None:
        """Refuse an endpoint that the outgoing rules do not allow. Raises UrlRefused."""
        self._outgoing.check(endpoint)

    async def send(self, target: PushTarget, message: PushMessage, now_ms: int) -> None:
        """Send one message. Raises SubscriptionEnded or NotAsked."""
        body = encrypted(message.content, from_base64url(target.p256dh), from_base64url(target.auth),
                         ec.generate_private_key(CURVE), os.urandom(SALT_BYTES))
        headers = {"content-type": "application/octet-stream", "content-encoding": "aes128gcm",
                   "ttl": str(message.ttl_s), "urgency": "high",
                   "authorization": f"vapid t={self._token(target.endpoint, now_ms)}, k={self.public_key}"}
        if message.topic is not None:
            headers["topic"] = message.topic
        reply = await post(self._outgoing, target.endpoint, headers, body)
        if reply.status in GONE:
            raise SubscriptionEnded
        if not 200 <= reply.status < 300:
            pause_ms = pause_of(reply.retry_after, now_ms) if reply.status in BUSY else 0
            raise NotAsked(f"the push service {host_of(target.endpoint)} answered with status {reply.status}",
                           final=reply.status in REJECTED, retry_after_ms=pause_ms)

    def _token(self, endpoint: str, now_ms: int) -> str:
        parts = urlsplit(endpoint)
        claims = {"aud": f"{parts.scheme}://{parts.netloc}", "exp": now_ms // 1000 + TOKEN_LIFE_S, "sub": self._contact}
        from joserfc import jwt

        return jwt.encode({"typ": "JWT", "alg": "ES256"}, claims, self._jwk)


def vapid_key(signing_key: Ed25519PrivateKey) -> ec.EllipticCurvePrivateKey:
    """Derive the key by which push services know this gateway from its signing key: so it is the same after a restart
    and a restore, and at all gateways of a cluster, and needs no file of its own."""
    seed = signing_key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    wide = HKDF(SHA256(), 48, salt=None, info=b"interlock web push key 1").derive(seed)
    return ec.derive_private_key(int.from_bytes(wide, "big") % (_ORDER - 1) + 1, CURVE)


def encrypted(content: bytes, receiver: bytes, auth: bytes, sender: ec.EllipticCurvePrivateKey, salt: bytes) -> bytes:
    """Encrypt one record according to RFC 8291. `sender` and `salt` are used once; `receiver` is a point of P-256,
    `auth` the browser's secret."""
    if len(content) > CONTENT_BYTES_MAX:
        raise ValueError(f"A message has {len(content)} bytes; at most {CONTENT_BYTES_MAX} fit.")
    own = point(sender.public_key())
    shared = sender.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, receiver))
    secret = _derived(shared, auth, b"WebPush: info\0" + receiver + own, 32)
    key = _derived(secret, salt, b"Content-Encoding: aes128gcm\0", 16)
    nonce = _derived(secret, salt, b"Content-Encoding: nonce\0", 12)
    head = salt + RECORD_BYTES.to_bytes(4, "big") + bytes([len(own)]) + own
    return head + AESGCM(key).encrypt(nonce, content + b"\x02", None)


def check_keys(p256dh: str, auth: str) -> None:
    """Check a browser's keys. Raises ValueError with one sentence."""
    if len(from_base64url(auth)) != AUTH_BYTES:
        raise ValueError(f"auth is {AUTH_BYTES} bytes in base64url")
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(CURVE, from_base64url(p256dh))
    except (ValueError, UnsupportedAlgorithm):
        raise ValueError("p256dh is not a point of P-256 in base64url") from None


def pause_of(retry_after: str | None, now_ms: int) -> int:
    """Read Retry-After, seconds or a date, as milliseconds from now; 0 if it is neither."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit() and len(text) < 10:
        return int(text) * 1_000
    try:
        return max(0, int(parsedate_to_datetime(text).timestamp() * 1_000) - now_ms)
    except (ValueError, TypeError, OverflowError):
        return 0


def host_of(endpoint: str) -> str:
    """Name the push service of an endpoint, whose path is a secret."""
    return urlsplit(endpoint).hostname or ""


def point(key: ec.EllipticCurvePublicKey) -> bytes:
    """Write a public key as an uncompressed point, 65 bytes."""
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def in_base64url(raw: bytes) -> str:
    """Write bytes in base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    """Read base64url with or without padding. Raises ValueError."""
    try:
        return base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not base64url") from None


def _derived(secret: bytes, salt: bytes, info: bytes, length: int) -> bytes:
    return HKDF(SHA256(), length, salt=salt, info=info).derive(secret)
