"""A verification reads a row only if its columns match its body: another one counts as removed (H-5)."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.audit_rows import AuditRows, audit_rows
from interlock.backends.sqlite.ledger import open_ledger
from interlock.ports.ledger import Put, PutApproval, PutCommand, WriteBatch
from ports.test_ledger import approval, command, key

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-5")]


@pytest.fixture
async def file(anyio_backend: str, tmp_path: Path) -> Path:
    """A ledger with commands and approvals in each kind of state, and two keys."""
    file = tmp_path / "ledger.db"
    ledger = await open_ledger(file, ManualClock())
    await ledger.commit(WriteBatch([
        PutCommand(command("c1", "queued")), PutCommand(command("c2", "running")),
        PutCommand(command("c3", "succeeded")), PutApproval(approval("a1", "pending")),
        PutApproval(approval("a2", "granted")), PutApproval(approval("a3", "denied")),
        Put(key("k1", "h1")), Put(key("k2", "h2"))]))
    await ledger.close()
    return file


def commands_of(rows: AuditRows) -> set[str]:
    return {one.command.id for one in rows.live_commands()}


def approvals_of(rows: AuditRows) -> set[str]:
    return {one.approval.id for one in rows.live_approvals()}


def keys_of(rows: AuditRows) -> set[str]:
    return {one.key_id for one in rows.bound()}  # type: ignore[union-attr]


def read(file: Path, names: Callable[[AuditRows], set[str]]) -> set[str]:
    with audit_rows(file) as rows:
        return names(rows)


def test_what_has_not_ended_is_read_and_each_row_that_the_log_binds(file: Path) -> None:
    assert read(file, commands_of) == {"c1", "c2"}
    assert read(file, approvals_of) == {"a1", "a2"}
    assert read(file, keys_of) == {"k1", "k2"}


@pytest.mark.parametrize(("edit", "names", "left"), [
    ("UPDATE command SET session_id = 'S2' WHERE id = 'c1'", commands_of, {"c2"}),
    ("UPDATE command SET state = 'running' WHERE id = 'c1'", commands_of, {"c2"}),
    ("UPDATE command SET body = x'00' WHERE id = 'c1'", commands_of, {"c2"}),
    ("UPDATE command SET body = 7 WHERE id = 'c1'", commands_of, {"c2"}),
    ("UPDATE approval SET session_id = 'S2' WHERE id = 'a1'", approvals_of, {"a2"}),
    ("UPDATE approval SET state = 'granted' WHERE id = 'a1'", approvals_of, {"a2"}),
    ("UPDATE approval SET body = x'00' WHERE id = 'a1'", approvals_of, {"a2"}),
    ("UPDATE api_key SET key_sha256 = 'h9' WHERE key_id = 'k1'", keys_of, {"k2"}),
    ("UPDATE api_key SET body = 7 WHERE key_id = 'k1'", keys_of, {"k2"}),
])
def test_a_row_whose_columns_or_body_were_changed_is_not_read(
        file: Path, edit: str, names: Callable[[AuditRows], set[str]], left: set[str]) -> None:
    with sqlite3.connect(file) as database:
        assert database.execute(edit).rowcount == 1
    assert read(file, names) == left
