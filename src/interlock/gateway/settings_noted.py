"""Telling the audit log when what decides has changed: the policy's rules, the key that signs (U-1)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from interlock.ports.clock import Clock
from interlock.ports.ledger import Audit, Batch, Ledger, PutFact
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft

POLICY_FACT = "policy_sha256"
KEY_FACT = "signing_key_sha256"
_WHO = {"id": "gateway", "role": "system"}


async def note_settings(
    ledger: Ledger, clock: Clock, tenant_id: str, key: Ed25519PublicKey, rules: Sequence[Any]
) -> None:
    """Record a policy or signing key that is another than the one last in force. Raises LedgerError."""
    await note_policy(ledger, clock, tenant_id, rules)
    digest = hashlib.sha256(key.public_bytes_raw()).hexdigest()
    before = await ledger.fact(KEY_FACT)
    if before != digest:
        await _note(ledger, clock, tenant_id, "key_rotate", KEY_FACT, digest, {"key": "checkpoints", "before": before})


async def note_policy(ledger: Ledger, clock: Clock, tenant_id: str, rules: Sequence[Any]) -> bool:
    """Record rules that are others than those last in force; tells whether they were. Raises LedgerError."""
    digest = hashlib.sha256(msgspec.json.encode(rules, order="deterministic")).hexdigest()
    before = await ledger.fact(POLICY_FACT)
    if before == digest:
        return False
    meta = {"change": "config", "rules": len(rules), "before": before}
    await _note(ledger, clock, tenant_id, "policy_change", POLICY_FACT, digest, meta)
    return True


async def _note(
    ledger: Ledger, clock: Clock, tenant_id: str, action: str, fact: str, digest: str, meta: dict[str, Any]
) -> None:
    draft = AuditDraft(tenant_id=tenant_id, at=iso(clock.now_ms()), who=_WHO, action=action,
                       meta={**meta, "digest": digest})
    await ledger.commit(Batch([PutFact(fact, digest), Audit(draft)]))
