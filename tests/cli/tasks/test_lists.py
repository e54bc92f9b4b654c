"""`interlock approvals`: the outcome of each, in plain words (Y-17)."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.scripted import Script, answer, link_to
from cli.tasks.test_follower import AT, approval
from interlock.cli.config.place import Where
from interlock.cli.link import gateway_link
from interlock.cli.tasks.lists import approvals

pytestmark = pytest.mark.req("Y-17")


@pytest.mark.parametrize(("state", "shown"), [
    ("consumed", "allowed (used)"), ("void", "withdrawn (void)"), ("denied", "denied"), ("pending", "waiting for you"),
])
def test_the_list_shows_an_approvals_outcome_and_the_tool_of_its_request(
    state: str, shown: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = answer({"approvals": [approval(state)], "next_cursor": None, "has_more": False})
    script = Script({"GET /v1/approvals": [listed]})
    monkeypatch.setattr(gateway_link, "GatewayLink", lambda *_, **__: link_to(script, tmp_path))
    assert approvals(all_=True, where=Where(state=tmp_path)) == 0
    assert f"  {shown}  " in capsys.readouterr().out


MY_VOTE = {"by": "user:me", "at": AT, "decision": "grant", "method": "acl"}


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    """Two approvals that need two votes; this person has voted on the newer one."""
    voted, open_ = approval(id="apr_v", required=2, votes=[MY_VOTE]), approval(id="apr_o", required=2)
    me = {"tenant_id": "t", "principal": {"type": "user", "id": "me"}, "roles": ["approver"], "key_id": "k"}
    script = Script({"GET /v1/approvals": [answer({"approvals": [voted, open_], "next_cursor": None,
                                                   "has_more": False})],
                     "GET /v1/approvals/apr_v": [answer(voted)], "GET /v1/whoami": [answer(me)]})
    monkeypatch.setattr(gateway_link, "GatewayLink", lambda *_, **__: link_to(script, tmp_path))
    return script


@pytest.mark.req("G-7", "P-3")
def test_an_approval_with_ones_own_vote_waits_for_another_approver_and_comes_after_the_others(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert approvals(where=Where(state=tmp_path)) == 0
    rows = capsys.readouterr().out.splitlines()
    assert ["waiting for you" in row for row in rows] == [False, True, False]
    assert rows[2].startswith("apr_v")
    assert "  waiting for another approver  " in rows[2]


@pytest.mark.req("G-7", "P-3")
def test_the_card_of_an_approval_with_ones_own_vote_waits_for_another_approver(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert approvals("apr_v", where=Where(state=tmp_path)) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("approval apr_v · waiting for another approver · ")
    assert "1 of 2 yes votes" in shown


def test_a_list_as_json_is_one_request(script: Script, tmp_path: Path) -> None:
    assert approvals(json=True, where=Where(state=tmp_path)) == 0
    assert [one.url.path for one in script.asked] == ["/v1/approvals"]
