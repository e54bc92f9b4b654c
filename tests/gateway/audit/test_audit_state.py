"""An audit log checked from a state directory: every change, by SQL or in a file of checkpoints, is found."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.audit.audit_records import CLOCK, with_triggers_dropped, write
from interlock.backends.checkpoints.files import CheckpointFiles
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.sqlite.ledger import LEDGER_NAME, SqliteLedger, open_ledger
from interlock.command.audit.audit import checkpoint_line, record_line
from interlock.command.audit.audit_check import verify
from interlock.command.audit.audit_report import AuditReport, Tampering
from interlock.command.audit.note import sign_checkpoint
from interlock.gateway.audit.audit_state import CHECKPOINTS_NAME, verify_ledger_file
from interlock.gateway.audit.checkpoints import CheckpointSigner
from interlock.gateway.audit.signing_key import KeyUnusable, load_or_make_key, load_public_key
from interlock.ports.ledger import Ledger, LedgerError

pytestmark = pytest.mark.anyio


def files(state: Path) -> CheckpointFiles:
    return CheckpointFiles(state / CHECKPOINTS_NAME)


def head_path(state: Path, tenant_id: str) -> Path:
    return files(state).path(tenant_id)


def signer(ledger: Ledger, state: Path) -> CheckpointSigner:
    return CheckpointSigner(ledger, load_or_make_key(state), "gw_1", files(state))


async def check(state: Path) -> AuditReport:
    return await asyncio.to_thread(verify_ledger_file, state)


FORGED = "x'7b7d'"
CHANGES: dict[str, tuple[tuple[str, ...], Tampering, int]] = {
    "a body": (("UPDATE audit SET body = replace(CAST(body AS TEXT), 'grant', 'deny!') WHERE seq = 3",),
               Tampering.RECORD_CHANGED, 3),
    "a body to bytes that are no JSON": (("UPDATE audit SET body = x'ff0a00' WHERE seq = 3",),
                                         Tampering.RECORD_CHANGED, 3),
    "a hash": (("UPDATE audit SET hash = replace(hash, substr(hash, 1, 4), 'ffff') WHERE seq = 3",),
               Tampering.HASH_CHANGED, 3),
    "a hash to a number": (("UPDATE audit SET hash = 5 WHERE seq = 5",), Tampering.HASH_CHANGED, 5),
    "a number": (("UPDATE audit SET seq = 30 WHERE seq = 3",), Tampering.REMOVED, 3),
    "a number to a word": (("UPDATE audit SET seq = 'x' WHERE seq = 3",), Tampering.RECORD_CHANGED, 1),
    "two numbers": (("UPDATE audit SET seq = 30 WHERE seq = 3", "UPDATE audit SET seq = 3 WHERE seq = 4",
                     "UPDATE audit SET seq = 4 WHERE seq = 30"), Tampering.RECORD_CHANGED, 3),
    "a row away": (("DELETE FROM audit WHERE seq = 2",), Tampering.REMOVED, 2),
    "the last signed row away": (("DELETE FROM audit WHERE seq >= 5",), Tampering.CUT_TAIL, 5),
    "the last unsigned row away": (("DELETE FROM audit WHERE seq = 6",), Tampering.CUT_TAIL, 6),
    "every row away": (("DELETE FROM audit",), Tampering.CUT_TAIL, 1),
    "rows and their count away": (("DELETE FROM audit WHERE seq >= 4", "UPDATE audit_head SET count = 3"),
                                  Tampering.ROLLED_BACK, 4),
    "a row in": ((f"INSERT INTO audit VALUES ('t1', 7, 'x', {FORGED})",), Tampering.RECORD_CHANGED, 7),
    "the noted end": (("UPDATE audit_head SET last_hash = 'x'",), Tampering.REWRITTEN, 6),
    "the noted count": (("UPDATE audit_head SET count = 9",), Tampering.CUT_TAIL, 7),
}  # fmt: skip


@pytest.mark.req("U-2")
async def test_an_export_with_its_head_verifies_with_the_public_key_alone(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger, 7)
    head = await signer(ledger, tmp_path).sign_tenant("t1")
    lines = [*map(record_line, await ledger.audit("t1", 0, 100)), checkpoint_line(head)]
    report = verify(lines, load_public_key(tmp_path / "gateway.pub"))
    assert (report.ok, report.records) == (True, 7)


@pytest.mark.req("U-3")
async def test_two_signed_histories_are_reported_as_a_fork(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger, 4)
    await signer(ledger, tmp_path).sign()
    other = MemoryLedger()
    await write(other, 3, action="reject")
    forged = await signer(other, tmp_path / "elsewhere").sign_tenant("t1")
    own = signer(ledger, tmp_path)._key  # pyright: ignore[reportPrivateUsage]
    forged = sign_checkpoint(own, forged.origin, forged.size, forged.root)
    lines = head_path(tmp_path, "t1").read_bytes()
    head_path(tmp_path, "t1").write_bytes(checkpoint_line(forged) + lines)
    report = await check(tmp_path)
    assert (report.kind, report.seq) == (Tampering.FORKED, 3)


@pytest.mark.req("U-2", "U-5")
@pytest.mark.parametrize("name", CHANGES)
async def test_rows_changed_by_sql_are_found(tmp_path: Path, ledger: SqliteLedger, name: str) -> None:
    statements, kind, seq = CHANGES[name]
    await write(ledger)
    await signer(ledger, tmp_path).sign()
    await write(ledger, 1)
    assert (await check(tmp_path)).ok
    with_triggers_dropped(tmp_path, *statements)
    report = await check(tmp_path)
    assert (report.ok, report.kind, report.seq, report.tenant_id) == (False, kind, seq, "t1"), report.message


@pytest.mark.req("U-2")
async def test_an_older_copy_of_the_database_is_found(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / LEDGER_NAME, CLOCK)
    await write(ledger, 3)
    await signer(ledger, tmp_path).sign()
    await ledger.close()
    shutil.copy(tmp_path / LEDGER_NAME, tmp_path / "copy")
    ledger = await open_ledger(tmp_path / LEDGER_NAME, CLOCK)
    await write(ledger, 3)
    await signer(ledger, tmp_path).sign()
    await ledger.close()
    assert (await check(tmp_path)).records == 6
    (tmp_path / "copy").replace(tmp_path / LEDGER_NAME)
    report = await check(tmp_path)
    assert (report.kind, report.seq) == (Tampering.ROLLED_BACK, 4)
    assert "older copy" in report.message


@pytest.mark.req("U-2")
@pytest.mark.parametrize(("tamper", "kind"), [
    (lambda path: path.unlink(), Tampering.HEAD_MISSING),
    (lambda path: path.write_bytes(b""), Tampering.HEAD_MISSING),
    (lambda path: path.write_bytes(path.read_bytes().replace(b"\\n5\\n", b"\\n4\\n")), Tampering.BAD_SIGNATURE),
    (lambda path: path.write_bytes(b"x" * 20_000), Tampering.BAD_SIGNATURE),
    (lambda path: path.write_bytes(b"rubbish\n" + path.read_bytes()), Tampering.BAD_SIGNATURE),
    (lambda path: path.rename(path.with_name("t2.checkpoints")), Tampering.HEAD_MISSING),
])  # fmt: skip
async def test_a_tampered_head_is_found(
    tmp_path: Path, ledger: SqliteLedger, tamper: Callable[[Path], object], kind: Tampering
) -> None:
    await write(ledger)
    await signer(ledger, tmp_path).sign()
    tamper(head_path(tmp_path, "t1"))
    assert (await check(tmp_path)).kind is kind


@pytest.mark.req("U-2")
async def test_every_flipped_byte_of_a_head_file_is_found(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger, 2)
    await signer(ledger, tmp_path).sign()
    path = head_path(tmp_path, "t1")
    line = path.read_bytes()
    for place in range(len(line) - 1):
        path.write_bytes(line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :])
        assert not verify_ledger_file(tmp_path).ok, place
    path.write_bytes(line)
    assert verify_ledger_file(tmp_path).ok


async def test_a_log_that_cannot_be_checked_raises_one_error(tmp_path: Path) -> None:
    with pytest.raises(KeyUnusable):
        await check(tmp_path)
    load_or_make_key(tmp_path)
    with pytest.raises(LedgerError, match="no ledger"):
        await check(tmp_path)
    (tmp_path / LEDGER_NAME).write_bytes(b"rubbish " * 1_000)
    with pytest.raises(LedgerError):
        await check(tmp_path)
