"""The signing key, the heads beside the database, and what a check of both finds (U-2)."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.sqlite.ledger import LEDGER_NAME, SqliteLedger, open_ledger
from interlock.command.audit import export_lines
from interlock.command.audit_check import Report, Tampering, verify
from interlock.gateway import signing
from interlock.gateway.signing import (
    HeadRefused,
    HeadSigner,
    KeyUnusable,
    head_path,
    load_or_make_key,
    load_public_key,
    verify_ledger_file,
    verify_tenants,
)
from interlock.ports.ledger import Audit, Batch, Ledger, LedgerError
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft

pytestmark = pytest.mark.anyio


class StandingClock:
    def now_ms(self) -> int:
        return 5_000

    def monotonic_ms(self) -> int:
        return 0


CLOCK = StandingClock()


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    opened = await open_ledger(tmp_path / LEDGER_NAME, CLOCK)
    yield opened
    await opened.close()


async def write(ledger: Ledger, count: int = 5, tenant_id: str = "t1", action: str = "approve") -> None:
    draft = AuditDraft(tenant_id=tenant_id, at=iso(0), who={"id": "u", "role": "owner"}, action=action,
                       meta={"decision": "grant"})
    await ledger.commit(Batch([Audit(draft)] * count))


def signer(ledger: Ledger, state: Path) -> HeadSigner:
    return HeadSigner(ledger, load_or_make_key(state), state, CLOCK)


async def check(state: Path) -> Report:
    return await asyncio.to_thread(verify_ledger_file, state)


async def seen(condition: Callable[[], bool]) -> None:
    """Wait until the file system shows it; each look is a turn of the thread pool, where the signer writes too."""
    async with asyncio.timeout(10):
        while not await asyncio.to_thread(condition):
            pass


def with_triggers_dropped(state: Path, *statements: str) -> None:
    database = sqlite3.connect(state / LEDGER_NAME)
    for name in ("audit_never_updated", "audit_never_deleted", "audit_never_replaced"):
        database.execute(f"DROP TRIGGER {name}")
    for statement in statements:
        assert database.execute(statement).rowcount != 0
    database.commit()
    database.close()


# --- the key ---


@pytest.mark.req("U-2")
def test_the_key_is_made_once_and_belongs_to_its_owner_alone(tmp_path: Path) -> None:
    key = load_or_make_key(tmp_path)
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {
        "gateway.key": 0o600, "gateway.pub": 0o600
    }  # fmt: skip
    assert load_or_make_key(tmp_path).private_bytes_raw() == key.private_bytes_raw()
    public = load_public_key(tmp_path / "gateway.pub")
    assert public == key.public_key()
    (tmp_path / "gateway.pub").unlink()
    load_or_make_key(tmp_path)
    assert load_public_key(tmp_path / "gateway.pub") == public


def test_a_key_file_that_is_none_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "gateway.key").write_bytes(b"rubbish")
    with pytest.raises(KeyUnusable, match=r"gateway\.key is not a private key"):
        load_or_make_key(tmp_path)
    assert (tmp_path / "gateway.key").read_bytes() == b"rubbish"
    with pytest.raises(KeyUnusable, match="not a public key"):
        load_public_key(tmp_path / "gateway.key")
    with pytest.raises(KeyUnusable, match="not a public key"):
        load_public_key(tmp_path / "none")


# --- signing ---


@pytest.mark.req("U-2")
async def test_heads_are_signed_at_the_start_and_at_shutdown(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger)
    await write(ledger, 2, "../other tenant")
    stopping = asyncio.Event()
    running = asyncio.create_task(signer(ledger, tmp_path).run(stopping))
    await seen(lambda: head_path(tmp_path, "t1").exists() and head_path(tmp_path, "../other tenant").exists())
    await write(ledger, 3)
    assert (await check(tmp_path)).not_yet_signed == 3
    stopping.set()
    await running
    report = await check(tmp_path)
    assert report.ok
    assert report.signature_checked
    assert (report.records, report.not_yet_signed) == (10, 0)
    assert [entry.tenant_id for entry in await asyncio.to_thread(verify_tenants, tmp_path)] == ["../other tenant", "t1"]
    assert sorted(path.parent for path in tmp_path.rglob("*.json")) == [tmp_path / "audit"] * 2
    assert not list(tmp_path.rglob("*.new"))


@pytest.mark.req("U-2")
async def test_heads_follow_the_log_while_the_gateway_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "SIGN_EVERY_MS", 1)
    ledger = MemoryLedger()
    stopping = asyncio.Event()
    running = asyncio.create_task(signer(ledger, tmp_path).run(stopping))
    for count in (1, 2, 3):
        await write(ledger, 1)
        wanted = b'"count":%d,' % count
        await seen(lambda wanted=wanted: wanted in (signing.read_head(head_path(tmp_path, "t1")) or b""))
    stopping.set()
    await running


def test_the_signer_looks_often_enough() -> None:
    assert signing.SIGN_EVERY_MS < signing.HEAD_SIGN_INTERVAL_MS


@pytest.mark.req("U-2")
async def test_an_export_with_its_head_verifies_with_the_public_key_alone(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger, 7)
    head = await signer(ledger, tmp_path).sign_tenant("t1")
    lines = export_lines(await ledger.audit("t1", 0, 100), head)
    report = verify(lines, load_public_key(tmp_path / "gateway.pub"))
    assert (report.ok, report.records) == (True, 7)


@pytest.mark.req("U-2")
async def test_two_who_ask_for_a_head_at_once_both_get_a_good_one(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger, 7)
    both = signer(ledger, tmp_path)
    heads = await asyncio.gather(*(both.sign_tenant("t1") for _ in range(5)))
    assert {head.count for head in heads} == {7}
    assert (await check(tmp_path)).not_yet_signed == 0


@pytest.mark.req("U-2")
async def test_a_head_is_never_signed_over_a_log_that_was_rolled_back(tmp_path: Path, ledger: SqliteLedger) -> None:
    await write(ledger)
    await signer(ledger, tmp_path).sign()
    older = MemoryLedger()
    await write(older, 3)
    line = head_path(tmp_path, "t1").read_bytes()
    for _ in range(2):
        again = signer(older, tmp_path)
        await again.sign()
        with pytest.raises(HeadRefused, match="rolled back or rewritten"):
            await again.sign_tenant("t1")
        assert head_path(tmp_path, "t1").read_bytes() == line
        await write(older, 9, action="reject")
    head_path(tmp_path, "t1").write_bytes(b"{}")
    with pytest.raises(HeadRefused, match="not a signed head"):
        await signer(ledger, tmp_path).sign_tenant("t1")
    head_path(tmp_path, "t1").write_bytes(line.replace(b'"count":5', b'"count":4'))
    with pytest.raises(HeadRefused, match="not signed with this gateway's key"):
        await signer(ledger, tmp_path).sign_tenant("t1")


# --- changes made past the ledger ---


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
    (lambda path: path.write_bytes(b""), Tampering.BAD_SIGNATURE),
    (lambda path: path.write_bytes(path.read_bytes().replace(b'"count":5', b'"count":4')), Tampering.BAD_SIGNATURE),
    (lambda path: path.write_bytes(path.read_bytes() * 100), Tampering.BAD_SIGNATURE),
    (lambda path: path.rename(path.with_name("t2.head.json")), Tampering.HEAD_MISSING),
])  # fmt: skip
async def test_a_head_tampered_with_is_found(
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
    for place in range(len(line)):
        path.write_bytes(line[:place] + bytes([line[place] ^ 1]) + line[place + 1 :])
        assert not verify_ledger_file(tmp_path).ok, place
    path.write_bytes(line)
    assert verify_ledger_file(tmp_path).ok


async def test_what_cannot_be_checked_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(KeyUnusable):
        await check(tmp_path)
    load_or_make_key(tmp_path)
    with pytest.raises(LedgerError, match="no ledger"):
        await check(tmp_path)
    (tmp_path / LEDGER_NAME).write_bytes(b"rubbish " * 1_000)
    with pytest.raises(LedgerError):
        await check(tmp_path)
