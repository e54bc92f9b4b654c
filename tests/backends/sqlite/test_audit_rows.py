"""The Merkle tree and the personal values of audit logs, in the file (U-2, U-4)."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.ledger import open_ledger
from interlock.command.audit.audit_tree import SubtreeHashes, includes, inclusion, root_of
from interlock.gateway.audit.checkpoints import compute
from interlock.ports.ledger import AuditAppend, EraseAudit, WriteBatch
from interlock.protocol.records import AuditDraft

pytestmark = pytest.mark.anyio


def draft(text: str = "") -> AuditDraft:
    return AuditDraft(tenant_id="t1", at="2026-11-21T10:00:00.000Z", who={"id": "u", "role": "owner"}, action="vote",
                      personal={"comment": text} if text else {})


@pytest.mark.req("U-2")
async def test_a_log_of_a_version_without_a_tree_gets_one_when_opened(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    ledger = await open_ledger(path, ManualClock())
    await ledger.commit(WriteBatch([AuditAppend(draft())] * 700))
    grown = await ledger.audit_tree("t1")
    nodes = await ledger.audit_hashes("t1", [SubtreeHashes(8, 0, 2)])
    await ledger.close()
    with sqlite3.connect(path) as database:
        database.execute("UPDATE audit_head SET peaks = NULL")
        database.execute("DELETE FROM audit_node")
    ledger = await open_ledger(path, ManualClock())
    assert await ledger.audit_tree("t1") == grown
    assert await ledger.audit_hashes("t1", [SubtreeHashes(8, 0, 2)]) == nodes
    await ledger.commit(WriteBatch([AuditAppend(draft())] * 100))
    size, root = await ledger.audit_tree("t1")
    hashes = [bytes.fromhex(record.hash) for record in await ledger.audit("t1", 0, 800)]
    assert (size, root) == (800, root_of(hashes))
    proof = await compute(inclusion(511, 800), ledger, "t1")
    assert includes(hashes[511], 511, 800, proof, root)
    await ledger.close()


@pytest.mark.req("U-4")
async def test_erased_data_is_in_no_byte_of_the_file_or_its_log(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", ManualClock())
    await ledger.commit(WriteBatch([AuditAppend(draft("the secret of Ann")), AuditAppend(draft("what Bob said"))]))
    assert await ledger.audit_personal("t1", "u", 9) == [1, 2]
    before = await ledger.audit("t1", 0, 9)
    await ledger.commit(WriteBatch([EraseAudit("t1", (1,))]))
    after = await ledger.audit("t1", 0, 9)
    assert [one.body for one in after] == [one.body for one in before]
    assert (after[0].personal, after[1].personal) == ({}, before[1].personal)
    assert await ledger.audit_personal("t1", None, 9) == [2]
    bytes_ = b"".join(one.read_bytes() for one in tmp_path.iterdir())
    await ledger.close()
    assert b"what Bob said" in bytes_
    assert b"the secret of Ann" not in bytes_
    assert before[0].personal["comment"][0].encode() not in bytes_
