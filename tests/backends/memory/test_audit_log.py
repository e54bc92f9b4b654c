"""The audit log in lists: chained and hashed as on a disk, undone as one, with only its personal values erasable."""

from __future__ import annotations

import msgspec
import pytest

from interlock.backends.memory.audit_log import MemoryAudit, Undo
from interlock.command.audit.audit import FIRST_PREV
from interlock.command.audit.audit_tree import EMPTY_ROOT, SubtreeHashes, root_of
from interlock.protocol.clock import iso
from interlock.protocol.records import AuditDraft

pytestmark = pytest.mark.req("U-1")


def draft(tenant_id: str = "t1", who: str = "kim", **personal: str) -> AuditDraft:
    return AuditDraft(tenant_id=tenant_id, at=iso(0), who={"id": who, "role": "owner"}, action="approve",
                      meta={"decision": "grant"}, personal=personal)


def log(count: int = 3) -> MemoryAudit:
    audit = MemoryAudit()
    for _ in range(count):
        audit.seal(draft(), [])
    return audit


def test_each_record_names_the_previous_one_and_tenants_are_separate() -> None:
    audit = log(2)
    audit.seal(draft("t2"), [])
    first, second = audit.records("t1")

    assert (first.seq, second.seq) == (1, 2)
    assert msgspec.json.decode(first.body)["prev"] == FIRST_PREV
    assert msgspec.json.decode(second.body)["prev"] == first.hash
    assert audit.tenants() == ["t1", "t2"]


def test_an_undone_record_leaves_no_trace() -> None:
    audit, undo = log(1), Undo()
    audit.seal(draft(), undo)
    audit.seal(draft(), undo)
    for back in reversed(undo):
        back()

    assert len(audit.records("t1")) == 1


def test_the_tree_is_built_from_the_records_hashes() -> None:
    audit = log(5)
    leaves = [bytes.fromhex(record.hash) for record in audit.records("t1")]

    assert audit.tree("t1") == (5, root_of(leaves))
    assert audit.tree("none") == (0, EMPTY_ROOT)
    assert audit.hashes("t1", SubtreeHashes(1, 0, 2)) == [root_of(leaves[:2]), root_of(leaves[2:4])]
    assert audit.hashes("t1", SubtreeHashes(0, 3, 9)) == leaves[3:]


@pytest.mark.req("U-4")
def test_erasing_deletes_personal_values_and_nothing_hashed() -> None:
    audit, undo = MemoryAudit(), Undo()
    audit.seal(draft(comment="mine"), [])
    audit.seal(draft(who="lee", comment="theirs"), [])
    before = [record.hash for record in audit.records("t1")]
    assert (audit.personal("t1", "kim", 9), audit.personal("t1", None, 1)) == ([1], [1])

    audit.erase("t1", [1, 99], undo)

    assert (audit.personal("t1", None, 9), [record.hash for record in audit.records("t1")]) == ([2], before)
    for back in undo:
        back()
    assert audit.personal("t1", None, 9) == [1, 2]
