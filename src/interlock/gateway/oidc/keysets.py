"""The keys of one issuer, by discovery: cached, and read again if a token names an unknown one (K-1)."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any, NamedTuple

import msgspec
import structlog
from joserfc.errors import JoseError
from joserfc.jwk import ECKey, JWKRegistry, OKPKey, RSAKey

from interlock.ports.clock import Clock
from interlock.ports.outbound_http import Outgoing, Unreached, UrlRefused
from interlock.protocol.problems import Problem

PublicKey = RSAKey | ECKey | OKPKey

DISCOVERY = "/.well-known/openid-configuration"
KEYS_LIFE_MS = 10 * 60 * 1000
"""Known keys are read again after this."""
KEYS_STALE_MS = 24 * 60 * 60 * 1000
"""While the issuer does not answer, known keys stay valid for this long."""
REFRESH_INTERVAL_MS = 30_000
"""Minimum interval between reads for tokens with unknown keys, which are refused meanwhile."""
FAILURE_PAUSE_MS = 5_000
"""Pause after a failed read."""
MAX_DOCUMENT_BYTES = 256 * 1024
MAX_KEYS = 100
"""Keys of one issuer; further ones are ignored."""
TIMEOUT_S = 5.0
RSA_BITS_MIN = 2_048

log = structlog.get_logger("interlock.gateway")


class _Discovery(msgspec.Struct):
    issuer: str
    jwks_uri: str


class _KeySet(msgspec.Struct):
    keys: list[dict[str, Any]]


class CachedKeys(NamedTuple):
    """The keys that were read, and when."""

    keys: tuple[PublicKey, ...]
    at_ms: int


class IssuerKeys:
    """One issuer's public keys. One request at a time; failures and unknown keys are throttled."""

    def __init__(self, issuer: str, outgoing: Outgoing, clock: Clock) -> None:
        self._issuer = issuer
        self._outgoing = outgoing
        self._clock = clock
        self._known: CachedKeys | None = None
        self._failed: tuple[int, Problem] | None = None
        self._asking = asyncio.Lock()

    async def find(self, kid: str | None, kind: str) -> PublicKey | None:
        """Return the key that a token names, of the kind that its algorithm requires; without a name the only one.

        Raises Problem UpstreamError or Unavailable while no keys are known.
        """
        known = await self._fresh(KEYS_LIFE_MS)
        found = _pick(known, kid, kind)
        if found is None and self._clock.monotonic_ms() - known.at_ms >= REFRESH_INTERVAL_MS:
            found = _pick(await self._fresh(REFRESH_INTERVAL_MS), kid, kind)
        return found

    async def _fresh(self, life_ms: int) -> CachedKeys:
        async with self._asking:
            now = self._clock.monotonic_ms()
            known = self._known
            if known is not None and now - known.at_ms < life_ms:
                return known
            if self._failed is None or now - self._failed[0] >= FAILURE_PAUSE_MS:
                try:
                    self._known = known = CachedKeys(await self._read(), now)
                    self._failed = None
                    return known
                except Problem as problem:
                    log.warning("issuer_failed", issuer=self._issuer, detail=problem.detail)
                    self._failed = (now, problem)
            if known is not None and now - known.at_ms < KEYS_STALE_MS:
                return known
            problem = self._failed[1]
            raise Problem(problem.code, problem.detail, headers={"Retry-After": str(FAILURE_PAUSE_MS // 1000)})

    async def _read(self) -> tuple[PublicKey, ...]:
        found = await self._document(self._issuer.rstrip("/") + DISCOVERY, _Discovery)
        if found.issuer != self._issuer:
            raise Problem("UpstreamError", "The issuer's discovery document is of another issuer.")
        raw = await self._document(found.jwks_uri, _KeySet)
        keys = tuple(key for one in raw.keys[:MAX_KEYS] if (key := _public(one)) is not None)
        if not keys:
            raise Problem("UpstreamError", "The issuer publishes no key that can be used.")
        return keys

    async def _document(self, url: str, kind: type[Any]) -> Any:
        try:
            answer = await self._outgoing.send("GET", url, headers={"Accept": "application/json"},
                                               max_bytes=MAX_DOCUMENT_BYTES, timeout_s=TIMEOUT_S)
        except UrlRefused as error:
            raise Problem("UpstreamError", f"The issuer cannot be asked. {error}") from None
        except Unreached as error:
            raise Problem("Unavailable", f"The issuer cannot be asked. {error}") from None
        if answer.status != 200:
            raise Problem("UpstreamError", f"The issuer answered with status {answer.status}.")
        try:
            return msgspec.json.decode(answer.body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Problem("UpstreamError", "The issuer's response is invalid.") from None


def _public(raw: dict[str, Any]) -> PublicKey | None:
    """Parse one key; a key that is secret, weak, not for signatures or not supported is ignored."""
    if raw.get("kty") not in ("RSA", "EC", "OKP") or raw.get("use", "sig") != "sig" or "d" in raw:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            key = JWKRegistry.import_key(raw)
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    if isinstance(key, RSAKey):
        return key if key.raw_value.key_size >= RSA_BITS_MIN else None
    return key if isinstance(key, ECKey | OKPKey) else None


def _pick(known: CachedKeys, kid: str | None, kind: str) -> PublicKey | None:
    fitting = [key for key in known.keys if key.key_type == kind]
    if kid is None:
        return fitting[0] if len(known.keys) == 1 and fitting else None
    return next((key for key in fitting if key.get("kid") == kid), None)
