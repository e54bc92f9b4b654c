"""The OAuth device grant (RFC 8628) and the renewal of its tokens, as a public client.

Requests to issuers use TLS, or plain HTTP only to this machine, and redirects are not followed.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeVar
from urllib.parse import urlsplit

import httpx2
import msgspec

from interlock.cli.display.terminal import one_line
from interlock.cli.link import trust
from interlock.cli.verb_error import Trouble
from interlock.sdk.place import LOOPBACK

DISCOVERY = "/.well-known/openid-configuration"
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
INTERVAL_S = 5.0
"""Interval of polls if the issuer does not state one; also added after each `slow_down`."""
INTERVAL_MAX_S = 60.0
LIFE_MAX_S = 1_800.0
"""Maximum duration of a login, whatever the issuer states."""
TIMEOUT_S = 20.0
MAX_ANSWER_BYTES = 256 * 1024
SHOWN_CHARS = 200
LATEST_S = 253_402_300_799
"""The last second of the year 9999: no token ends later."""

T = TypeVar("T")
TokenForm = Literal["access_token", "id_token"]


class Endpoints(msgspec.Struct, frozen=True):
    """The members of an issuer's discovery document that a login needs."""

    issuer: str
    token_endpoint: str
    device_authorization_endpoint: str = ""
    revocation_endpoint: str = ""


class DeviceCode(msgspec.Struct, frozen=True):
    """The issuer's response to a request for a device code."""

    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    verification_uri_complete: str = ""
    interval: float = INTERVAL_S


class IssuedTokens(msgspec.Struct, frozen=True):
    """The issuer's response after the person has agreed, or to a renewal."""

    access_token: str = ""
    id_token: str = ""
    refresh_token: str = ""
    expires_in: float | None = None

    def candidates(self) -> list[tuple[TokenForm, str]]:
        """List the tokens that a gateway can check: an opaque one can be read by its issuer only."""
        both: list[tuple[TokenForm, str]] = [("access_token", self.access_token), ("id_token", self.id_token)]
        return [(form, token) for form, token in both if token.count(".") == 2]

    def token(self, form: TokenForm) -> str:
        """Return the token of one form; "" if the issuer sent none."""
        return self.access_token if form == "access_token" else self.id_token


class _Failure(msgspec.Struct, frozen=True):
    error: str = ""
    error_description: str = ""


class _Answer(NamedTuple):
    status: int
    body: bytes


