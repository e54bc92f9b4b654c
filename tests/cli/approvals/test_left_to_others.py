"""Tasks and sessions wait for others if none of their pending approvals waits for the person at the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.scripted import Script, answer, link_to
from cli.tasks.test_follower import AT, approval
from interlock.cli.approvals.left_to_others import LeftToOthers, left_to_others, pending_approvals

pytestmark = [pytest.mark.anyio, pytest.mark.req("G-7", "P-3")]
MY_VOTE = {"by": "user:me", "at": AT, "decision": "grant", "method": "acl"}
ME = {"tenant_id": "t", "principal": {"type": "user", "id": "me"}, "roles": ["approver"], "key_id": "k"}


async def test_a_session_with_an_open_approval_besides_a_voted_one_still_waits_for_this_person(tmp_path: Path) -> None:
    listed = [approval(id="apr_a", session_id="ses_a", command_id="cmd_a", required=2, votes=[MY_VOTE]),
              approval(id="apr_b", session_id="ses_b", command_id="cmd_b", required=2, votes=[MY_VOTE]),
              approval(id="apr_c", session_id="ses_b", command_id="cmd_c", required=2)]
    page = {"approvals": listed, "next_cursor": None, "has_more": False}
    script = Script({"GET /v1/approvals": [answer(page)], "GET /v1/whoami": [answer(ME)]})
    async with link_to(script, tmp_path) as link:
        found = await left_to_others(link, await pending_approvals(link))
    assert found == LeftToOthers(frozenset({"apr_a", "apr_b"}), frozenset({"cmd_a", "cmd_b"}), frozenset({"ses_a"}))
    assert script.asked[0].url.params["state"] == "pending"
