"""The address of a gateway, and its key."""

from __future__ import annotations

import importlib.util
import os
import secrets
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from interlock.sdk.credential import credential_headers
from interlock.sdk.exchange import (
    CLOSE_TIMEOUT_S,
    CONNECT_TIMEOUT_S,
    MAX_MESSAGE_BYTES,
    NO_ANSWER,
    ConnectionCut,
    HttpReply,
)

if TYPE_CHECKING:
    import httpx2

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
URL_VARIABLE = "INTERLOCK_URL"
KEY_VARIABLE = "INTERLOCK_KEY"


KeySource: TypeAlias = Callable[[], str]
"""Returns the credential of the next request: one that is renewed in the meantime, such as an issuer's token."""


class GatewayAddress(NamedTuple):
    """A checked URL without a trailing slash, and a key, or a function that returns it."""

    url: str
    key: str | KeySource
    is_local: bool

    def credential(self) -> str:
        """Return the credential of the next request; it may take as long as a request to an issuer."""
        return self.key if isinstance(self.key, str) else self.key()

    def certificates(self, tls: ssl.SSLContext | bool) -> ssl.SSLContext | bool:
        """Return the context that verifies the certificates of HTTPS. `tls` is as `Interlock` takes it."""
        return trusting_none() if self.is_local and self.url.startswith("http:") else tls

    def socket(self, path: str, tls: ssl.SSLContext | bool, credential: str) -> SocketPlace:
        """Return the address of a WebSocket of this gateway. `tls` is as `Interlock` takes it.

        Raises: ModuleNotFoundError if the package `websockets`, of the extra `watch` of `interlock-sdk`, is not
        installed.
        """
        if importlib.util.find_spec("websockets") is None:
            raise ModuleNotFoundError("watch() needs the package websockets: install it, or interlock-sdk[watch].",
                                      name="websockets")
        options: dict[str, Any] = {
            "additional_headers": credential_headers(credential), "compression": None,
            "open_timeout": CONNECT_TIMEOUT_S, "close_timeout": CLOSE_TIMEOUT_S, "max_size": MAX_MESSAGE_BYTES,
        }
        if self.is_local:
            options["proxy"] = None
        if self.url.startswith("https") and tls is not True:
            options["ssl"] = _unverified() if tls is False else tls
        return SocketPlace("ws" + self.url.removeprefix("http") + path, options)


def trusting_none() -> ssl.SSLContext:
    """Return a context that no certificate satisfies, for connections that are never encrypted: unencrypted ones to
    this machine. Loading the system's trusted certificates would take longer than the request itself."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def unopened(error: Exception) -> HttpReply | ConnectionCut:
    """Return the reason why a WebSocket did not open: the gateway's refusal, or an unreachable gateway. Raises any
    other error."""
    from websockets.exceptions import InvalidStatus, WebSocketException

    if isinstance(error, InvalidStatus):
        answer = error.response
        return HttpReply(answer.status_code, bytes(answer.body), answer.headers.get("Retry-After"))
    if isinstance(error, OSError | WebSocketException):
        return ConnectionCut(str(error).strip() or type(error).__name__)
    raise error


def reply_of(response: httpx2.Response) -> HttpReply:
    """Return a response whose body was read."""
    return HttpReply(response.status_code, response.content, response.headers.get("Retry-After"),
                     response.headers.get("Location"))


def cut_of(error: httpx2.RequestError) -> ConnectionCut:
    """Return why a request has no response. Silence is not a lost connection: the gateway may still answer."""
    import httpx2

    if isinstance(error, httpx2.ReadTimeout):
        return ConnectionCut(NO_ANSWER)
    return ConnectionCut(str(error).strip() or type(error).__name__,
                         isinstance(error, httpx2.RemoteProtocolError | httpx2.ReadError))


class SocketPlace(NamedTuple):
    """The address of a WebSocket, and the options to open it."""

    url: str
    options: dict[str, Any]


def place(url: str | None, key: str | KeySource | None, *, in_clear: bool) -> GatewayAddress:
    """Return the address passed, otherwise that of the environment. Raises ValueError with the remedy."""
    url = url or os.environ.get(URL_VARIABLE)
    key = key or os.environ.get(KEY_VARIABLE)
    if not url or not key:
        missing, variable = ("url", URL_VARIABLE) if not url else ("key", KEY_VARIABLE)
        raise ValueError(f"no {missing}: pass `{missing}`, or set {variable}")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the URL of a gateway: write it as http://127.0.0.1:7420")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError("a gateway's URL carries no name, password, query or fragment; pass the key as `key`")
    if isinstance(key, str) and (not key.isascii() or not key.isprintable() or " " in key):
        raise ValueError("the key has characters that no key has")
    local = parts.hostname in LOOPBACK
    if parts.scheme == "http" and not local and not in_clear:
        raise ValueError(f"the key would go to {parts.hostname} in the clear: use https, or pass in_clear=True")
    return GatewayAddress(url.rstrip("/"), key, local)


def fresh_key() -> str:
    """Create an idempotency key (M-1)."""
    return "sdk-" + secrets.token_hex(16)
