"""API keys: the owner's, made at the first start (K-2), and who a key stands for (K-1)."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import os
from collections import OrderedDict
from pathlib import Path

from interlock.ports.clock import Clock, Entropy
from interlock.ports.ledger import Batch, Ledger, PutKey
from interlock.protocol.identifiers import ulid
from interlock.protocol.problems import Problem
from interlock.protocol.records import KeyRecord, Principal
from interlock.protocol.resources import Actor

KEY_PREFIX = "ilk_"
KEY_BYTES = 32
KEY_CHARS = 256
"""A longer credential is refused unread."""
OWNER_FILE = "owner.key"
OWNER_TENANT = "default"
CACHE_KEYS = 256
CACHE_MS = 1_000
"""A revoked key is refused at the latest after this."""


def digest(key: str) -> str:
    """Hash a key as it is stored: SHA-256, hex."""
    return hashlib.sha256(key.encode()).hexdigest()


def new_key(entropy: Entropy) -> str:
    """Make a key: `ilk_` and 32 random bytes in base64url."""
    return KEY_PREFIX + base64.urlsafe_b64encode(entropy(KEY_BYTES)).rstrip(b"=").decode()


def read_owner_key(state_dir: Path) -> str | None:
    """Read the owner key as the command line does; None before the first start."""
    with contextlib.suppress(FileNotFoundError):
        return (state_dir / OWNER_FILE).read_text("ascii").strip() or None
    return None


async def ensure_owner_key(state_dir: Path, ledger: Ledger, clock: Clock, entropy: Entropy) -> KeyRecord:
    """Make the owner key at the first start, and have the ledger know its hash at every start (K-2)."""
    key = read_owner_key(state_dir)
    if key is None:
        key = new_key(entropy)
        _write_private(state_dir / OWNER_FILE, key + "\n")
    known = await ledger.key(digest(key))
    if known is not None:
        return known
    now = clock.now_ms()
    record = KeyRecord(
        key_sha256=digest(key), key_id="key_" + ulid(now, entropy(10)), tenant_id=OWNER_TENANT,
        principal=Actor(type="user", id="owner"), role="owner", created_ms=now,
    )
    await ledger.commit(Batch([PutKey(record)]))
    return record


def _write_private(path: Path, text: str) -> None:
    """Write a file of mode 0600, whole or not at all, and have it on disk before it counts."""
    draft = path.with_name(path.name + ".new")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


class Credentials:
    """Tells who a bearer key stands for. Known keys are remembered for CACHE_MS, at most CACHE_KEYS of them."""

    def __init__(self, ledger: Ledger, clock: Clock) -> None:
        self._ledger = ledger
        self._clock = clock
        self._known: OrderedDict[str, tuple[int, Principal]] = OrderedDict()

    async def principal(self, key: str) -> Principal:
        """Raises Problem Unauthorized."""
        if not key.startswith(KEY_PREFIX) or len(key) > KEY_CHARS or not key.isascii():
            raise Problem("Unauthorized", "This is not an API key of Interlock.")
        hashed = digest(key)
        now = self._clock.monotonic_ms()
        known = self._known.get(hashed)
        if known is not None and now < known[0]:
            return known[1]
        self._known.pop(hashed, None)
        record = await self._ledger.key(hashed)
        if record is None or record.revoked:
            raise Problem("Unauthorized", "This API key is not known here, or no longer accepted.")
        principal = Principal(
            tenant_id=record.tenant_id, actor=record.principal, role=record.role, key_id=record.key_id
        )
        self._known[hashed] = (now + CACHE_MS, principal)
        if len(self._known) > CACHE_KEYS:
            self._known.popitem(last=False)
        return principal
