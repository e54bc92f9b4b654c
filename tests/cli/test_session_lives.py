"""`interlock sessions rename`: a title is set, shown and cleared (Y-8)."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.test_chats import Room
from gateway.rest.test_session_entries import EngineDesk, begun
from interlock.cli.exit_status import ExitStatus
from interlock.cli.place import Where
from interlock.cli.session_lives import _rename
from interlock.cli.verb_error import Trouble
from small_gateway.running import running

pytestmark = [pytest.mark.anyio, pytest.mark.req("Y-8")]


async def test_a_session_is_renamed_and_goes_back_to_its_own_title(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "owner.key").write_text("ilk_default_owner\n")
    async with running(60, desk=EngineDesk(Room())) as gateway:
        session_id = await begun(gateway)
        where = Where(state=tmp_path, url=gateway.base)
        first = (await gateway.http.get(f"/v1/sessions/{session_id}")).json()["title"]
        assert await _rename(session_id[:8], "release 2.1", where, json=False) == ExitStatus.DONE
        assert capsys.readouterr().out == f"{session_id} is called release 2.1\n"
        assert (await gateway.http.get(f"/v1/sessions/{session_id}")).json()["title"] == "release 2.1"
        assert (await gateway.http.get("/v1/sessions", params={"q": "EASE 2"})).json()["items"]
        await _rename(session_id, "", where, json=False)
        assert (await gateway.http.get(f"/v1/sessions/{session_id}")).json()["title"] == first
        with pytest.raises(Trouble, match="on one line"):
            await _rename(session_id, "a\nb", where, json=False)
