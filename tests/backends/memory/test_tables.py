"""Rows that the tables in memory refuse as a database does."""

from __future__ import annotations

import pytest

from interlock.backends.memory.ledger import MemoryLedger
from interlock.ports.ledger import Append, NameTaken, WriteBatch

pytestmark = pytest.mark.anyio


async def test_a_stream_of_another_tenant_is_not_appended_to() -> None:
    ledger = MemoryLedger()
    await ledger.commit(WriteBatch([Append("t1", "s/1", "C", 5, b"{}")]))
    with pytest.raises(NameTaken, match="another tenant's"):
        await ledger.commit(WriteBatch([Append("t1", "s/2", "C", 5, b"{}"), Append("t2", "s/1", "C", 5, b"{}")]))
    assert [await ledger.head("t1", stream) for stream in ("s/1", "s/2")] == [1, 0]
    assert (await ledger.commit(WriteBatch([Append("t2", "s/2", "C", 5, b"{}")]))).numbers == [1]


async def test_a_stream_of_another_tenant_is_not_read() -> None:
    ledger = MemoryLedger()
    await ledger.commit(WriteBatch([Append("t1", "s/1", "C", 5, b"{}", "m")]))
    for tenant_id, there in (("t1", 1), ("t2", 0)):
        assert len(await ledger.events(tenant_id, "s/1", 0, 9)) == there
        assert len(await ledger.tail(tenant_id, "s/1", 0, 9)) == there
        assert await ledger.head(tenant_id, "s/1") == there
        assert await ledger.recent_message_ids(tenant_id, "s/1", 9) == ["m"] * there
