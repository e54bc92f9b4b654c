"""Audit records of changed settings: the policy's rules, the signing key (U-1)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.gateway.audit.signing_key import KeyUnusable
from interlock.ports.clock import Clock
from interlock.ports.ledger import AuditAppend, Fenced, LaneName, Ledger, PutFact, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft

POLICY_FACT = "policy_sha256"
KEY_FACT = "signing_key_sha256"
SETTINGS_LANE = LaneName("", "duty/settings")
"""Held during a change of settings: of two gateways that start at once with different keys one is refused."""
_WHO = {"id": "gateway", "role": "system"}


async def note_key(
    ledger: Ledger, clock: Clock, tenant_id: str, key: Ed25519PublicKey, path: Path, *, may_change: bool
) -> None:
    """Record a signing key, read from `path`, that differs from the one last in force (U-1, U-3). Raises LedgerError,
    and KeyUnusable if it may not differ: gateways that share a ledger sign with one key, or none of them could continue
    another's signatures."""
    digest = hashlib.sha256(key.public_bytes_raw()).hexdigest()
    while (before := await ledger.fact(KEY_FACT)) != digest:
        if before is not None and not may_change:
            raise KeyUnusable(
                f"{path} is another signing key than the one that the gateways of this ledger share. Put theirs there "
                "(`interlock cluster-keys` makes it once, for all). To have all sign with this one from now on, "
                "stop them, give it to each, and start the first with --new-signing-key.")
        epoch = await ledger.take(SETTINGS_LANE)
        if await ledger.fact(KEY_FACT) == before:
            with suppress(Fenced):
                await _note(ledger, clock, tenant_id, "key_rotate", KEY_FACT, digest,
                            {"key": "checkpoints", "before": before}, [(SETTINGS_LANE, epoch)])


async def note_policy(ledger: Ledger, clock: Clock, tenant_id: str, rules: Sequence[Any]) -> bool:
    """Record rules that differ from those last in force; returns whether they did. Raises LedgerError."""
    digest = hashlib.sha256(msgspec.json.encode(rules, order="deterministic")).hexdigest()
    before = await ledger.fact(POLICY_FACT)
    if before == digest:
        return False
    meta = {"change": "config", "rules": len(rules), "before": before}
    await _note(ledger, clock, tenant_id, "policy_change", POLICY_FACT, digest, meta)
    return True


async def _note(
    ledger: Ledger, clock: Clock, tenant_id: str, action: str, fact: str, digest: str, meta: dict[str, Any],
    lanes: Sequence[tuple[LaneName, int]] = (),
) -> None:
    draft = AuditDraft(tenant_id=tenant_id, at=iso(clock.now_ms()), who=_WHO, action=action,
                       meta={**meta, "digest": digest})
    await ledger.commit(WriteBatch([PutFact(fact, digest), AuditAppend(draft)], lanes))
