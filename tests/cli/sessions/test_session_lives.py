"""`interlock sessions rename | set | reset | archive`: what a session's key carries is changed (Y-8, V-2)."""

from __future__ import annotations

import json
from asyncio import to_thread
from pathlib import Path
from typing import Any

import pytest

from cli.scripted import answer
from cli.tasks.test_follower import AT
from engine.test_chats import ChatTable
from gateway.rest.operations.test_session_entries import EngineDesk, begun
from interlock.cli.config.place import Where
from interlock.cli.exit_status import ExitStatus
from interlock.cli.sessions.session_lives import FIELDS, archive, rename, reset, set_
from interlock.cli.verb_error import Trouble
from interlock.session.store.entry import EDITABLE
from small_gateway.running import running

pytestmark = pytest.mark.req("Y-8", "V-2")


@pytest.mark.anyio
async def test_a_session_is_renamed_and_reverts_to_its_own_title(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "owner.key").write_text("ilk_default_owner\n")
    async with running(60, desk=EngineDesk(ChatTable())) as gateway:
        session_id = await begun(gateway)
        where = Where(state=tmp_path, url=gateway.base)
        first = (await gateway.http.get(f"/v1/sessions/{session_id}")).json()["title"]
        assert await to_thread(rename, session_id[:8], "release 2.1", where=where) == ExitStatus.DONE
        assert capsys.readouterr().out == f"{session_id} is called release 2.1\n"
        assert (await gateway.http.get(f"/v1/sessions/{session_id}")).json()["title"] == "release 2.1"
        assert (await gateway.http.get("/v1/sessions", params={"q": "EASE 2"})).json()["items"]
        await to_thread(rename, session_id, "", where=where)
        assert (await gateway.http.get(f"/v1/sessions/{session_id}")).json()["title"] == first
        with pytest.raises(Trouble, match="on one line"):
            await to_thread(rename, session_id, "a\nb", where=where)


def session(**more: Any) -> dict[str, Any]:
    return {"session_id": "s-1", "session_key": "agent:a:main", "tenant_id": "t", "agent_id": "a", "runner_id": "r",
            "workspace": "/w", "state": "idle", "attached": True, "created_at": AT, "updated_at": AT, **more}


@pytest.fixture
def answering(scripted: Any) -> Any:
    """Have a gateway of the one session answer a change so."""
    return lambda change, after: scripted({"GET /v1/sessions": [answer(PAGE)], change: [answer(after)]})


PAGE = {"items": [session()], "has_more": False, "next_cursor": ""}


def test_a_field_is_set_by_its_short_name_and_cleared_by_an_empty_value(
    answering: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script, where = answering("PATCH /v1/sessions/s-1", session(entry={"modelOverride": "m"}))
    assert set_("@last", "model=m", "label=", where=where) == ExitStatus.DONE
    assert json.loads(script.asked[-1].content) == {"modelOverride": "m", "label": None}
    assert capsys.readouterr().out == "set modelOverride, label of agent:a:main\n"


@pytest.mark.parametrize("as_json", [False, True])
def test_a_field_that_did_not_change_is_an_error(
    as_json: bool, answering: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    _, where = answering("PATCH /v1/sessions/s-1", session())
    with pytest.raises(Trouble, match="modelOverride did not change"):
        set_("s-1", "model=m", json=as_json, where=where)
    assert capsys.readouterr().out == ""


def test_every_settable_field_is_part_of_the_body() -> None:
    assert set(EDITABLE) <= FIELDS.keys()


def test_a_reset_that_returns_the_same_session_is_an_error(answering: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, where = answering("POST /v1/sessions/s-1/reset", session())
    with pytest.raises(Trouble, match="the session is the same"):
        reset("s-1", where=where)
    _, where = answering("POST /v1/sessions/s-1/reset", session(session_id="s-2"))
    assert reset("s-1", where=where) == ExitStatus.DONE
    assert capsys.readouterr().out == "began s-2 (agent:a:main)\n"


def test_an_archived_session_is_printed_unchanged(answering: Any, capsys: pytest.CaptureFixture[str]) -> None:
    after = session(state="closed", of_a_later_version=1)
    _, where = answering("POST /v1/sessions/s-1/archive", after)
    assert archive("s-1", where=where) == ExitStatus.DONE
    assert capsys.readouterr().out == "archived s-1 (agent:a:main)\n"
    assert archive("s-1", json=True, where=where) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out) == after
