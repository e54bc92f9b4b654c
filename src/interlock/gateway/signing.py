"""The gateway's signing key, the signed heads of the audit logs beside the database, and the check of both (U-2).

A head lies in a file of its own, so that whoever changes the database, or puts back an older copy of it, leaves a
contradiction behind. For the same reason a head is never signed over one that the log no longer leads up to.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec
import structlog
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from interlock.backends.sqlite.audit_rows import AuditRows, audit_rows
from interlock.backends.sqlite.ledger import LEDGER_NAME
from interlock.command.audit import SignedHead, head_is_genuine, head_line, sign_head
from interlock.command.audit_check import Report, Tampering, verify_records
from interlock.ports.clock import Clock
from interlock.ports.ledger import Ledger, LedgerError
from interlock.protocol.clock import iso
from interlock.protocol.limits import HEAD_SIGN_INTERVAL_MS

KEY_NAME = "gateway.key"
PUBLIC_NAME = "gateway.pub"
HEADS_NAME = "audit"
HEAD_SUFFIX = ".head.json"
MAX_HEAD_BYTES = 4_096
"""A head's file above this is no head."""
SIGN_EVERY_MS = HEAD_SIGN_INTERVAL_MS * 4 // 5
"""The signer looks this often, so that with the time of signing it stays within HEAD_SIGN_INTERVAL_MS."""

_log = structlog.stdlib.get_logger()
_head = msgspec.json.Decoder(SignedHead)


class KeyUnusable(Exception):
    """A key file is there and cannot be used; the sentence names it."""


class HeadRefused(Exception):
    """The log does not lead up to the head that was signed before; signing over it would hide that."""


def load_or_make_key(state: Path) -> Ed25519PrivateKey:
    """Read `<state>/gateway.key`, or make it (0600) together with `gateway.pub`. Raises KeyUnusable, OSError."""
    path = state / KEY_NAME
    try:
        key = serialization.load_pem_private_key(path.read_bytes(), password=None)
    except FileNotFoundError:
        key = Ed25519PrivateKey.generate()
        pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                                serialization.NoEncryption())
        write_durably(path, pem)
    except (ValueError, TypeError) as error:
        raise KeyUnusable(f"{path} is not a private key: restore it, or move it away to begin with a new "
                          "one.") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise KeyUnusable(f"{path} holds a key of another kind than Ed25519.")
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    if not (state / PUBLIC_NAME).is_file() or (state / PUBLIC_NAME).read_bytes() != public:
        write_durably(state / PUBLIC_NAME, public)
    return key


def load_public_key(path: Path) -> Ed25519PublicKey:
    """Read a public key, as `gateway.pub` holds it. Raises KeyUnusable."""
    try:
        key = serialization.load_pem_public_key(path.read_bytes())
    except (OSError, ValueError) as error:
        raise KeyUnusable(f"{path} is not a public key that can be read.") from error
    if not isinstance(key, Ed25519PublicKey):
        raise KeyUnusable(f"{path} holds a key of another kind than Ed25519.")
    return key


def head_path(state: Path, tenant_id: str) -> Path:
    """Where a tenant's signed head lies."""
    return state / HEADS_NAME / (quote(tenant_id, safe="") + HEAD_SUFFIX)


