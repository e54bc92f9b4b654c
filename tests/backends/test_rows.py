"""Records as rows and back: records are read as written, and an unreadable copy affects no other row."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.backends import rows
from interlock.protocol.records import CommandRecord, FileRecord, IdempotencyRecord, SessionRecord
from interlock.protocol.resources import Actor, Command, Target

AT = "2026-01-01T00:00:01.000Z"
SESSION = SessionRecord(session_id="s1", tenant_id="t1", session_key="k", agent_id="shell", runner_id="r",
                        workspace="/w", state="idle", created_ms=1, updated_ms=2, deadline_ms=3,
                        usage={"input_tokens": 4}, machine=b"{}")


def command(state: Any, **more: Any) -> CommandRecord:
    made = Command(id="cmd_1", created_at=AT, updated_at=AT, tenant_id="t1", actor=Actor(type="user", id="kim"),
                   type="execute", target=Target(agent_id="shell"), state=state, timeout_ms=5, **more)
    return CommandRecord(command=made, session_id="s1", created_ms=1)


def test_a_session_is_read_back_unchanged() -> None:
    assert rows.session_of(rows.session_row(SESSION)) == SESSION
    touched = rows.session_touch(SESSION)
    assert sorted(map(str, touched)) == sorted(map(str, rows.session_row(SESSION)))


@pytest.mark.req("H-5")
@pytest.mark.parametrize("stored", [b"not json", b"[]", None, 7])
def test_unreadable_counts_do_not_make_a_session_unreadable(stored: Any) -> None:
    row = list(rows.session_row(SESSION))
    row[10] = stored

    assert rows.session_of(tuple(row)) == msgspec.structs.replace(SESSION, usage={})


def test_a_command_has_its_end_in_a_column_of_its_own_only_once_it_has_ended() -> None:
    running, ended = command("running"), command("succeeded", ended_at="2026-01-01T00:00:02.000Z")

    assert rows.ended_ms(running) is None
    assert rows.ended_ms(ended) == rows.ended_ms(command("succeeded")) + 1_000  # type: ignore[operator]
    row = rows.command_row(ended)
    assert row[:6] == ("cmd_1", "t1", "s1", "succeeded", "shell", "kim")
    assert rows.command_of((row[-1],)) == ended


def test_a_stored_response_and_a_file_are_read_back_unchanged() -> None:
    kept = IdempotencyRecord(tenant_id="t1", scope="s", fingerprint="f", status=202, headers={"Location": "/x"},
                             body=b"\x00", created_ms=1, command_id="cmd_1")
    file = FileRecord(session_id="s1", transfer_id="tr", name="a", media_type="text/plain", size=1, sha256="0" * 64,
                      purpose="output", created_ms=1, objects=["0" * 64])
    scope, *columns = rows.idempotency_row(kept)

    assert rows.idempotency_of("t1", scope, tuple(columns)) == kept
    assert rows.file_of(rows.file_row(file)[-1]) == file


def test_personal_values_are_read_with_their_salt_or_are_erased() -> None:
    assert rows.personal_of('{"comment":["salt","mine"]}') == {"comment": ("salt", "mine")}
    assert rows.personal_of(None) == {}
    assert rows.audit_of("t1", (7, "hash", b"{}", None)).seq == 7
