"""An OIDC issuer on loopback: discovery and keys over HTTP, keys that rotate, and answers that can be made wrong."""

from __future__ import annotations

import asyncio
import contextlib
import json
from types import TracebackType
from typing import Any, Self

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

SigningKey = RSAKey | ECKey | OKPKey


class Issuer:
    """Listens on a free port of 127.0.0.1. `asked` counts requests by path; `answers` replaces what a path gives."""

    def __init__(self) -> None:
        self.key: SigningKey = RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})
        self.published: list[dict[str, Any]] = [self.key.as_dict(private=False)]
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: dict[str, int] = {}
        self.url = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        await self._server.wait_closed()

    def rotate(self, kid: str) -> SigningKey:
        """Publish another key, and sign with it; the earlier one is gone. Returns the earlier one."""
        earlier, self.key = self.key, ECKey.generate_key("P-256", {"kid": kid, "use": "sig"})
        self.published = [self.key.as_dict(private=False)]
        return earlier

    def sign(self, claims: dict[str, Any] | bytes, header: dict[str, Any] | None = None, key: SigningKey | None = None
             ) -> str:
        """Sign claims; header fields that are None are left out."""
        key = key or self.key
        algorithm = {"RSA": "RS256", "EC": "ES256", "OKP": "Ed25519"}[key.key_type]
        whole = {"alg": algorithm, "typ": "JWT", "kid": key.get("kid"), **(header or {})}
        raw = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
        given = {name: value for name, value in whole.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[given["alg"]], strict_check_header=False)
        return jws.serialize_compact(given, raw, key, registry=registry)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            path = (await reader.readuntil(b"\r\n\r\n")).split(b" ")[1].decode()
            self.asked[path] = self.asked.get(path, 0) + 1
            status, body = self.answers.get(path) or self._answer(path)
            location = f"Location: {self.url}/elsewhere\r\n" if 300 <= status < 400 else ""
            writer.write(f"HTTP/1.1 {status} X\r\n{location}Content-Type: application/json\r\n"
                         f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()

    def _answer(self, path: str) -> tuple[int, bytes]:
        if path == "/.well-known/openid-configuration":
            return 200, json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys"}).encode()
        return (200, json.dumps({"keys": self.published}).encode()) if path == "/keys" else (404, b"{}")
