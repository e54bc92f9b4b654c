"""Signing how far each tenant's audit log goes, and keeping that outside the database (U-3).

A checkpoint is never signed over a log that the one before does not lead up to: that would hide what it shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from interlock.command.audit import checkpoint_line
from interlock.command.audit_lines import parse_checkpoint_line
from interlock.command.audit_tree import Wanted, beside, cut, subtree
from interlock.command.note import Checkpoint, is_genuine, origin_of, sign_checkpoint
from interlock.ports.checkpoints import CheckpointSink
from interlock.ports.ledger import Ledger, LedgerError
from interlock.protocol.limits import CHECKPOINT_INTERVAL_MS, CHECKPOINT_RECORDS

SIGN_EVERY_MS = CHECKPOINT_INTERVAL_MS * 4 // 5
"""The signer looks this often, so that with the time of signing it stays within CHECKPOINT_INTERVAL_MS."""

T = TypeVar("T")
_log = structlog.stdlib.get_logger()


async def _always() -> bool:
    return True


class CheckpointRefused(Exception):
    """The log does not lead up to what was signed before; signing over it would hide that."""


async def compute(wanted: Wanted[T], ledger: Ledger, tenant_id: str) -> T:
    """Drive a computation on a tenant's tree with the ledger's hashes. Raises LedgerError if the log is too short."""
    try:
        spans = next(wanted)
        while True:
            read = beside(spans)
            hashes = cut(spans, read, await ledger.audit_hashes(tenant_id, read))
            if any(len(found) != span.end - span.start for found, span in zip(hashes, spans, strict=True)):
                raise LedgerError(f"The audit log of {tenant_id} does not go so far.")
            spans = wanted.send(hashes)
    except StopIteration as done:
        return done.value


def newest(lines: Sequence[bytes]) -> bytes | None:
    """Give the last line of a sink, passing over one that a power cut tore; None while there is none."""
    if len(lines) > 1 and not lines[-1].endswith(b"\n") and parse_checkpoint_line(lines[-1]) is None:
        return lines[-2]
    return lines[-1] if lines else None


class CheckpointSigner:
    """Signs each tenant's log every CHECKPOINT_RECORDS or CHECKPOINT_INTERVAL_MS, and once more at shutdown."""

    def __init__(self, ledger: Ledger, key: Ed25519PrivateKey, gateway_id: str, sink: CheckpointSink) -> None:
        self._ledger = ledger
        self._key = key
        self._gateway_id = gateway_id
        self._sink = sink
        self._signed: dict[str, Checkpoint] = {}
        self._refused: set[str] = set()
        self._turn = asyncio.Lock()  # An export may ask for a checkpoint while the round is under way.
        self._due = asyncio.Event()
        self.leads: Callable[[], Awaitable[bool]] = _always
        """Whether it is this gateway that signs now and then for all on its ledger; set where there are others."""
        ledger.on_audit(self._grew)

    def _grew(self, tenant_id: str, seq: int) -> None:
        known = self._signed.get(tenant_id)
        if known is not None and seq - known.size >= CHECKPOINT_RECORDS and tenant_id not in self._refused:
            self._due.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Sign until `stopping` is set, and then a last time; the ledger must stay open until this returns."""
        stopped = asyncio.ensure_future(stopping.wait())
        try:
            while not stopping.is_set():
                self._due.clear()
                await self.sign()
                due = asyncio.ensure_future(self._due.wait())
                await asyncio.wait((stopped, due), timeout=SIGN_EVERY_MS / 1000,
                                   return_when=asyncio.FIRST_COMPLETED)
                due.cancel()
        finally:
            stopped.cancel()
        await self.sign()

    async def sign(self) -> None:
        """Bring every tenant's checkpoint up to date. What cannot be signed is logged once, and tried again the next
        time."""
        try:
            if not await self.leads():
                return
            tenants = await self._ledger.audit_tenants()
        except LedgerError as error:
            _log.warning("audit_checkpoints_not_signed", reason=str(error))
            return
        for tenant_id in tenants:
            try:
                await self.sign_tenant(tenant_id)
                self._refused.discard(tenant_id)
            except (CheckpointRefused, LedgerError, OSError) as error:
                if tenant_id not in self._refused:
                    _log.error("audit_checkpoint_not_signed", tenant_id=tenant_id, reason=str(error))
                self._refused.add(tenant_id)

    async def sign_tenant(self, tenant_id: str) -> Checkpoint:
        """Sign how far a tenant's log goes now; returns it once the sink has it.

        Raises CheckpointRefused, LedgerError, OSError.
        """
        async with self._turn:
            return await self._sign_next(tenant_id)

    async def last_line(self, tenant_id: str) -> bytes | None:
        """Give the newest line of the sink, whatever it is worth. Raises OSError."""
        return newest(await asyncio.to_thread(self._sink.lines, tenant_id))

    async def _sign_next(self, tenant_id: str) -> Checkpoint:
        before = self._signed.get(tenant_id) or await self._last_signed(tenant_id)
        size, root = await self._ledger.audit_tree(tenant_id)
        if before is not None:
            if (before.size, before.root) == (size, root):
                self._signed[tenant_id] = before
                return before
            await self._check_leads_on(before, tenant_id, size)
        if await compute(subtree(0, size), self._ledger, tenant_id) != root:
            raise CheckpointRefused(f"The tree over the log of {tenant_id} does not fit its records: it was tampered "
                                    "with. Run `interlock audit verify`.")
        signed = sign_checkpoint(self._key, origin_of(self._gateway_id, tenant_id), size, root)
        await asyncio.to_thread(self._sink.append, tenant_id, checkpoint_line(signed))
        self._signed[tenant_id] = signed
        return signed

    async def _check_leads_on(self, before: Checkpoint, tenant_id: str, size: int) -> None:
        leads = before.size <= size and (
            await compute(subtree(0, before.size), self._ledger, tenant_id) == before.root)
        if not leads:
            raise CheckpointRefused(f"The log of {tenant_id} does not lead up to record {before.size}, which was "
                                    "signed before: it was rolled back or rewritten. Run `interlock audit verify`.")

    async def _last_signed(self, tenant_id: str) -> Checkpoint | None:
        line = await self.last_line(tenant_id)
        if line is None:
            return None
        found = parse_checkpoint_line(line)
        if found is None:
            raise CheckpointRefused(f"The last line kept for {tenant_id} is not a checkpoint.")
        if found.origin != origin_of(self._gateway_id, tenant_id):
            raise CheckpointRefused(f"The last checkpoint kept for {tenant_id} is of another log: {found.origin}.")
        if not is_genuine(found, self._key.public_key()):
            raise CheckpointRefused(f"The last checkpoint kept for {tenant_id} was not signed with this gateway's key.")
        return found
