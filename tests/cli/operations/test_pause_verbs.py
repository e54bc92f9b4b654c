"""`interlock pause` and `resume`: the verb waits for the agent, and reports the outcome (C-6)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cli.scripted import Script, answer
from cli.tasks.test_follower import AT
from interlock.cli.exit_status import ExitStatus
from interlock.cli.operations.pause_verbs import pause, resume
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("C-6", "G-4")


def command(id_: str, kind: str, state: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "created_at": AT, "updated_at": AT, "tenant_id": "t", "actor": {"type": "user", "id": "me"},
            "type": kind, "target": {"agent_id": "shell", "session_id": "s"}, "state": state, "timeout_ms": 1, **more}


def obeying(scripted: Any, after: str, **ended: Any) -> tuple[Script, Any]:
    """A gateway of one running task, whose order ends so while the verb waits; the task is `after` then."""
    listed = {"items": [command("cmd_t", "execute", "running")], "next_cursor": "", "has_more": False}
    page = {"state": "running", "terminal": False, "last_heartbeat_at": None, "events": [], "next_cursor": "c1",
            "has_more": False}
    done = {"state": "succeeded", "ended_at": AT, **ended}
    return scripted({
        "GET /v1/commands": [answer(listed)], "POST /v1/commands": [answer(command("cmd_o", "pause", "running"), 202)],
        "GET /v1/commands/cmd_o/status": [answer(page)],
        "GET /v1/commands/cmd_o": [answer(command("cmd_o", "pause", "running")),
                                   answer(command("cmd_o", "pause", **done))],
        "GET /v1/commands/cmd_t": [answer(command("cmd_t", "execute", after))]})


@pytest.mark.parametrize(("verb", "kind", "after", "printed"), [
    (pause, "pause", "paused", "cmd_t is paused\n"),
    (pause, "pause", "pausing", "cmd_t is pausing · it pauses at its agent's next step\n"),
    (resume, "resume", "running", "cmd_t is running\n"),
])
def test_the_command_is_sent_and_waited_for(
    verb: Any, kind: str, after: str, printed: str, scripted: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script, where = obeying(scripted, after)
    assert verb(reason="lunch", where=where) == ExitStatus.DONE
    [sent] = [json.loads(one.content) for one in script.asked if one.method == "POST"]
    assert (sent["type"], sent["target"]["command_id"], sent["reason"]) == (kind, "cmd_t", "lunch")
    assert [one.url.params.get("since") for one in script.asked if one.url.path.endswith("/status")] == [None, "c1"]
    assert capsys.readouterr().out == printed


def test_a_failed_command_is_an_error_and_also_printed_with_json(
        scripted: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _, where = obeying(scripted, "running", state="failed", error={"code": "Conflict", "message": "It has ended."})
    for as_json in (False, True):
        with pytest.raises(Trouble, match="cmd_t was not paused: It has ended"):
            pause("cmd_t", json=as_json, where=where)
        printed = capsys.readouterr().out
        assert (json.loads(printed)["order"]["error"]["code"] == "Conflict") if as_json else printed == ""
