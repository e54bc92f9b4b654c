"""Operations on sessions: another tenant's does not exist, and an edited view never undoes later changes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.protocol.problems import Problem
from interlock.session.store.store_view import EntryEdit

pytestmark = pytest.mark.anyio


async def begun(table: Table) -> Any:
    command = await table.execute("first line\nsecond")
    record = await table.ledger.session(command.target.session_id)
    assert record is not None
    return record


def edit(record: Any, **more: Any) -> EntryEdit:
    own = {"key": record.session_key, "session_id": record.session_id, "wanted": {"label": "mine"}}
    return EntryEdit(**{**own, **more})


@pytest.mark.req("V-2", "K-1")
async def test_a_session_of_another_tenant_is_not_found() -> None:
    table = Table()
    record = await begun(table)
    stranger = msgspec.structs.replace(OWNER, tenant_id="other")

    for verb in (table.engine.sessions.close, table.engine.sessions.archive):
        with pytest.raises(Problem, match="There is no session"):
            await verb(stranger, record.session_id, "why", remember)
    await table.engine.stop()


@pytest.mark.req("Y-8")
async def test_a_session_is_shown_by_its_label_before_its_first_line() -> None:
    table = Table()
    record = await begun(table)
    assert table.engine.sessions.shown(record).title == "first line"
    changed = await table.engine.sessions.patch(OWNER, record.session_id, {"label": "mine"}, remember)

    shown = table.engine.sessions.shown(changed)
    assert (shown.title, shown.attached, shown.session_id) == ("mine", True, record.session_id)
    assert shown.created_at == table.engine.sessions.shown(record).created_at
    await table.engine.stop()


@pytest.mark.req("N-1")
async def test_an_edit_of_the_view_is_applied_only_if_no_later_change_exists() -> None:
    table = Table()
    record = await begun(table)
    desk = table.engine.sessions
    table.clock.advance(1_000)
    await desk.patch(OWNER, record.session_id, {"label": "theirs"}, remember)
    with pytest.raises(Problem, match="went on after the text was loaded"):
        await desk.take_edit(OWNER, edit(record, as_of_ms=table.clock.now_ms() - 1))
    await desk.take_edit(OWNER, edit(record, as_of_ms=table.clock.now_ms()))
    assert (await table.lane(record.session_id)).lane.state.entry.label == "mine"
    with pytest.raises(Problem, match="gone on to another session"):
        await desk.take_edit(OWNER, edit(record, key="agent:shell:none"))
    with pytest.raises(Problem, match="gone on to another session"):
        await desk.take_edit(OWNER, edit(record, deleted=True, session_id="another"))
    with pytest.raises(Problem, match="work under way"):
        await desk.take_edit(OWNER, edit(record, deleted=True))
    await desk.take_edit(OWNER, edit(record, deleted=True, as_of_ms=record.created_ms - 1))  # It is newer: it stays.
    assert (await table.lane(record.session_id)).lane.state.entry.archived_at is None
    await table.engine.stop()

