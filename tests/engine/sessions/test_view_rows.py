"""Rows of the ledger as `sessions.json` shows them: an archived session is left out, and the file is named (N-1)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from interlock.engine.sessions.view_rows import view_row
from interlock.protocol.records import SessionRecord
from interlock.session.store.entry import SessionFields

pytestmark = pytest.mark.req("N-1")


def record(machine: dict[str, Any], key: str = "agent:shell:main") -> SessionRecord:
    return SessionRecord(session_id="s1", tenant_id="t1", session_key=key, agent_id="shell", runner_id="r",
                         workspace="", state="idle", created_ms=1, updated_ms=2_000, deadline_ms=None, usage={},
                         machine=msgspec.json.encode(machine))


def test_a_session_is_shown_under_its_key_with_its_counts_and_its_file() -> None:
    found = view_row(record({"input_tokens": 3, "output_tokens": 4, "unknown": {"x": 1}}), "/state/agents/shell")

    assert found is not None
    key, entry = found
    assert key == "agent:shell:main"
    assert (entry["sessionId"], entry["updatedAt"]) == ("s1", 2_000)
    assert (entry["inputTokens"], entry["outputTokens"]) == (3, 4)
    assert entry["sessionFile"].startswith("/state/agents/shell/s1")


def test_an_archived_session_is_not_in_the_view() -> None:
    assert view_row(record({"entry": msgspec.to_builtins(SessionFields(archived_at=7))}), "/x") is None
