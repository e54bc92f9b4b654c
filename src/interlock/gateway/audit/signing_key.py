"""The gateway's signing key (U-3)."""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from interlock.durable_files import replace_file

KEY_NAME = "gateway.key"
PUBLIC_NAME = "gateway.pub"
MAX_KEY_BYTES = 64 * 1024
"""Only so much of a file is read as a public key: it may be a device, or another file that was named by mistake."""


class KeyUnusable(Exception):
    """Raised if a key file exists and cannot be used; the sentence names it."""


def load_or_make_key(state: Path) -> Ed25519PrivateKey:
    """Read `<state>/gateway.key`, or create it (0600) together with `gateway.pub`. Raises KeyUnusable, OSError."""
    path = state / KEY_NAME
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                serialization.NoEncryption())
        replace_file(path, pem)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise KeyUnusable(f"{path} is not a private key: restore it, or move it away to begin with a new "
                          "one.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyUnusable(f"{path} holds a key of another kind than Ed25519.")
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    if not (state / PUBLIC_NAME).is_file() or (state / PUBLIC_NAME).read_bytes() != public:
        replace_file(state / PUBLIC_NAME, public)
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key in the form of `gateway.pub`. Raises KeyUnusable."""
    try:
        with path.open("rb") as file:
            key = serialization.load_pem_public_key(file.read(MAX_KEY_BYTES))
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise KeyUnusable(f"{path} is not a public key that can be read.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyUnusable(f"{path} holds a key of another kind than Ed25519.")
    return key
