"""A batch beyond the log's unsigned limit waits for a signature, and the signer is woken for the record that is due."""

from __future__ import annotations

import pytest

from interlock.backends import audit_room
from interlock.backends.audit_room import AuditRoom, NoRoom
from interlock.command.audit.audit import TailFull
from interlock.ports.ledger import AuditAppend, LedgerError, Receipt, WriteBatch
from interlock.protocol.clock import iso
from interlock.protocol.limits import UNSIGNED_RECORDS_MAX
from interlock.protocol.records import AuditDraft

pytestmark = [pytest.mark.anyio, pytest.mark.req("U-3")]


def batch(*tenants: str) -> WriteBatch:
    return WriteBatch([AuditAppend(AuditDraft(
        tenant_id=tenant, at=iso(0), who={"id": "u", "role": "owner"}, action="approve", meta={}))
        for tenant in tenants])


class Log:
    """Writes batches under consecutive numbers, and is full as often as a test sets."""

    def __init__(self, full: int = 0) -> None:
        self.room, self.full = AuditRoom(), full
        self.seqs: dict[str, int] = {}
        self.woken_tenants: list[str] = []
        self.signed: list[str] = []
        self.room.watch(self.woken_tenants.append)

    async def write(self, given: WriteBatch) -> Receipt:
        if self.full:
            self.full -= 1
            raise NoRoom(TailFull("t1"))
        found: list[int] = []
        for one in given.writes:
            assert isinstance(one, AuditAppend)
            self.seqs[one.draft.tenant_id] = self.seqs.get(one.draft.tenant_id, 0) + 1
            found.append(self.seqs[one.draft.tenant_id])
        return Receipt([], found)

    async def sign(self, tenant_id: str) -> None:
        self.signed.append(tenant_id)

    async def commit(self, *tenants: str) -> Receipt:
        return await self.room.commit(batch(*tenants), self.write)


async def test_the_signer_is_woken_from_the_due_record_and_only_for_its_tenant() -> None:
    log = Log()
    await log.commit("t1", "t1")
    assert log.woken_tenants == []  # Nothing is due before the first report.
    log.room.expect("t1", 4)
    await log.commit("t1", "t2")
    assert log.woken_tenants == []
    await log.commit("t1", "t1", "t2")
    await log.commit("t1")
    assert log.woken_tenants == ["t1", "t1"]
    log.room.expect("t1", 100)
    await log.commit("t1")
    assert log.woken_tenants == ["t1", "t1"]


async def test_a_tenant_whose_first_record_was_written_here_is_known() -> None:
    log = Log()
    log.seqs["old"] = 7
    await log.commit("new", "old")

    assert log.room.begun == {"new"}


async def test_a_batch_without_room_is_written_once_there_is_some() -> None:
    log = Log(full=2)
    log.room.bind(log.sign)

    assert (await log.commit("t1")).audit_seqs == [1]
    assert log.signed == ["t1", "t1"]


async def test_a_log_that_cannot_be_signed_fails_its_batch_with_the_reason() -> None:
    log = Log(full=1)

    async def cannot(_tenant_id: str) -> None:
        raise LedgerError("the bucket is away")

    log.room.bind(cannot)
    with pytest.raises(LedgerError, match="the bucket is away"):
        await log.commit("t1")


async def test_a_batch_that_cannot_fit_is_refused_also_without_a_signer() -> None:
    with pytest.raises(NoRoom):
        await Log(full=1).commit("t1")  # No signer is bound.
    log = Log(full=1)
    log.room.bind(log.sign)
    with pytest.raises(NoRoom):
        await log.commit(*["t1"] * (UNSIGNED_RECORDS_MAX + 1))
    assert log.signed == []


async def test_others_may_take_the_room_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_room, "TRIES", 3)
    log = Log(full=9)
    log.room.bind(log.sign)

    with pytest.raises(NoRoom):
        await log.commit("t1")
    assert len(log.signed) == 3
