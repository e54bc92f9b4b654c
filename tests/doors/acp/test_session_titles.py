"""What an editor's list of sessions calls them (Y-8)."""

from __future__ import annotations

import pytest

from interlock.doors.acp.door import _listed
from interlock.protocol.resources import Session

AT = "2026-11-21T10:00:00.000Z"


@pytest.mark.req("Y-8")
@pytest.mark.parametrize(("title", "shown"), [
    ("Make the tests faster", "Make the tests faster"), (None, "claude · agent:claude:main"),
])
def test_a_session_is_called_by_its_title_and_else_by_agent_and_key(title: str | None, shown: str) -> None:
    listed = _listed(Session(session_id="s1", session_key="agent:claude:main", tenant_id="default", agent_id="claude",
                             title=title, workspace="/w", state="idle", created_at=AT, updated_at=AT))
    assert listed == {"sessionId": "agent:claude:main", "cwd": "/w", "updatedAt": AT, "title": shown}
