"""`interlock status` in lines: what waits for a person comes first, and the reasons why work does not start are shown
(G-7)."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from cli.scripted import URL, answer
from interlock.cli.approvals.left_to_others import LeftToOthers
from interlock.cli.exit_status import ExitStatus
from interlock.cli.operations.gateway_status import CONTESTED_S, LABEL_CELLS, runner_line, status, status_lines
from interlock.protocol.answers import Status
from interlock.protocol.clock import iso
from interlock.protocol.drains import Drain
from interlock.protocol.limits import PAGE_MAX
from interlock.protocol.resources import Node

pytestmark = pytest.mark.req("G-7")
IDLE: dict[str, Any] = {"gateway_id": "gw_a", "version": "1", "state_dir": "", "store_path": "", "tenant_id": "t",
                        "role": "owner", "commands": {}, "approvals_pending": 0, "sessions": 0, "viewers": 0,
                        "runners": []}


READY: dict[str, Any] = {"ok": True, "ledger": "writes", "lanes": "up", "audit": "signs", "draining": False}


def lines(**fields: Any) -> list[str]:
    return list(status_lines(Status(**{**IDLE, **fields}), [], "http://127.0.0.1:8642", starting=False))


def test_the_first_line_shows_the_waiting_approvals() -> None:
    assert lines()[0] == "waiting for you  nothing"
    assert lines(approvals_pending=1)[0] == "waiting for you  1 approval (interlock approvals)"
    assert lines(approvals_pending=PAGE_MAX)[0] == f"waiting for you  {PAGE_MAX}+ approvals (interlock approvals)"


def test_what_waits_for_others_is_not_counted_as_waiting_for_you() -> None:
    def first(pending: int, others: LeftToOthers) -> str:
        now = Status(**{**IDLE, "approvals_pending": pending})
        return next(iter(status_lines(now, [], URL, others, starting=False)))

    assert first(1, LeftToOthers(frozenset({"apr_a"}), frozenset({"cmd_a"}), frozenset({"ses_a"}))) == (
        "waiting for you  nothing; 1 waiting for another approver (interlock approvals)")
    assert first(3, LeftToOthers(frozenset({"apr_a"}))) == (
        "waiting for you  2 approvals; 1 waiting for another approver (interlock approvals)")


def test_each_label_has_its_width() -> None:
    drain = Drain(scope="runner", id="box", at="2026-01-01T00:00:00.000Z", by="user:kim", reason=None)
    shown = lines(commands={"running": 2, "pending_approval": 1}, unsigned="it was rolled back", drains=[drain],
                  state_dir="/state", store_path="/state/ledger.db", version="1", role="owner")

    assert all(line[LABEL_CELLS - 1] == " " and line[LABEL_CELLS] != " " for line in shown)
    assert "tasks            1 pending approval, 2 running" in shown
    assert any(line.startswith("audit log        cannot be signed") and "rolled back" in line for line in shown)
    assert any(line.startswith("drain            draining runner box") for line in shown)
    assert shown[-1] == "store            /state/ledger.db"


@pytest.mark.parametrize(("commands", "in_turn", "shown"), [
    ({"running": 1}, 1, "1 pending approval"),
    ({"running": 3, "pending_approval": 1}, 2, "3 pending approval, 1 running"),
    ({"running": 1}, 2, "1 pending approval"),
    ({"running": PAGE_MAX}, 1, f"{PAGE_MAX}+ running"),
    ({}, 0, "none at work"),
])
def test_a_started_task_that_waits_for_an_approval_is_not_called_running(
        commands: dict[str, int], in_turn: int, shown: str) -> None:
    now = Status(**{**IDLE, "commands": commands})
    assert f"tasks            {shown}" in status_lines(now, [], URL, starting=False, in_turn=in_turn)


def test_the_verb_counts_the_tool_calls_that_wait_not_the_tasks_that_did_not_start(
        scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def pending(approval_id: str, task: str, door: str) -> dict[str, Any]:
        return {"id": approval_id, "tenant_id": "t", "door": door, "state": "pending", "created_at": "", "title": "x",
                "expires_at": "", "agent_id": "a", "session_id": "s", "command_id": task, "digest": "", "input": {},
                "rule": "ask"}

    waiting = [pending("apr_a", "cmd_a", "tool"), pending("apr_b", "cmd_a", "tool"),
               pending("apr_c", "cmd_c", "command")]
    _, where = scripted({
        "GET /v1/status": [answer({**IDLE, "commands": {"running": 2, "pending_approval": 1}, "approvals_pending": 3})],
        "GET /v1/sessions": [answer({"items": [], "next_cursor": "", "has_more": False})],
        "GET /readyz": [answer(READY)],
        "GET /v1/approvals": [answer({"items": waiting, "next_cursor": None, "has_more": False})],
    })
    assert status(where=where) == ExitStatus.DONE
    assert "tasks            2 pending approval, 1 running" in capsys.readouterr().out.splitlines()


def test_a_ledger_that_accepts_no_writes_is_shown(scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, where = scripted({"GET /v1/status": [answer(IDLE)],
                         "GET /readyz": [answer({**READY, "ok": False, "ledger": "refuses"}, 503)],
                         "GET /v1/sessions": [answer({"items": [], "next_cursor": "", "has_more": False})]})
    assert status(where=where) == ExitStatus.DONE
    assert ("ledger           accepts no writes, so no change is accepted; see: interlock doctor"
            in capsys.readouterr().out.splitlines())


def test_status_is_shown_behind_a_proxy_that_hides_the_readiness(
        scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, where = scripted({"GET /v1/status": [answer(IDLE)],
                         "GET /v1/sessions": [answer({"items": [], "next_cursor": "", "has_more": False})]})
    assert status(where=where) == ExitStatus.DONE
    assert capsys.readouterr().out.splitlines() == list(status_lines(Status(**IDLE), [], URL, starting=False))


def test_a_gateway_without_runners_or_paths_shows_the_next_step() -> None:
    shown = lines()

    assert "runner           none is paired; start one with: interlock up" in shown
    assert not any(line.startswith("state directory") for line in shown)


def test_the_verb_prints_these_lines_or_the_gateways_json(
        scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    sent = {**IDLE, "of_a_later_version": 1}
    _, where = scripted({"GET /v1/status": [answer(sent)], "GET /readyz": [answer(READY)],
                         "GET /v1/sessions": [answer({"items": [], "next_cursor": "", "has_more": False})]})
    assert status(where=where) == ExitStatus.DONE
    assert capsys.readouterr().out.splitlines() == list(status_lines(Status(**IDLE), [], URL, starting=False))
    assert status(json=True, where=where) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out) == sent


def node(**fields: Any) -> Node:
    return Node(**{"node_id": "local", "device_name": "laptop", "status": "online", "last_seen": "", "capabilities": [],
                   "active_sessions_count": 0, "config_versions": {}, **fields})


@pytest.mark.parametrize(("fields", "starting", "line"), [
    ({"agents": [{"agent_id": "shell"}], "roots": ["/w", "/x"]}, False, "laptop (local) · online · shell · /w, /x"),
    ({"agents": [{"agent_id": "shell"}]}, True, "laptop (local) · online · shell"),
    ({}, False, "laptop (local) · online · no agents"),
    ({"status": "offline"}, True, "laptop (local) · starting"),
    ({"status": "offline"}, False, "laptop (local) · offline"),
    ({"status": "offline", "node_id": "rnr_1", "device_name": ""}, True, "rnr_1 (rnr_1) · offline"),
    ({"status": "offline", "roots": ["/w"]}, False, "laptop (local) · offline · /w"),
])
def test_only_known_parts_are_shown(fields: dict[str, Any], starting: bool, line: str) -> None:
    assert runner_line(node(**fields), starting=starting) == line


def test_what_is_wrong_with_a_runners_link_is_shown() -> None:
    now_ms = int(time.time() * 1000)
    line = runner_line(node(frames_passed_over=3, contested_at=iso(now_ms - 600_000)))
    assert line.endswith(" · two processes use its token and replace each other's links, last 10 min ago "
                         "· 3 frames passed over, since they name no session of it")
    old = runner_line(node(frames_passed_over=0, contested_at=iso(now_ms - int(CONTESTED_S * 1_000) - 60_000)))
    assert old == "laptop (local) · online · no agents"
