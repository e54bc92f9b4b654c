"""Idempotency: the key's scope, the body's fingerprint, and requests in flight (M-1, M-2)."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from starlette.types import ASGIApp

from interlock.gateway.rest.answers import HttpResponse, raw_answer
from interlock.ports.ledger import Ledger, NameTaken
from interlock.protocol.limits import IDEMPOTENCY_KEY_MAX, IDEMPOTENCY_KEY_MIN
from interlock.protocol.problems import Place, Problem
from interlock.protocol.records import IdempotencyRecord, Principal

NONCE_BYTES = 12

_KEY = re.compile(rf"[\x21-\x7e]{{{IDEMPOTENCY_KEY_MIN},{IDEMPOTENCY_KEY_MAX}}}")


class RequestClaim(NamedTuple):
    """One request under its key. `scope` names tenant, principal, method, path and key; it and the body's `fingerprint`
    are SHA-256, hex."""

    scope: str
    fingerprint: str
    tenant_id: str
    seal: bytes | None = None
    """Set if the response holds a secret: it is stored encrypted under this, which only the request itself yields."""


class Memory:
    """The stored response of one request: the engine stores it in its transaction, and the request is answered with
    it."""

    def __init__(self, claim: RequestClaim, now_ms: int) -> None:
        self._claim = claim
        self._now_ms = now_ms
        self.record: IdempotencyRecord | None = None

    def keep(self, status: int, body: bytes, headers: dict[str, str], command_id: str | None = None
             ) -> IdempotencyRecord:
        """Return the row; the last one that was requested is the response."""
        seal = self._claim.seal
        self.record = IdempotencyRecord(
            tenant_id=self._claim.tenant_id, scope=self._claim.scope, fingerprint=self._claim.fingerprint,
            status=status, headers=headers,
            body=body if seal is None else _sealed(seal, body),
            created_ms=self._now_ms, command_id=command_id,
        )
        return self.record


def key_of(header_values: Sequence[str], body: Any) -> str:
    """Return the key from the header or the body. Raises Problem IdempotencyKeyMissing or InvalidPayload."""
    in_body: str | None = getattr(body, "idempotency_key", None)
    offered = {*header_values, *([in_body] if in_body is not None else [])}
    if not offered:
        raise Problem("IdempotencyKeyMissing", "This request changes state and carries no idempotency key.")
    if len(offered) > 1:
        raise Problem("InvalidPayload", "The idempotency keys of header and body differ.",
                      errors=(Place("/idempotency_key", "differs from the header"),))
    key = offered.pop()
    if _KEY.fullmatch(key) is None:
        form = f"{IDEMPOTENCY_KEY_MIN} to {IDEMPOTENCY_KEY_MAX} visible ASCII"
        raise Problem("InvalidPayload", "The idempotency key is invalid.",
                      errors=(Place("/idempotency_key", form),))
    return key


def claim_of(principal: Principal, method: str, path: str, key: str, form: bytes, *, secret: bool = False
             ) -> RequestClaim:
    """Return the claim of a request. `path` is the requested one, without version: two resources never share a
    response. `form` is the body's of RFC 8785. A `secret` response is repeated only to the credential that got it, with
    the same rights: another key of the same person may have lesser ones."""
    actor = principal.actor
    own = (principal.key_id, principal.role) if secret else ()
    scope = msgspec.json.encode([principal.tenant_id, actor.type, actor.id, method, path, key, *own])
    seal = hashlib.sha256(b"answer\n" + scope).digest() if secret else None
    return RequestClaim(hashlib.sha256(scope).hexdigest(), hashlib.sha256(form).hexdigest(), principal.tenant_id,
                        seal)


class IdempotentAnswers:
    """Answers a request once: repetitions get the same bytes, or a refusal with the reason."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._in_flight: dict[str, str] = {}

    async def answer(self, claim: RequestClaim, make: Callable[[Any], Awaitable[ASGIApp]],
                     ahead: Callable[[], Awaitable[Any] | None] | None) -> ASGIApp:
        """Return the response of `make`, once. `ahead` may start a read that `make` needs; it runs in parallel with the
        read of the stored response, and `make` gets its result. Raises Problem IdempotencyKeyReused or
        IdempotencyKeyInUse, and what `ahead` and `make` raise."""
        running = self._in_flight.get(claim.scope)
        if running is not None:
            raise _in_use() if running == claim.fingerprint else _reused()
        self._in_flight[claim.scope] = claim.fingerprint
        try:
            known, found = await self._known(claim, ahead() if ahead is not None else None)
            if known is not None:
                return _replayed(known, claim)
            if isinstance(found, BaseException):
                raise found
            try:
                return await make(found)
            except NameTaken:
                # Another gateway on the same ledger was faster.
                known = await self._ledger.idempotency(claim.scope, claim.tenant_id)
                if known is None:
                    raise _in_use() from None
                return _replayed(known, claim)
        finally:
            del self._in_flight[claim.scope]

    async def _known(self, claim: RequestClaim, reading: Awaitable[Any] | None) -> tuple[IdempotencyRecord | None, Any]:
        """Return the stored response, and what was read in parallel: a result, or the error that it raised."""
        if reading is None:
            return await self._ledger.idempotency(claim.scope, claim.tenant_id), None
        known, found = await asyncio.gather(self._ledger.idempotency(claim.scope, claim.tenant_id), reading,
                                            return_exceptions=True)
        if isinstance(known, BaseException):
            raise known
        return known, found


def _replayed(known: IdempotencyRecord, claim: RequestClaim) -> HttpResponse:
    if known.fingerprint != claim.fingerprint:
        raise _reused()
    body = known.body if claim.seal is None else _opened(claim.seal, known.body)
    return raw_answer(body, known.status, {**known.headers, "Idempotency-Replayed": "true"})


def _sealed(seal: bytes, body: bytes) -> bytes:
    """Encrypt a response that holds a secret: the ledger and its backups store no readable token."""
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(seal).encrypt(nonce, body, None)


def _opened(seal: bytes, kept: bytes) -> bytes:
    return AESGCM(seal).decrypt(kept[:NONCE_BYTES], kept[NONCE_BYTES:], None)


def _in_use() -> Problem:
    return Problem("IdempotencyKeyInUse", "A request with this idempotency key is in progress.",
                   headers={"Retry-After": "1"})


def _reused() -> Problem:
    return Problem("IdempotencyKeyReused", "This idempotency key was used with another body.")