def read_head(path: Path) -> bytes | None:
    """Read a head's line; None where there is no file. A file too large for a head is cut, and so found bad."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_HEAD_BYTES)
    except FileNotFoundError:
        return None


def write_durably(path: Path, content: bytes) -> None:
    """Replace a file (mode 0600) so that after a power cut either the old one or the new one is whole."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(path.name + ".new")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class HeadSigner:
    """Signs how far each tenant's log goes, at most HEAD_SIGN_INTERVAL_MS behind it, and once more at shutdown."""

    def __init__(self, ledger: Ledger, key: Ed25519PrivateKey, state: Path, clock: Clock) -> None:
        self._ledger = ledger
        self._key = key
        self._state = state
        self._clock = clock
        self._signed: dict[str, SignedHead] = {}
        self._refused: set[str] = set()
        self._turn = asyncio.Lock()  # An export may ask for a head while the round is under way.

    async def run(self, stopping: asyncio.Event) -> None:
        """Sign until `stopping` is set, and then a last time; the ledger must stay open until this returns."""
        while not stopping.is_set():
            await self.sign()
            try:
                await asyncio.wait_for(stopping.wait(), SIGN_EVERY_MS / 1000)
            except TimeoutError:
                continue
        await self.sign()

    async def sign(self) -> None:
        """Bring every tenant's head up to date. What cannot be signed is logged once, and tried again the next time."""
        try:
            tenants = await self._ledger.audit_tenants()
        except LedgerError as error:
            _log.warning("audit_heads_not_signed", reason=str(error))
            return
        for tenant_id in tenants:
            try:
                await self.sign_tenant(tenant_id)
                self._refused.discard(tenant_id)
            except (HeadRefused, LedgerError, OSError) as error:
                if tenant_id not in self._refused:
                    _log.error("audit_head_not_signed", tenant_id=tenant_id, reason=str(error))
                self._refused.add(tenant_id)

    async def sign_tenant(self, tenant_id: str) -> SignedHead:
        """Sign a tenant's head as of now; returns it once its file is durable.

        Raises HeadRefused, LedgerError, OSError.
        """
        async with self._turn:
            return await self._sign_next(tenant_id)

    async def _sign_next(self, tenant_id: str) -> SignedHead:
        before = self._signed.get(tenant_id) or await asyncio.to_thread(self._last_signed, tenant_id)
        count, last_hash = await self._ledger.audit_head(tenant_id)
        if before is not None:
            if (before.count, before.last_hash) == (count, last_hash):
                self._signed[tenant_id] = before
                return before
            await self._check_leads_on(before, count)
        head = sign_head(self._key, tenant_id, count, last_hash, iso(self._clock.now_ms()))
        await asyncio.to_thread(write_durably, head_path(self._state, tenant_id), head_line(head))
        self._signed[tenant_id] = head
        return head

    async def _check_leads_on(self, before: SignedHead, count: int) -> None:
        if before.count == 0:
            return
        found = await self._ledger.audit(before.tenant_id, before.count - 1, 1) if before.count <= count else []
        if not found or found[0].hash != before.last_hash:
            raise HeadRefused(f"The log of {before.tenant_id} does not lead up to record {before.count}, which was "
                              f"signed at {before.at}: it was rolled back or rewritten. Run `interlock audit verify`.")

    def _last_signed(self, tenant_id: str) -> SignedHead | None:
        path = head_path(self._state, tenant_id)
        line = read_head(path)
        if line is None:
            return None
        try:
            head = _head.decode(line)
        except msgspec.MsgspecError as error:
            raise HeadRefused(f"{path} is not a signed head.") from error
        if not head_is_genuine(head, self._key.public_key()) or head.tenant_id != tenant_id:
            raise HeadRefused(f"{path} was not signed with this gateway's key.")
        return head


def verify_ledger_file(state: Path) -> Report:
    """Check the audit logs of all tenants in a state directory, with the gateway up or down (U-2).

    Gives the report of the first tenant whose log is bad, else one with the sums. Raises LedgerError when the database
    cannot be read, KeyUnusable when the public key cannot.
    """
    reports = verify_tenants(state)
    bad = next((report for report in reports if not report.ok), None)
    if bad is not None:
        return bad
    records = sum(report.records for report in reports)
    unsigned = sum(report.not_yet_signed for report in reports)
    message = f"{records} records of {len(reports)} tenants, all in order and unchanged"
    message += f"; {unsigned} not yet signed." if unsigned else "."
    return Report(ok=True, tenant_id=reports[0].tenant_id if len(reports) == 1 else None, records=records,
                  not_yet_signed=unsigned, signature_checked=True, message=message)


def verify_tenants(state: Path) -> list[Report]:
    """Check each tenant's audit log; one report each, by tenant."""
    key = load_public_key(state / PUBLIC_NAME)
    # The heads are read before the rows: what is signed in between must not look as if it had been cut.
    heads = dict(_heads(state))
    with audit_rows(state / LEDGER_NAME) as rows:
        return [_verify_tenant(rows, tenant_id, heads.get(tenant_id), key)
                for tenant_id in sorted({*rows.tenants(), *heads})]


def _heads(state: Path) -> Iterator[tuple[str, bytes | None]]:
    for path in sorted((state / HEADS_NAME).glob("*" + HEAD_SUFFIX)):
        yield unquote(path.name.removesuffix(HEAD_SUFFIX)), read_head(path)


def _verify_tenant(rows: AuditRows, tenant_id: str, head: bytes | None, key: Ed25519PublicKey) -> Report:
    report = msgspec.structs.replace(verify_records(rows.records(tenant_id), head, key), tenant_id=tenant_id)
    noted, last_hash = rows.head(tenant_id)
    if report.kind is Tampering.CUT_TAIL and noted == report.records:
        message = (f"The database of {tenant_id} agrees with itself and ends at record {noted}, but more had been "
                   "signed: an older copy of it was put back.")
        return msgspec.structs.replace(report, kind=Tampering.ROLLED_BACK, message=message)
    if not report.ok or (noted, last_hash) == (report.records, report.last_hash):
        return report
    kind = Tampering.REWRITTEN
    if noted != report.records:
        kind = Tampering.CUT_TAIL if noted > report.records else Tampering.INSERTED
    return msgspec.structs.replace(
        report, ok=False, kind=kind, seq=min(noted, report.records) + (noted != report.records),
        message=f"The database of {tenant_id} has {report.records} records, and has noted another end of the log "
        f"(record {noted}).",
    )
