"""The signing of each tenant's audit log, with checkpoints stored outside the database (U-3).

A checkpoint is never signed over a log that does not continue the previous one: that would hide what it shows. Copies
of the last one are stored in the sink (files, and a bucket if there is one) and in the ledger; at the start the log
must continue every copy. A log without any is not signed, unless it is empty: a person decides (`audit resume`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import TypeVar

import structlog
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from interlock.command.audit.audit import CHECKPOINT_FACT, checkpoint_line, noted_line, noted_size, write_noted
from interlock.command.audit.audit_lines import parse_checkpoint_line
from interlock.command.audit.audit_tree import EMPTY_ROOT, Wanted, beside, cut, subtree
from interlock.command.audit.note import Checkpoint, is_genuine, origin_of, sign_checkpoint
from interlock.command.canonical import MAX_INTEGER
from interlock.engine.audit_readiness import Signing
from interlock.ports.checkpoints import CheckpointSink
from interlock.ports.ledger import (
    AdvanceFact,
    CommandQuery,
    Ledger,
    LedgerError,
    LedgerWrite,
    PutFact,
    Receipt,
    WriteBatch,
)
from interlock.protocol.limits import CHECKPOINT_INTERVAL_MS, CHECKPOINT_RECORDS, UNSIGNED_RECORDS_MAX

SIGN_EVERY_MS = CHECKPOINT_INTERVAL_MS * 4 // 5
"""Interval of the signer: including the time of signing it stays within CHECKPOINT_INTERVAL_MS."""

REMEDY = "Run `interlock audit verify`; a person decides with `interlock audit resume`."
LEFT_BEHIND_ROUNDS = 3
"""Rounds without a checkpoint after which a gateway that leaves signing to another one signs itself."""
T = TypeVar("T")
_log = structlog.stdlib.get_logger()


async def _always() -> bool:
    return True


class CheckpointRefused(Exception):
    """Raised if the log does not continue what was signed before; signing over it would hide that."""


class NotStalled(Exception):
    """Raised if the log can be signed, so that no acceptance is needed."""


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
    """Return the last line of a sink, skipping one that a power cut truncated; None if there is none."""
    if len(lines) > 1 and not lines[-1].endswith(b"\n") and parse_checkpoint_line(lines[-1]) is None:
        return lines[-2]
    return lines[-1] if lines else None


def begun_empty(lines: Sequence[bytes]) -> bool:
    """Return whether a log's checkpoints start with that of an empty log: then the ledger has had a copy of the last
    one since before the first record."""
    first = parse_checkpoint_line(lines[0]) if lines else None
    return first is not None and first.size == 0


class CheckpointSigner:
    """The signer of each tenant's log: every CHECKPOINT_RECORDS or CHECKPOINT_INTERVAL_MS, and once more at
    shutdown."""

    def __init__(self, ledger: Ledger, key: Ed25519PrivateKey, gateway_id: str, sink: CheckpointSink,
                 signing: Signing | None = None) -> None:
        """Create the signer, and bound the ledger's unsigned records from here on. `signing` receives the logs that
        cannot be signed."""
        self._ledger = ledger
        self._key = key
        self._gateway_id = gateway_id
        self._sink = sink
        self.signing = signing or Signing()
        self._signed: dict[str, Checkpoint] = {}
        self._turn = asyncio.Lock()  # An export may request a checkpoint during a round.
        self._due = asyncio.Event()
        self._behind: dict[str, tuple[int | None, int]] = {}
        """The number of records signed when another gateway last signed, and for how many rounds it has not changed."""
        self._leads: Callable[[], Awaitable[bool]] = _always
        ledger.on_audit(self._signature_due)
        ledger.bound_audit(self.make_room)

    @property
    def public_key(self) -> Ed25519PublicKey:
        """Return the key that verifies its checkpoints."""
        return self._key.public_key()

    def share(self, leads: Callable[[], Awaitable[bool]]) -> None:
        """Sign periodically only while `leads` returns that this gateway signs for all on its ledger."""
        self._leads = leads

    def _signature_due(self, tenant_id: str) -> None:
        if tenant_id in self._signed and not self.signing.reason(tenant_id):
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
        """Update every tenant's checkpoint. A failure is logged once, and retried in the next round."""
        try:
            leads = await self._leads()
            tenants = await self._ledger.audit_tenants()
        except LedgerError as error:
            _log.warning("audit_checkpoints_not_signed", reason=str(error))
            return
        for tenant_id in tenants:
            with suppress(CheckpointRefused, LedgerError, OSError):
                if leads or self.signing.reason(tenant_id) is not None or await self._is_left_behind(tenant_id):
                    await self.sign_tenant(tenant_id)

    async def _is_left_behind(self, tenant_id: str) -> bool:
        """Return whether the gateway that signs for all has not done so for LEFT_BEHIND_ROUNDS. Raises LedgerError."""
        noted = noted_size(await self._ledger.fact(CHECKPOINT_FACT + tenant_id))
        size, _ = await self._ledger.audit_head(tenant_id)
        seen, rounds = self._behind.get(tenant_id, (None, 0))
        rounds = rounds + 1 if noted == seen and size > (noted or 0) else 0
        self._behind[tenant_id] = (noted, rounds)
        return rounds >= LEFT_BEHIND_ROUNDS

    async def sign_tenant(self, tenant_id: str) -> Checkpoint:
        """Sign the current end of a tenant's log; returns the checkpoint once the sink and the ledger have it.

        Raises CheckpointRefused, LedgerError, OSError. While a log cannot be signed, `signing` records it; a ledger
        that cannot be read or written reports that itself.
        """
        async with self._turn:
            try:
                signed = await self._sign_next(tenant_id)
            except LedgerError as error:
                _log.warning("audit_checkpoint_not_signed", tenant_id=tenant_id, reason=str(error))
                raise
            except (CheckpointRefused, OSError) as error:
                if self.signing.failed(tenant_id, why := _sentence(error)):
                    _log.error("audit_checkpoint_not_signed", tenant_id=tenant_id, reason=why)
                raise
            self.signing.signed(tenant_id)
            return signed

    async def make_room(self, tenant_id: str) -> None:
        """Sign a tenant's log, so that more records may follow. Raises LedgerError, with the reason."""
        try:
            await self.sign_tenant(tenant_id)
        except (CheckpointRefused, OSError) as error:
            raise LedgerError(f"The audit log of {tenant_id} takes no more records until it can be signed: "
                              f"{_sentence(error)}") from error

    async def kept(self, tenant_id: str) -> list[tuple[str, Checkpoint]]:
        """Return the last stored checkpoints, as (where, checkpoint), unchecked. Raises LedgerError, OSError."""
        noted = await self._ledger.fact(CHECKPOINT_FACT + tenant_id)
        lines = [("file", one) for one in await asyncio.to_thread(self._sink.newest, tenant_id, MAX_INTEGER)]
        lines += [] if noted is None else [("ledger", noted_line(noted))]
        return [(where, one) for where, line in lines if (one := parse_checkpoint_line(line)) is not None]

    async def ahead(self) -> list[tuple[str, int, int]]:
        """Return the logs that end before a record that this gateway's own checkpoints cover: (tenant, records signed,
        records present). Raises LedgerError, OSError."""
        found: list[tuple[str, int, int]] = []
        tenants = {*await asyncio.to_thread(self._sink.tenants), *await self._ledger.audit_tenants()}
        for tenant_id in sorted(tenants):
            size, _ = await self._ledger.audit_head(tenant_id)
            lines = await asyncio.to_thread(self._sink.newest, tenant_id, size)
            # Read again: records that another gateway signed in between must not look missing.
            size, _ = await self._ledger.audit_head(tenant_id)
            with suppress(CheckpointRefused):
                signed = max((self._genuine(tenant_id, line, "kept").size for line in lines), default=0)
                if signed > size:
                    found.append((tenant_id, signed, size))
        return found

    async def resume(self, tenant_id: str, size: int, root: bytes,
                     writes: Callable[[str], Sequence[LedgerWrite]]) -> Receipt:
        """Sign a log that continues no checkpoint, as a person accepts it: with the first `size` records under `root`.

        `writes` creates its record from the reason why the log was not signed. Earlier checkpoints are set aside first;
        a crash in between leaves a log still unsigned, or one that records who accepted it. Raises NotStalled,
        CheckpointRefused if the log is not the accepted one, LedgerError, OSError.
        """
        async with self._turn:
            try:
                await self._sign_next(tenant_id)
            except CheckpointRefused as refused:
                reason = str(refused)
            else:
                self.signing.signed(tenant_id)
                raise NotStalled(f"The log of {tenant_id} can be signed: there is nothing to accept.")
            now, top = await self._ledger.audit_tree(tenant_id)
            if size > now or await compute(subtree(0, size), self._ledger, tenant_id) != root:
                raise CheckpointRefused(f"The log of {tenant_id} is not the one that was accepted: look at it again.")
            if await compute(subtree(0, now), self._ledger, tenant_id) != top:
                raise CheckpointRefused(f"The tree over the log of {tenant_id} does not fit its records, so it cannot "
                                        "be signed: restore the database from a copy.")
            accepted = sign_checkpoint(self._key, origin_of(self._gateway_id, tenant_id), now, top)
            await asyncio.to_thread(self._sink.set_aside, tenant_id)
            self._signed.pop(tenant_id, None)
            # One transaction: the records may be signed again, and one of them records who accepted them.
            value = write_noted(now, checkpoint_line(accepted))
            receipt = await self._ledger.commit(WriteBatch(
                [PutFact(CHECKPOINT_FACT + tenant_id, value), *writes(reason)]))
            _log.warning("audit_log_accepted", tenant_id=tenant_id, size=now, reason=reason)
            await self._sign_next(tenant_id)
            self.signing.signed(tenant_id)
            return receipt

    async def last_line(self, tenant_id: str) -> bytes | None:
        """Return the newest line of the sink, unchecked. Raises OSError."""
        return newest(await asyncio.to_thread(self._sink.lines, tenant_id))

    async def _sign_next(self, tenant_id: str) -> Checkpoint:
        noted = await self._noted(tenant_id)
        known = self._signed.get(tenant_id)
        size, root = await self._ledger.audit_tree(tenant_id)
        if known is None:
            known = await self._joined(tenant_id, noted, size)
        before = max((one for one in (known, noted) if one is not None), key=lambda one: one.size, default=None)
        for one in {(one.size, one.root): one for one in (known, before) if one is not None}.values():
            if (one.size, one.root) != (size, root):
                await self._check_leads_on(one, tenant_id, size)
        if before is not None and size - before.size > UNSIGNED_RECORDS_MAX:
            newest = await self._noted(tenant_id)
            if newest is not None and newest.size > before.size:  # Others signed between the two reads above.
                return await self._sign_next(tenant_id)
            raise CheckpointRefused(f"{size - before.size} records of {tenant_id} follow record {before.size}, the "
                                    f"last one that was signed, and a gateway leaves at most {UNSIGNED_RECORDS_MAX}: "
                                    f"they were added to the log, or later checkpoints removed. {REMEDY}")
        if before is not None and (before.size, before.root) == (size, root):
            await self._note(tenant_id, before, noted)
            return before
        if await compute(subtree(0, size), self._ledger, tenant_id) != root:
            raise CheckpointRefused(f"The tree over the log of {tenant_id} does not fit its records: it was tampered "
                                    "with. Run `interlock audit verify`.")
        signed = sign_checkpoint(self._key, origin_of(self._gateway_id, tenant_id), size, root)
        await self._keep(tenant_id, signed, noted)
        return signed

    async def _keep(self, tenant_id: str, signed: Checkpoint, noted: Checkpoint | None) -> None:
        """Store a checkpoint: first in the sink, then in the ledger, whose copy is therefore never ahead of the
        sink's."""
        await asyncio.to_thread(self._sink.append, tenant_id, checkpoint_line(signed))
        await self._note(tenant_id, signed, noted)

    async def _note(self, tenant_id: str, signed: Checkpoint, noted: Checkpoint | None) -> None:
        if noted is None or noted.size < signed.size:
            value = write_noted(signed.size, checkpoint_line(signed))
            # Another gateway may have signed more of it since: then that stays recorded.
            await self._ledger.commit(WriteBatch([AdvanceFact(CHECKPOINT_FACT + tenant_id, value)]))
        self._signed[tenant_id] = signed
        self._ledger.expect_audit(tenant_id, signed.size + CHECKPOINT_RECORDS)

    async def _noted(self, tenant_id: str) -> Checkpoint | None:
        """Read the ledger's copy of the last checkpoint."""
        noted = await self._ledger.fact(CHECKPOINT_FACT + tenant_id)
        return None if noted is None else self._genuine(tenant_id, noted_line(noted), "noted in the ledger")

    async def _joined(self, tenant_id: str, noted: Checkpoint | None, size: int) -> Checkpoint | None:
        """Return the checkpoint that the log has to continue, the first time that this process signs it. The log must
        continue every copy of it, or one writable copy could hide what another shows."""
        after = -1 if noted is None else noted.size
        lines = await asyncio.to_thread(self._sink.newest, tenant_id, after)
        kept = [self._genuine(tenant_id, line, "kept") for line in lines]
        copies = kept if noted is None else [*kept, noted]
        if not copies:
            return await self._begun(tenant_id, size)
        if noted is None and size and begun_empty(await asyncio.to_thread(self._sink.lines, tenant_id)):
            raise CheckpointRefused(f"The ledger's copy of the last checkpoint of {tenant_id} was removed. {REMEDY}")
        last = max(copies, key=lambda one: one.size)
        for one in copies:
            await self._check_leads_on(one, tenant_id, size)
        if not kept or kept[0].size < last.size:
            # With several gateways, the current signer need not be the last one.
            _log.warning("audit_checkpoints_were_behind", tenant_id=tenant_id, size=last.size)
            await asyncio.to_thread(self._sink.append, tenant_id, checkpoint_line(last))
        return last

    async def _begun(self, tenant_id: str, size: int) -> Checkpoint | None:
        """Sign an empty log, so that no record is ever without an earlier checkpoint. Records that this process wrote
        before it had a signer need none."""
        if size and self._ledger.began_audit(tenant_id):
            return None
        used = bool(await self._ledger.commands(CommandQuery(tenant_id, limit=1))) or bool(
            await self._ledger.sessions(tenant_id, 1))
        if size or used:
            raise CheckpointRefused(f"No checkpoint of the log of {tenant_id} is left, here or in the ledger: "
                                    f"whether its {size} records are those that were signed is unknown. {REMEDY}")
        first = sign_checkpoint(self._key, origin_of(self._gateway_id, tenant_id), 0, EMPTY_ROOT)
        await self._keep(tenant_id, first, None)
        return first

    async def _check_leads_on(self, before: Checkpoint, tenant_id: str, size: int) -> None:
        leads = before.size <= size and (
            await compute(subtree(0, before.size), self._ledger, tenant_id) == before.root)
        if not leads:
            raise CheckpointRefused(f"The log of {tenant_id} does not lead up to record {before.size}, which was "
                                    f"signed before: it was rolled back or rewritten. {REMEDY}")

    def _genuine(self, tenant_id: str, line: bytes, where: str) -> Checkpoint:
        found = parse_checkpoint_line(line)
        if found is None:
            raise CheckpointRefused(f"The last line {where} for {tenant_id} is not a checkpoint. {REMEDY}")
        if found.origin != origin_of(self._gateway_id, tenant_id):
            raise CheckpointRefused(f"The last checkpoint {where} for {tenant_id} is of another log: {found.origin}. "
                                    f"{REMEDY}")
        if not is_genuine(found, self._key.public_key()):
            raise CheckpointRefused(f"The last checkpoint {where} for {tenant_id} was not signed with this gateway's "
                                    f"key. {REMEDY}")
        return found


def _sentence(error: Exception) -> str:
    """Return why a log is not signed; for a file, with its path and what follows."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror is not None:
        return (f"{error.filename} cannot be read or written: {error.strerror}. Once it can, signing continues within "
                "seconds.")
    return str(error)
