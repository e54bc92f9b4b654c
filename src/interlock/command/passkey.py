"""Passkeys: what a WebAuthn authenticator signs for a statement, and its verification (J-17).

The challenge is the SHA-256 of the statement, so a signature is valid for that statement only and no challenge needs to
be stored. The checks are the steps of WebAuthn level 2, section 7.2, that concern an assertion by a known key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
from typing import Any, NamedTuple, cast

import msgspec
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, SECP256R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_der_public_key

from interlock.command.canonical import canonical
from interlock.protocol.resources import PasskeyAssertion

PREFIX = b"racp-passkey-v1\n"
PRESENT, VERIFIED = 0x01, 0x04
"""Flags of the authenticator: a person was present; it was its user, verified by a finger, a face or a PIN."""
FLAGS_AT, DATA_LEAST = 32, 37
"""Offset of the flags after the hash of the host, and minimum length of the authenticator's data."""
RSA_LEAST = 2_048
LOCAL = "localhost"

PasskeyPublicKey = EllipticCurvePublicKey | Ed25519PublicKey | RSAPublicKey


class PasskeyStatement(NamedTuple):
    """What a person signs to register a passkey: this key is theirs, from this moment on."""

    tenant_id: str
    owner: str
    """`user:…`, as votes name people."""
    public_key: str
    credential_id: str
    at: str

    def signed_bytes(self) -> bytes:
        """Return the bytes whose SHA-256 is the challenge: the prefix, then canonical JSON (RFC 8785)."""
        return PREFIX + canonical(self._asdict())


class _ClientData(msgspec.Struct):
    type: str
    challenge: str
    origin: str
    cross_origin: Any = msgspec.field(name="crossOrigin", default=False)


_client_data = msgspec.json.Decoder(_ClientData)


def challenge_of(signed_bytes: bytes) -> str:
    """Return the challenge for a statement, as a browser writes it to its client data."""
    return base64.urlsafe_b64encode(hashlib.sha256(signed_bytes).digest()).decode().rstrip("=")


def read_passkey(text: str) -> PasskeyPublicKey:
    """Parse a public key, DER of SubjectPublicKeyInfo as base64: ES256, EdDSA or RS256. Raises ValueError with one
    sentence."""
    try:
        key = load_der_public_key(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, UnsupportedAlgorithm):
        raise ValueError("is not a public key in DER, as base64") from None
    if isinstance(key, EllipticCurvePublicKey) and isinstance(key.curve, SECP256R1):
        return key
    if isinstance(key, Ed25519PublicKey) or (isinstance(key, RSAPublicKey) and key.key_size >= RSA_LEAST):
        return cast("PasskeyPublicKey", key)
    raise ValueError(f"is a key of another kind than ES256, EdDSA or RS256 with at least {RSA_LEAST} bits")


def origin_of(assertion: PasskeyAssertion) -> str:
    """Return the origin of the page that requested an assertion, as the browser wrote it. Raises ValueError."""
    return _read(assertion).origin


def host_of(origin: str) -> str:
    """Return the host that a passkey of this origin is bound to. Raises ValueError with one sentence for an origin that
    can have none: passkeys need a host name, and https except for `localhost`."""
    scheme, _, place = origin.partition("://")
    host = place.rpartition(":")[0] if place.rpartition(":")[2].isdigit() else place
    try:
        ipaddress.ip_address(host.strip("[]"))
        is_name = False
    except ValueError:
        is_name = host not in ("", "null")
    if not is_name or ((scheme, host) != ("http", LOCAL) and scheme != "https"):
        raise ValueError(f"comes from {origin[:200]!r}, which can have no passkeys: open the console at https or at "
                         f"http://{LOCAL}")
    return host


def check_assertion(public_key: PasskeyPublicKey, origin: str, assertion: PasskeyAssertion, signed_bytes: bytes
                    ) -> None:
    """Check that the authenticator's user has confirmed a statement with this key, on a page of this origin. Raises
    ValueError with one sentence."""
    client = _read(assertion)
    if client.type != "webauthn.get" or client.cross_origin not in (False, None):
        raise ValueError("is not an assertion that this page itself asked for")
    if client.challenge.rstrip("=") != challenge_of(signed_bytes):
        raise ValueError("does not hold for this statement")
    if client.origin != origin:
        raise ValueError(f"was made on a page of {client.origin[:200]!r}, and the passkey is for {origin!r}")
    data = _decoded(assertion.authenticator_data)
    if len(data) < DATA_LEAST or data[:FLAGS_AT] != hashlib.sha256(host_of(origin).encode()).digest():
        raise ValueError("is of an authenticator that was asked for another host")
    if data[FLAGS_AT] & (PRESENT | VERIFIED) != PRESENT | VERIFIED:
        raise ValueError("was made without the authenticator knowing the person, by a finger, a face or a PIN")
    signed = data + hashlib.sha256(_decoded(assertion.client_data_json)).digest()
    try:
        _verify(public_key, _decoded(assertion.signature), signed)
    except InvalidSignature:
        raise ValueError("does not hold for this passkey") from None


def _verify(public_key: PasskeyPublicKey, signature: bytes, signed: bytes) -> None:
    match public_key:
        case EllipticCurvePublicKey():
            public_key.verify(signature, signed, ECDSA(SHA256()))
        case RSAPublicKey():
            public_key.verify(signature, signed, PKCS1v15(), SHA256())
        case _:
            public_key.verify(signature, signed)


def _read(assertion: PasskeyAssertion) -> _ClientData:
    try:
        return _client_data.decode(_decoded(assertion.client_data_json))
    except msgspec.MsgspecError:
        raise ValueError("has client data that cannot be read") from None


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("is not base64url") from None
