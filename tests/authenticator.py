"""An authenticator of WebAuthn in software: it makes passkeys, and confirms statements with them as a browser would."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from interlock.command.passkey import PasskeyStatement, challenge_of, host_of
from interlock.protocol.resources import PasskeyAssertion, PasskeyBody

ORIGIN = "http://localhost:8765"
ALGORITHMS = ("ES256", "EdDSA", "RS256")


def base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


class SoftAuthenticator:
    """One passkey. Its user is present and verified by default."""

    def __init__(self, algorithm: str = "ES256", origin: str = ORIGIN) -> None:
        self._key: Any = {"ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
                          "EdDSA": ed25519.Ed25519PrivateKey.generate,
                          "RS256": lambda: rsa.generate_private_key(65_537, 2_048)}[algorithm]()
        self.origin = origin
        self.credential_id = base64url(b"credential of " + algorithm.encode())
        spki = self._key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        self.public_key = base64.b64encode(spki).decode()

    def confirms(self, signed_bytes: bytes, *, flags: int = 0x05, host: str | None = None, **client: Any
                 ) -> PasskeyAssertion:
        """Confirm a statement. `client` replaces what the browser writes of the request."""
        client_data = json.dumps({"type": "webauthn.get", "challenge": challenge_of(signed_bytes),
                                  "origin": self.origin, "crossOrigin": False, **client}).encode()
        of_host = hashlib.sha256((host or host_of(self.origin)).encode()).digest()
        data = of_host + bytes([flags]) + (7).to_bytes(4, "big")
        return PasskeyAssertion(authenticator_data=base64url(data), client_data_json=base64url(client_data),
                                signature=base64url(self._signed(data + hashlib.sha256(client_data).digest())))

    def registration(self, owner: str, at: str, tenant_id: str = "default", **how: Any) -> PasskeyBody:
        """What a page sends that has had a passkey made, and had it confirm whose it is; `how` is as in `confirms`."""
        statement = PasskeyStatement(tenant_id, owner, self.public_key, self.credential_id, at)
        return PasskeyBody(credential_id=self.credential_id, public_key=self.public_key, at=at, label="phone",
                           assertion=self.confirms(statement.signed_bytes(), **how))

    def _signed(self, message: bytes) -> bytes:
        if isinstance(self._key, ec.EllipticCurvePrivateKey):
            return self._key.sign(message, ec.ECDSA(SHA256()))
        if isinstance(self._key, rsa.RSAPrivateKey):
            return self._key.sign(message, padding.PKCS1v15(), SHA256())
        return self._key.sign(message)