class IssuerClient:
    """Requests to one issuer. `sleep` takes seconds, `now_s` is a monotonic clock."""

    def __init__(self, issuer: str, tls: ssl.SSLContext | None, sleep: Callable[[float], None],
                 now_s: Callable[[], float]) -> None:
        self._issuer = issuer
        self._sleep = sleep
        self._now_s = now_s
        local = urlsplit(issuer).hostname in LOOPBACK
        self._http = httpx2.Client(timeout=TIMEOUT_S, follow_redirects=False, trust_env=not local,
                                   verify=tls if tls is not None else True)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def discover(self) -> Endpoints:
        """Read the issuer's endpoints. Raises Trouble."""
        answer = self._ask("GET", self._issuer.rstrip("/") + DISCOVERY)
        if answer.status != 200:
            raise self._trouble(f"answered its discovery document with status {answer.status}")
        found = self._read(answer, Endpoints)
        if found.issuer != self._issuer:
            raise self._trouble("has a discovery document of another issuer")
        return found

    def begin(self, endpoint: str, client_id: str, scopes: list[str]) -> DeviceCode:
        """Request a code that a person confirms in a browser. Raises Trouble."""
        if not endpoint:
            raise self._trouble("does not offer the device grant", "Allow it there for the client "
                                f"{one_line(client_id, SHOWN_CHARS)}, or log in with --code or --key.")
        answer = self._ask("POST", endpoint, {"client_id": client_id, "scope": " ".join(scopes)})
        if answer.status != 200:
            raise self._refused(answer, "refused to begin a login")
        code = self._read(answer, DeviceCode)
        if urlsplit(code.verification_uri).scheme not in ("http", "https"):
            raise self._trouble("names a page for the login that is not a web page")
        return code

    def wait(self, endpoint: str, client_id: str, code: DeviceCode) -> IssuedTokens:
        """Poll until the person has agreed or declined, at the interval that the issuer requires. Raises Trouble."""
        ends_s = self._now_s() + min(code.expires_in, LIFE_MAX_S)
        interval_s = min(max(code.interval, 1.0), INTERVAL_MAX_S)
        form = {"grant_type": DEVICE_GRANT, "device_code": code.device_code, "client_id": client_id}
        while self._now_s() + interval_s < ends_s:
            self._sleep(interval_s)
            try:
                answer = self._ask("POST", endpoint, form)
            except Trouble as trouble:
                if trouble.code != "Unreachable":
                    raise
                interval_s = min(2 * interval_s, INTERVAL_MAX_S)  # As RFC 8628 requires after a request timed out.
                continue
            if answer.status == 200:
                return self._read(answer, IssuedTokens)
            match self._failure(answer).error:
                case "authorization_pending":
                    continue
                case "slow_down":
                    interval_s = min(interval_s + INTERVAL_S, INTERVAL_MAX_S)
                case "access_denied":
                    raise Trouble("Unauthorized", "The login was refused at the issuer.", "Log in again if that was "
                                  "a mistake.")
                case "expired_token":
                    break
                case _:
                    raise self._refused(answer, "ended the login")
        raise Trouble("Timeout", "The login was not confirmed in time.", "Start it again with: interlock login")

    def renew(self, endpoint: str, client_id: str, refresh_token: str) -> IssuedTokens:
        """Exchange a refresh token for another token. Raises Trouble, with code `Unauthorized` if the issuer has ended
        the login."""
        answer = self._ask("POST", endpoint, {"grant_type": "refresh_token", "refresh_token": refresh_token,
                                              "client_id": client_id})
        if answer.status != 200:
            raise self._refused(answer, "did not renew the login")
        return self._read(answer, IssuedTokens)

    def revoke(self, endpoint: str, client_id: str, refresh_token: str) -> None:
        """Revoke a refresh token at its issuer (RFC 7009). Raises Trouble."""
        answer = self._ask("POST", endpoint, {"token": refresh_token, "token_type_hint": "refresh_token",
                                              "client_id": client_id})
        if answer.status != 200:
            raise self._refused(answer, "did not end the login")

    def _ask(self, method: str, url: str, form: dict[str, str] | None = None) -> _Answer:
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise self._trouble(f"names {one_line(url, SHOWN_CHARS)!r}, which is not reached over TLS")
        try:
            with self._http.stream(method, url, data=form, headers={"Accept": "application/json"}) as response:
                body = bytearray()
                for piece in response.iter_bytes():
                    body += piece
                    if len(body) > MAX_ANSWER_BYTES:
                        raise self._trouble("sent an answer that is too long")
                return _Answer(response.status_code, bytes(body))
        except httpx2.TransportError as error:
            raise Trouble("Unreachable", f"The issuer {self._issuer} does not answer: {error or type(error).__name__}.",
                          trust.remedy(str(error)) or "Check that this machine reaches it.") from None

    def _read(self, answer: _Answer, kind: type[T]) -> T:
        try:
            return msgspec.json.decode(answer.body, type=kind, strict=False)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._trouble("sent an invalid response") from None

    def _failure(self, answer: _Answer) -> _Failure:
        try:
            return msgspec.json.decode(answer.body, type=_Failure)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return _Failure()

    def _refused(self, answer: _Answer, what: str) -> Trouble:
        failure = self._failure(answer)
        why = one_line(": ".join(part for part in (failure.error, failure.error_description) if part), SHOWN_CHARS)
        ended = failure.error in ("invalid_grant", "invalid_client", "unauthorized_client")
        return Trouble("Unauthorized" if ended else "UpstreamError",
                       f"The issuer {self._issuer} {what} ({why or f'status {answer.status}'}).",
                       "Log in again with: interlock login")

    def _trouble(self, what: str, remedy: str = "") -> Trouble:
        return Trouble("UpstreamError", f"The issuer {self._issuer} {what}.", remedy or "Check `[oidc]` in the "
                       "gateway's config.")


class _Claims(msgspec.Struct, frozen=True):
    exp: float | None = None
    """Seconds since 1970, as a number (RFC 7519)."""


def ends_ms(token: str) -> int | None:
    """Read when a JWT ends; None if it has no numeric end. Its signature is not checked: the gateway does that."""
    try:
        part = token.split(".")[1]
        claims = msgspec.json.decode(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)), type=_Claims)
    except (IndexError, ValueError, RecursionError, msgspec.DecodeError):
        return None
    return int(claims.exp * 1000) if claims.exp is not None and 0 <= claims.exp <= LATEST_S else None
