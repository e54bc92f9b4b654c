"""A push service on loopback: it stores posted bodies and verifies tokens, and a browser decrypts them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec
from joserfc import jwt
from joserfc.jwk import ECKey

from channels.post_server import Posted, PostServer, post_server
from interlock.channels.web_push import CURVE, from_base64url, in_base64url, point
from interlock.protocol.records import PushTarget


class SubscribedBrowser:
    """A browser's subscription at this service, with the keys that only the browser has."""

    def __init__(self, server: PostServer, name: str = "one") -> None:
        self.private = ec.generate_private_key(CURVE)
        self.auth = bytes(range(16))
        self.path = f"/push/{name}"
        self.server = server
        self.origin = server.url

    @property
    def endpoint(self) -> str:
        return self.origin + self.path

    @property
    def keys(self) -> dict[str, str]:
        return {"p256dh": in_base64url(point(self.private.public_key())), "auth": in_base64url(self.auth)}

    @property
    def target(self) -> PushTarget:
        return PushTarget(id="psh_1", endpoint=self.endpoint, created_ms=0, **self.keys)

    def posted(self) -> list[Posted]:
        return [one for one in self.server.got if one.line == f"POST {self.path}"]

    def read(self, posted: Posted) -> bytes:
        """Decrypt a message with a library that is not ours."""
        import http_ece  # It needs the extra `dev`.

        return http_ece.decrypt(posted.body, private_key=self.private, auth_secret=self.auth, version="aes128gcm")

    def claims(self, posted: Posted) -> dict[str, Any]:
        """Verify the token of a message, by the key that it names (RFC 8292)."""
        scheme, _, rest = posted.headers["authorization"].partition(" ")
        assert scheme == "vapid"
        parts = dict(one.strip().split("=", 1) for one in rest.split(","))
        raw = from_base64url(parts["k"])
        key = ECKey.import_key({"kty": "EC", "crv": "P-256", "x": in_base64url(raw[1:33]), "y": in_base64url(raw[33:])})
        return {**jwt.decode(parts["t"], key, algorithms=["ES256"]).claims, "k": parts["k"]}


@asynccontextmanager
async def push_service() -> AsyncIterator[PostServer]:
    """Serve on a free port."""
    async with post_server() as server:
        yield server
