"""Archiving and restoring a session: its work ends first, and each change is recorded once (V-2, N-1)."""

from __future__ import annotations

import pytest

from engine.conversation import OWNER, Table, remember
from interlock.protocol.problems import Problem
from interlock.protocol.resources import Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("V-2")]


async def test_an_archived_session_accepts_no_work_and_can_be_restored() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)

    shown = await table.engine.sessions.archive(OWNER, session_id, "done with it", remember)

    assert shown is not None
    assert await table.state(command.id) == "canceling"
    assert {"control.turn.cancel"} <= set(table.wire.types())
    with pytest.raises(Problem, match="is archived"):
        await table.execute(target=Target(session_id=session_id))
    before = (await table.actions()).count("session_change")
    await table.engine.sessions.archive(OWNER, session_id, "again", remember)
    assert (await table.actions()).count("session_change") == before  # It was away already.

    await table.engine.sessions.restore(OWNER, session_id, remember)
    await table.engine.sessions.restore(OWNER, session_id, remember)
    assert (await table.actions()).count("session_change") == before + 1
    assert (await table.execute(target=Target(session_id=session_id))).state == "queued"
    await table.engine.stop()
