"""Fixtures of the audit log's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.audit.audit_records import CLOCK
from interlock.backends.sqlite.ledger import LEDGER_NAME, SqliteLedger, open_ledger


@pytest.fixture
async def ledger(tmp_path: Path) -> AsyncIterator[SqliteLedger]:
    opened = await open_ledger(tmp_path / LEDGER_NAME, CLOCK)
    yield opened
    await opened.close()
