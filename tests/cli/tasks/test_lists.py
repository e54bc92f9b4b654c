"""`interlock approvals`: the outcome of each, in plain words (Y-17)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cli.scripted import Script, answer, link_to
from cli.tasks.test_follower import AT, approval, command
from interlock.cli.config.place import Where
from interlock.cli.link import gateway_link
from interlock.cli.tasks.lists import approvals, sessions, tasks

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


def session(name: str) -> dict[str, Any]:
    return {"session_id": f"ses_{name}", "session_key": name, "tenant_id": "t", "agent_id": "own",
            "state": "waiting_approval", "created_at": AT, "updated_at": AT}


MY_VOTE = {"by": "user:me", "at": AT, "decision": "grant", "method": "acl"}
ME = {"tenant_id": "t", "principal": {"type": "user", "id": "me"}, "roles": ["approver"], "key_id": "k"}


def page(**rows: list[dict[str, Any]]) -> Any:
    return answer({**rows, "next_cursor": None, "has_more": False})


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Script:
    """Two approvals that need two votes; this person has voted on the newer one."""
    voted, open_ = approval(id="apr_v", required=2, votes=[MY_VOTE]), approval(id="apr_o", required=2)
    script = Script({"GET /v1/approvals": [page(approvals=[voted, open_])],
                     "GET /v1/approvals/apr_v": [answer(voted)], "GET /v1/whoami": [answer(ME)]})
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
def test_tasks_and_sessions_whose_only_approval_has_ones_own_vote_wait_for_another_approver(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    voted, open_ = (
        approval(id=f"apr_{name}", command_id=f"cmd_{name}", session_id=f"ses_{name}", required=2, votes=votes)
        for name, votes in (("v", [MY_VOTE]), ("o", [])))
    script = Script({
        "GET /v1/approvals": [page(approvals=[voted, open_])], "GET /v1/whoami": [answer(ME)],
        "GET /v1/commands": [page(commands=[command("pending_approval", id=f"cmd_{name}") for name in "vo"])],
        "GET /v1/sessions": [page(sessions=[session(name) for name in "vo"])]})
    monkeypatch.setattr(gateway_link, "GatewayLink", lambda *_, **__: link_to(script, tmp_path))

    assert tasks(where=Where(state=tmp_path)) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["cmd_o", "cmd_v"]
    assert ["waiting for another approver" in row for row in rows] == [False, True]

    assert sessions(where=Where(state=tmp_path)) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [row.split()[0] for row in rows] == ["ses_o", "ses_v"]
    assert "waiting for you" in rows[0]
    assert "waiting for another approver" in rows[1]


@pytest.mark.req("G-7", "P-3")
def test_a_running_task_whose_tool_call_waits_for_a_yes_is_shown_as_waiting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pending = [approval(id="apr_o", command_id="cmd_o"), approval(id="apr_v", command_id="cmd_v", votes=[MY_VOTE]),
               approval(id="apr_x", command_id=None)]
    running = [command("running", id=f"cmd_{name}", ended_at=None) for name in "rvo"]
    script = Script({
        "GET /v1/approvals": [page(approvals=pending)], "GET /v1/whoami": [answer(ME)],
        "GET /v1/commands": [page(commands=running)], "GET /v1/sessions": [page(sessions=[])],
        **{f"GET /v1/commands/{one['id']}": [answer(one)] for one in running}})
    monkeypatch.setattr(gateway_link, "GatewayLink", lambda *_, **__: link_to(script, tmp_path))

    assert tasks(where=Where(state=tmp_path)) == 0
    rows = capsys.readouterr().out.splitlines()[1:]
    assert [" ".join(row.split()[:3]) for row in rows] == [
        "cmd_o waiting for", "cmd_v waiting for", "cmd_r running claude"]
    assert ["another approver" in row for row in rows] == [False, True, False]
    for task, state in (("cmd_o", "waiting for you"), ("cmd_v", "waiting for another approver"), ("cmd_r", "running")):
        assert tasks(task, where=Where(state=tmp_path)) == 0
        assert f"state       {state}\n" in capsys.readouterr().out


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
