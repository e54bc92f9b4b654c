"""Signed notes, log checkpoints and witnesses' cosignatures, as C2SP specifies them (U-3).

A note is a text, an empty line, and lines `— NAME BASE64(key id, signature)` (c2sp.org/signed-note). A checkpoint is a
note whose text is the log's origin, its number of records and its Merkle root (c2sp.org/tlog-checkpoint). A cosignature
states when a witness saw that the log had only grown up to there (c2sp.org/tlog-cosignature).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ED25519 = 0x01
COSIGNATURE = 0x04
MAX_NOTE_BYTES = 8_192
"""A longer note is refused; Interlock's have some 200 bytes, and a cosignature adds 150."""
MAX_SIGNATURES = 16
ORIGIN_PREFIX = "interlock.audit/"

_SIZE = re.compile(r"0|[1-9][0-9]{0,15}")
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f]")


class NotANote(ValueError):
    """Raised if the bytes are not a signed checkpoint; the text is the reason."""


class Signature(NamedTuple):
    """A signature line: the signer, the key's short id, and the signature with what precedes it."""

    name: str
    key_id: bytes
    blob: bytes


class Checkpoint(NamedTuple):
    """A signed statement of a log's size and root. `text` is what was signed, `note` all of it."""

    origin: str
    size: int
    root: bytes
    text: str
    signatures: tuple[Signature, ...]

    @property
    def note(self) -> str:
        """Return the note, as it is stored and forwarded."""
        return self.text + "\n" + "".join(map(_line, self.signatures))

    @property
    def tenant_id(self) -> str:
        """Return the tenant whose log it is."""
        return unquote(self.origin.rpartition("/")[2])


def origin_of(gateway_id: str, tenant_id: str) -> str:
    """Return the permanent name of a tenant's log: `interlock.audit/GATEWAY/TENANT`, without spaces and plus signs."""
    return ORIGIN_PREFIX + quote(gateway_id, safe="") + "/" + quote(tenant_id, safe="")


def key_id(name: str, kind: int, public_key: Ed25519PublicKey) -> bytes:
    """Return the four bytes by which a note names a key."""
    return hashlib.sha256(name.encode() + b"\n" + bytes([kind]) + public_key.public_bytes_raw()).digest()[:4]


def sign_checkpoint(key: Ed25519PrivateKey, origin: str, size: int, root: bytes) -> Checkpoint:
    """Sign a log's size and root, as the log."""
    text = f"{origin}\n{size}\n{base64.b64encode(root).decode()}\n"
    signature = Signature(origin, key_id(origin, ED25519, key.public_key()), key.sign(text.encode()))
    return Checkpoint(origin, size, root, text, (signature,))


def parse_checkpoint(note: str) -> Checkpoint:
    """Parse a checkpoint in exactly the form it is written in; signatures are not checked. Raises NotANote."""
    if len(note) > MAX_NOTE_BYTES or _CONTROL.search(note):
        raise NotANote("A checkpoint is at most 8 KiB of text.")
    text, gap, tail = note.rpartition("\n\n")
    if not gap or not tail.endswith("\n"):
        raise NotANote("A checkpoint is a text, an empty line and signature lines.")
    lines = text.split("\n")
    if len(lines) < 3 or not all(lines) or not _SIZE.fullmatch(lines[1]):
        raise NotANote("A checkpoint's text is an origin, a size and a root.")
    root = _decoded(lines[2])
    if len(root) != hashlib.sha256().digest_size:
        raise NotANote("A checkpoint's root is a SHA-256.")
    shown = tail.removesuffix("\n").split("\n")
    if len(shown) > MAX_SIGNATURES:
        raise NotANote(f"A checkpoint has at most {MAX_SIGNATURES} signatures.")
    return Checkpoint(lines[0], int(lines[1]), root, text + "\n", tuple(map(_signature, shown)))


def is_genuine(checkpoint: Checkpoint, public_key: Ed25519PublicKey) -> bool:
    """Return whether the log with this key signed the checkpoint."""
    wanted = (checkpoint.origin, key_id(checkpoint.origin, ED25519, public_key))
    found = [one for one in checkpoint.signatures if (one.name, one.key_id) == wanted]
    return bool(found) and all(_verifies(public_key, one.blob, checkpoint.text.encode()) for one in found)


def cosign(key: Ed25519PrivateKey, name: str, checkpoint: Checkpoint, at_s: int) -> Checkpoint:
    """Add a witness's cosignature/v1 of a second since the epoch, replacing its earlier ones."""
    blob = at_s.to_bytes(8, "big") + key.sign(_cosigned(checkpoint, at_s))
    own = Signature(name, key_id(name, COSIGNATURE, key.public_key()), blob)
    others = tuple(one for one in checkpoint.signatures if (one.name, one.key_id) != (own.name, own.key_id))
    return checkpoint._replace(signatures=(*others, own))


def cosigned_at(checkpoint: Checkpoint, name: str, public_key: Ed25519PublicKey) -> int | None:
    """Return the second at which the witness cosigned; None if it did not, or the cosignature is invalid."""
    wanted = (name, key_id(name, COSIGNATURE, public_key))
    for one in checkpoint.signatures:
        if (one.name, one.key_id) == wanted and len(one.blob) == 72:
            at_s = int.from_bytes(one.blob[:8], "big")
            if _verifies(public_key, one.blob[8:], _cosigned(checkpoint, at_s)):
                return at_s
    return None


def verifier_key(name: str, kind: int, public_key: Ed25519PublicKey) -> str:
    """Return a public key in the form of the notes' tools: `NAME+KEYID+BASE64(kind, key)`."""
    material = bytes([kind]) + public_key.public_bytes_raw()
    return f"{name}+{key_id(name, kind, public_key).hex()}+{base64.b64encode(material).decode()}"


def _cosigned(checkpoint: Checkpoint, at_s: int) -> bytes:
    return f"cosignature/v1\ntime {at_s}\n{checkpoint.text}".encode()


def _line(signature: Signature) -> str:
    return f"— {signature.name} {base64.b64encode(signature.key_id + signature.blob).decode()}\n"


def _signature(line: str) -> Signature:
    parts = line.split(" ")
    if len(parts) != 3 or parts[0] != "—" or not parts[1] or "+" in parts[1]:
        raise NotANote("A signature line is a dash, a name and a signature.")
    blob = _decoded(parts[2])
    if len(blob) < 5:
        raise NotANote("A signature is too short.")
    return Signature(parts[1], blob[:4], blob[4:])


def _decoded(text: str) -> bytes:
    try:
        raw = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise NotANote("What should be base64 is not.") from error
    if base64.b64encode(raw).decode() != text:  # Spare bits of the last letter would be a second form of the same.
        raise NotANote("What should be base64 is not in its one form.")
    return raw


def _verifies(public_key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    try:
        public_key.verify(signature, message)
    except InvalidSignature:
        return False
    return True
