"""An OIDC issuer on loopback: discovery and keys over HTTP, keys that rotate, and responses that can be falsified.

With a `DeviceLogin` it also logs people in by the device grant (RFC 8628), renews tokens with refresh tokens that it
rotates, and revokes them (RFC 7009).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs

from joserfc import jws
from joserfc.jwk import ECKey, OKPKey, RSAKey

SigningKey = RSAKey | ECKey | OKPKey


DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"


@cache
def first_key() -> RSAKey:
    """Return the key that every issuer of this process begins with: to make one takes some 100 ms."""
    return RSAKey.generate_key(2048, {"kid": "first", "use": "sig"})


@dataclass
class DeviceLogin:
    """The device grant of one client: the content of its tokens, and the actions of the person at the browser."""

    client_id: str
    claims: Callable[[], dict[str, Any]]
    """Makes the claims of each access token."""
    pending: int = 1
    """So often the person has not decided yet when they are asked for."""
    refusals: list[str] = field(default_factory=list[str])
    """Errors that are answered first, in this order."""
    opaque: bool = False
    """Access tokens are opaque, and the id token has the claims."""
    rotates: bool = True
    codes: dict[str, int] = field(default_factory=dict[str, int])
    """Device codes that are not used up, and how often each was asked for."""
    refresh_tokens: set[str] = field(default_factory=set[str])
    """Those that are good."""
    issued: int = 0

    def begin(self, form: dict[str, str], issuer: str) -> tuple[int, dict[str, Any]]:
        """Answer a device authorization request."""
        if form.get("client_id") != self.client_id:
            return 401, {"error": "invalid_client"}
        code = f"device-{len(self.codes)}"
        self.codes[code] = 0
        return 200, {"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": f"{issuer}/device-page",
                     "expires_in": 300, "interval": 1}

    def token(self, form: dict[str, str], sign: Callable[[dict[str, Any]], str]) -> tuple[int, dict[str, Any]]:
        """Answer a token request."""
        if form.get("client_id") != self.client_id:
            return 401, {"error": "invalid_client"}
        if self.refusals:
            return 400, {"error": self.refusals.pop(0)}
        if form.get("grant_type") == DEVICE_GRANT:
            code = form.get("device_code", "")
            if code not in self.codes:
                return 400, {"error": "expired_token"}
            self.codes[code] += 1
            if self.codes[code] <= self.pending:
                return 400, {"error": "authorization_pending"}
            del self.codes[code]
            return 200, self._tokens(sign)
        spent = form.get("refresh_token", "")
        if form.get("grant_type") != "refresh_token" or spent not in self.refresh_tokens:
            return 400, {"error": "invalid_grant", "error_description": "the refresh token is not good"}
        if self.rotates:
            self.refresh_tokens.discard(spent)
        return 200, self._tokens(sign, "" if self.rotates else spent)

    def _tokens(self, sign: Callable[[dict[str, Any]], str], refresh_token: str = "") -> dict[str, Any]:
        self.issued += 1
        fresh = refresh_token or f"refresh-{self.issued}"
        self.refresh_tokens.add(fresh)
        signed = sign(self.claims())
        tokens: dict[str, Any] = {"access_token": "opaque" if self.opaque else signed, "token_type": "Bearer",
                                  "expires_in": 300, **({"id_token": signed} if self.opaque else {})}
        return tokens if refresh_token else {**tokens, "refresh_token": fresh}


class Issuer:
    """Listens on a free port of 127.0.0.1. `asked` counts requests by path; `answers` replaces what a path gives."""

    def __init__(self) -> None:
        self.key: SigningKey = first_key()
        self.published: list[dict[str, Any]] = [self.key.as_dict(private=False)]
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: dict[str, int] = {}
        self.url = ""
        self.device: DeviceLogin | None = None
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
        given: dict[str, Any] = {name: value for name, value in whole.items() if value is not None}
        registry = jws.JWSRegistry(algorithms=[given["alg"]], strict_check_header=False)
        return jws.serialize_compact(given, raw, key, registry=registry)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            path = head.split(" ")[1]
            self.asked[path] = self.asked.get(path, 0) + 1
            length = re.search(r"(?im)^content-length: *(\d+)", head)
            sent = await reader.readexactly(int(length[1])) if length is not None else b""
            status, body = self.answers.get(path) or (self._answer(path) if not sent else self._posted(path, sent))
            location = f"Location: {self.url}/elsewhere\r\n" if 300 <= status < 400 else ""
            writer.write(f"HTTP/1.1 {status} X\r\n{location}Content-Type: application/json\r\n"
                         f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
            await writer.drain()
        writer.close()

    def _answer(self, path: str) -> tuple[int, bytes]:
        if path == "/.well-known/openid-configuration":
            return 200, json.dumps({"issuer": self.url, "jwks_uri": f"{self.url}/keys", **(
                {"token_endpoint": f"{self.url}/token", "device_authorization_endpoint": f"{self.url}/device",
                 "revocation_endpoint": f"{self.url}/revoke"} if self.device is not None else {})}).encode()
        return (200, json.dumps({"keys": self.published}).encode()) if path == "/keys" else (404, b"{}")

    def _posted(self, path: str, sent: bytes) -> tuple[int, bytes]:
        """Answer the endpoints of the device grant, which take a form."""
        form = {name: values[0] for name, values in parse_qs(sent.decode("latin-1")).items()}
        if self.device is None:
            return 404, b"{}"
        match path:
            case "/device":
                status, answer = self.device.begin(form, self.url)
            case "/token":
                status, answer = self.device.token(form, self.sign)
            case "/revoke":
                self.device.refresh_tokens.discard(form.get("token", ""))
                status, answer = 200, {}
            case _:
                status, answer = 404, {}
        return status, json.dumps(answer).encode()
