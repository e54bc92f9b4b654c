"""The title of a session: its label, else the first line of its first prompt (Y-8)."""

from __future__ import annotations

import pytest

from engine.conversation import OWNER, Table, remember
from interlock.protocol.resources import Target

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-8")]


async def title(table: Table, session_id: str) -> str | None:
    record = await table.engine.lanes.ledger.session(session_id, OWNER.tenant_id)
    assert record is not None
    return table.engine.sessions.shown(record).title


async def test_a_session_is_titled_with_the_first_line_of_its_first_prompt() -> None:
    table = Table()
    command = await table.execute("\n  Make   the release\nand tell me of it")
    session_id = command.target.session_id
    assert await title(table, session_id) == "Make the release"
    await table.execute("Another prompt", target=Target(session_id=session_id))
    assert await title(table, session_id) == "Make the release", "the first prompt names it"
    await table.engine.sessions.patch(OWNER, session_id, {"label": "release 2.1"}, remember)
    assert await title(table, session_id) == "release 2.1"
    await table.engine.sessions.patch(OWNER, session_id, {"label": None}, remember)
    assert await title(table, session_id) == "Make the release"


async def test_a_long_first_line_is_shortened() -> None:
    table = Table()
    command = await table.execute("x" * 200)
    assert await title(table, command.target.session_id) == "x" * 79 + "…"
