"""Sessions and waiting control frames that SQL changed, found in the file without a gateway (H-5, U-5)."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.backends.sqlite.audit_rows import audit_rows
from interlock.backends.sqlite.ledger import open_ledger
from interlock.gateway.audit.row_state import compare_rows
from proof.audit.database_copies import SqliteStore
from proof.audit.database_gateway import Gateway, make_base

pytestmark = [pytest.mark.anyio, pytest.mark.req("H-5", "U-5")]
BUSY_MS = 20_000
Edit = Callable[[dict[str, Any]], Any]


class Stored(NamedTuple):
    """A gateway's file, with sessions whose control frames their runner does not have yet."""

    file: Path
    sessions: list[str]
    approvals: list[str]
    secrets: dict[str, str]


@pytest.fixture
async def base(tmp_path: Path) -> Stored:
    made = await make_base(SqliteStore(tmp_path))
    return Stored(tmp_path / "base.db", made.sessions, made.approvals, made.secrets)


def differing(base: Stored) -> list[str]:
    with audit_rows(base.file) as rows:
        return compare_rows(rows)


def connected(base: Stored) -> apsw.Connection:
    """Connect as an outsider that waits while a gateway writes."""
    connection = apsw.Connection(str(base.file))
    connection.set_busy_timeout(BUSY_MS)
    return connection


def edit(base: Stored, table: str, column: str, where: str, change: Edit) -> None:
    connection = connected(base)
    (raw,) = connection.execute(f"SELECT {column} FROM {table} WHERE {where}").fetchone() or (b"",)
    document = json.loads(raw)
    change(document)
    connection.execute(f"UPDATE {table} SET {column} = ? WHERE {where}", (json.dumps(document).encode(),))
    connection.close()


def waiting(base: Stored) -> tuple[str, int]:
    """A session, and the number of its prompt, which no runner has."""
    connection = connected(base)
    found = connection.execute("SELECT session_id, max(seq) FROM control WHERE session_id = ?",
                               (base.sessions[-1],)).fetchone()
    connection.close()
    assert found is not None
    return found


async def test_rows_written_by_a_gateway_match_their_state_before_and_after_a_restart(
    base: Stored, tmp_path: Path
) -> None:
    assert differing(base) == []
    file = tmp_path / "later.db"
    shutil.copy(base.file, file)
    gateway = Gateway(await open_ledger(file, ManualClock()), random.Random(1).randbytes)
    await gateway.meet()
    await gateway.engine.start()
    for session_id in base.sessions:
        await gateway.attach(session_id)
    await gateway.execute("free", "more")
    await gateway.stop()
    assert differing(base._replace(file=file)) == []


async def test_changed_removed_and_inserted_frames_are_named(base: Stored) -> None:
    session_id, seq = waiting(base)
    where = f"session_id = '{session_id}' AND seq = {seq}"
    edit(base, "control", "body", where, lambda frame: frame["payload"].update(text="rm -rf /"))
    named = f"the stored row of the session {session_id} differs from its audit record: control frame "
    assert differing(base) == [f"{named}{seq} was changed or removed"]
    connection = connected(base)
    connection.execute(f"INSERT INTO control SELECT session_id, seq + 7, message_id || 'x', body FROM control "
                       f"WHERE {where}")
    connection.execute(f"DELETE FROM control WHERE {where}")
    connection.close()
    assert differing(base) == [f"{named}{seq} was changed or removed; control frame {seq + 7} was inserted"]


@pytest.mark.parametrize("change", [
    lambda state: state.update(permission="never"), lambda state: state.update(workspace="/etc"),
    lambda state: state.update(tenant_id="t2"), lambda state: state.update(control_acked=0, control_seq=0),
])
async def test_a_changed_state_is_named(base: Stored, change: Edit) -> None:
    session_id = base.sessions[1]
    edit(base, "session", "machine", f"session_id = '{session_id}'", change)
    [sentence] = differing(base)
    assert sentence.startswith(f"the stored row of the session {session_id} differs from its audit record: ")


async def test_another_sessions_state_and_one_that_cannot_be_read_are_named(base: Stored) -> None:
    first, second, *_ = base.sessions
    connection = connected(base)
    connection.execute("UPDATE session SET machine = (SELECT machine FROM session WHERE session_id = ?) "
                       "WHERE session_id = ?", (first, second))
    connection.execute("UPDATE session SET machine = 'no' WHERE session_id = ?", (base.sessions[2],))
    connection.close()
    assert sorted(differing(base)) == sorted([
        f"the stored row of the session {second} is that of another session",
        f"the stored row of the session {base.sessions[2]} cannot be read"])


@pytest.mark.parametrize(("column", "value", "named"), [
    ("usage", 2, "usage, which cannot be read"), ("usage", b"[", "usage, which cannot be read"),
    ("usage", b'{"input_tokens":1000000}', "usage"), ("workspace", "/etc", "workspace"), ("agent_id", "x", "agent_id"),
])
async def test_a_column_that_differs_from_the_state_is_named(base: Stored, column: str, value: object, named: str
                                                             ) -> None:
    session_id = base.sessions[0]
    connection = connected(base)
    connection.execute(f"UPDATE session SET {column} = ? WHERE session_id = ?", (value, session_id))
    connection.close()
    assert differing(base) == [f"the stored row of the session {session_id} differs from its own state: {named}"]


@pytest.mark.parametrize("live", [True, False])
async def test_unreadable_counts_do_not_stop_a_session(base: Stored, tmp_path: Path, live: bool) -> None:
    """They are a copy: the session is read, votes count, and its next write puts them right."""
    connection = connected(base)
    if not live:
        connection.execute("UPDATE session SET usage = 2")
    gateway = Gateway(await open_ledger(base.file, ManualClock()), random.Random(7).randbytes)
    await gateway.meet()
    await gateway.engine.start()
    for session_id in base.sessions:
        await gateway.attach(session_id)
    if live:
        connection.execute("UPDATE session SET usage = 2")
    before = len(gateway.wire.sent)
    await gateway.vote(base.approvals[0], base.secrets["cara"])
    assert [one.type for one in gateway.wire.sent[before:]] == ["control.session.open", "control.prompt.request"]
    [row] = connection.execute("SELECT usage FROM session WHERE session_id = ?", (base.sessions[0],)).fetchall()
    await gateway.stop()
    connection.close()
    assert json.loads(row[0])["input_tokens"] == 0
