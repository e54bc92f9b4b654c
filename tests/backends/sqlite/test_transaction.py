"""A batch within a transaction: a write that cannot be a row fails alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from interlock.backends.sqlite.ledger import open_ledger
from interlock.ports.ledger import Append, LedgerError, WriteBatch

pytestmark = pytest.mark.anyio


class StandingClock:
    def now_ms(self) -> int:
        return 0

    def monotonic_ms(self) -> int:
        return 0


CLOCK = StandingClock()


def one(body: bytes = b"x", stream: str = "s/1") -> WriteBatch:
    return WriteBatch([Append("t1", stream, "C", 0, body)])


async def test_a_write_that_has_no_row_form_fails_alone(tmp_path: Path) -> None:
    ledger = await open_ledger(tmp_path / "ledger.db", CLOCK)
    bad = WriteBatch([Append("t1", "s/1", "C", 0, object())])  # pyright: ignore[reportArgumentType]
    outcomes = await asyncio.gather(*(ledger.commit(batch) for batch in (one(), bad, one())), return_exceptions=True)
    assert [getattr(outcome, "numbers", None) for outcome in outcomes] == [[1], None, [2]]
    assert isinstance(outcomes[1], LedgerError)
    await ledger.close()
