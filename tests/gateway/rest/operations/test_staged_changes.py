"""The git changes in a session's workspace, over REST (J-4)."""

from __future__ import annotations

import pytest

from interlock.protocol.problems import Problem
from interlock.protocol.records import SessionRecord
from small_gateway.running import Gateway

pytestmark = [pytest.mark.anyio, pytest.mark.req("J-4")]
PATH = "/v1/sessions/s1/changes/git"


async def test_a_reader_of_a_session_can_read_its_workspace_changes(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    for role in ("viewer", "approver", "owner"):
        async with gateway.as_role(role) as http:
            answer = await http.get(PATH)
        assert answer.status_code == 200
        assert answer.json() == {"session_id": "s1", "workspace": answer.json()["workspace"], "why_not": None,
                                 "partly": None, "branch": "work", "commit": "c" * 40, "head": "d" * 40,
                                 "commits": [{"commit": "d" * 40, "author": "Ann", "subject": "fix"}],
                                 "count": 0, "files": []}


async def test_another_tenants_session_and_a_runners_refusal_are_problems(gateway: Gateway) -> None:
    await gateway.desk.add_session()
    assert (await gateway.http.get("/v1/sessions/unknown/changes/git")).json()["code"] == "NotFound"

    class TooOld:
        async def look(self, session: SessionRecord, access: str, start_commit: str | None) -> None:
            raise Problem("UnsupportedCapability", f"The runner {session.runner_id} does not offer it.")

    gateway.desk.looks = TooOld()
    assert (await gateway.http.get(PATH)).json()["code"] == "UnsupportedCapability"
