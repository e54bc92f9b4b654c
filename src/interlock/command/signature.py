"""Signed votes: the bytes that are signed, and the verification of a signature (P-4)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Literal, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.command.canonical import canonical
from interlock.command.passkey import check_assertion, read_passkey
from interlock.protocol.clock import parse_iso
from interlock.protocol.problems import Problem, malformed
from interlock.protocol.resources import Decision, PasskeyAssertion, SigningKey

PREFIX = b"racp-approval-v1\n"
CLOCK_MS = 5 * 60 * 1000
"""Maximum difference between the signed moment and the gateway's own time, before or after."""
KEY_BYTES = 32


class Statement(NamedTuple):
    """What a voter signs: this decision, on this digest, of this approval, at this moment."""

    tenant_id: str
    subject_id: str
    """The approval's id."""
    digest: str
    decision: Decision
    approver: str
    """`user:…`, as votes name people."""
    key_id: str
    at: str

    def signed_bytes(self) -> bytes:
        """Return the signed bytes: the prefix, then canonical JSON (RFC 8785)."""
        return PREFIX + canonical(self._asdict())


def read_public_key(text: str) -> Ed25519PublicKey:
    """Parse a public key, 32 bytes as base64. Raises ValueError with one sentence."""
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64") from None
    if len(raw) != KEY_BYTES:
        raise ValueError(f"has {len(raw)} bytes; an Ed25519 public key has {KEY_BYTES}")
    return Ed25519PublicKey.from_public_bytes(raw)


def key_id_of(public_key: str, tenant_id: str) -> str:
    """Return a new key's id, derived from it and its tenant: one key pair has another id in each tenant, so that no
    tenant learns from a conflict what another has registered."""
    named = tenant_id.encode() + b"\n" + base64.b64decode(public_key)
    return "sgk_" + hashlib.sha256(named).hexdigest()[:16]


def verify(key: SigningKey, approver: str, statement: Statement, signature: str | PasskeyAssertion | None, now_ms: int
           ) -> None:
    """Verify a vote's signature, or a passkey's assertion, with its key. Raises Problem Forbidden, with one sentence
    for each possible fault."""
    if key.revoked_at is not None:
        raise _refused(f"The signing key {key.key_id} was revoked at {key.revoked_at}")
    check_moment(statement.at, now_ms)
    check_signature(key, approver, statement, signature)


def check_signature(key: SigningKey, approver: str, statement: Statement, signature: str | PasskeyAssertion | None
                    ) -> None:
    """Check that a key is the person's own, and has signed the statement, at any time. Raises Problem Forbidden."""
    if f"{key.owner.type}:{key.owner.id}" != approver or key.tenant_id != statement.tenant_id:
        raise _refused(f"The signing key {key.key_id} is not one of {approver}")
    if key.passkey is not None or isinstance(signature, PasskeyAssertion):
        _check_passkey(key, statement, signature)
        return
    try:
        read_public_key(key.public_key).verify(base64.b64decode(signature or "", validate=True),
                                               statement.signed_bytes())
    except (InvalidSignature, binascii.Error, ValueError):
        raise _refused("The signature does not hold for this approval, digest, decision, person, key and moment"
                       ) from None


def stricter(one: bool | Literal["passkey"], other: bool | Literal["passkey"]) -> bool | Literal["passkey"]:
    """Return the stricter of two rules' requirements of signatures."""
    return "passkey" if "passkey" in (one, other) else one or other


def check_moment(at: str, now_ms: int) -> None:
    """Raise Problem for a signed moment that is invalid, or too far from now."""
    try:
        at_ms = parse_iso(at)
    except ValueError:
        raise malformed("/at", "the signed moment is not an ISO 8601 time in UTC") from None
    if abs(at_ms - now_ms) > CLOCK_MS:
        raise _refused(f"The signed moment {at} is more than 5 minutes from the gateway's time")


def _check_passkey(key: SigningKey, statement: Statement, signature: str | PasskeyAssertion | None) -> None:
    if key.passkey is None or not isinstance(signature, PasskeyAssertion):
        kind, method = ("a passkey", "passkey") if key.passkey is not None else ("not a passkey", "signature")
        raise _refused(f"The key {key.key_id} is {kind}, so its votes have method {method}")
    try:
        check_assertion(read_passkey(key.public_key), key.passkey.origin, signature, statement.signed_bytes())
    except ValueError as error:
        raise _refused(f"The assertion {error}") from None


def _refused(sentence: str) -> Problem:
    return Problem("Forbidden", f"{sentence}; the vote was not counted",
                   hint="Show the approval again and sign what it shows now: interlock approve --sign.")
