"""`interlock sessions fork|label|branch|import`: entries are named by a beginning or a label (X-6)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cli.scripted import Script, answer
from cli.tasks.test_follower import AT
from interlock.cli.exit_status import ExitStatus
from interlock.cli.sessions.transcript_changes import branch, fork, import_, label
from interlock.cli.verb_error import Trouble

pytestmark = pytest.mark.req("X-6")
SESSION = {"session_id": "s-1", "session_key": "agent:claude:main", "tenant_id": "t", "agent_id": "claude",
           "state": "idle", "created_at": AT, "updated_at": AT}
NODES = [{"id": "aa11", "parent_id": None, "type": "message", "label": "start"},
         {"id": "aa22", "parent_id": "aa11", "type": "message"}, {"id": "bb33", "parent_id": "aa22", "type": "message"}]
ADDED = {"session_id": "s-1", "entry_id": "cc44", "parent_id": "bb33"}
BEGUN = {"session": {**SESSION, "session_id": "s-2"}, "entries": 2, "report": None}
DAMAGED = {"version": 3, "entries": 2, "leaf": None, "sound": False, "counts": {"lost_parent": 2}, "findings": []}


@pytest.fixture
def gateway(scripted: Any) -> Any:
    """Have a gateway answer a change of the one session, whose transcript is `NODES`; the script."""
    def answering(path: str, after: Any) -> tuple[Script, Any]:
        return scripted({
            "GET /v1/sessions": [answer({"items": [SESSION], "next_cursor": "", "has_more": False})],
            "GET /v1/sessions/s-1/tree": [answer({"nodes": NODES, "leaf": "bb33", "entries": 3, "has_more": False})],
            f"POST /v1/sessions/{path}": [answer(after)]})
    return answering


def sent(script: Script) -> dict[str, Any]:
    """The members that have a value of the last body."""
    body = json.loads(script.asked[-1].content)
    return {name: value for name, value in body.items() if value is not None}


@pytest.mark.parametrize(("text", "entry_id"), [("start", "aa11"), ("bb", "bb33"), ("aa22", "aa22"), (None, None)])
def test_a_fork_copies_the_path_to_an_entry(
    text: str | None, entry_id: str | None, gateway: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    script, where = gateway("s-1/fork", BEGUN)
    assert fork("@last", at=text, where=where) == ExitStatus.DONE
    assert sent(script).get("entry_id") == entry_id
    assert capsys.readouterr().out == "s-2 · claude · 2 entries\n"
    assert fork("s-1", at=text, json=True, where=where) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out) == BEGUN


@pytest.mark.parametrize(("text", "error"), [("aa", "names 2 entries: aa11, aa22"), ("zz", "has no entry 'zz'")])
def test_an_unknown_or_ambiguous_entry_changes_nothing(text: str, error: str, gateway: Any) -> None:
    script, where = gateway("s-1/labels", ADDED)
    with pytest.raises(Trouble, match=error):
        label("s-1", text, "done", where=where)
    assert {one.method for one in script.asked} == {"GET"}


def test_an_entry_gets_a_label_and_loses_it(gateway: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, where = gateway("s-1/labels", ADDED)
    assert label("s-1", "bb", "the \x1b end", where=where) == ExitStatus.DONE
    assert sent(script) == {"entry_id": "bb33", "label": "the \x1b end"}
    assert capsys.readouterr().out == "bb33 is labelled the \\x1b end\n"
    assert label("s-1", "start", none=True, where=where) == ExitStatus.DONE
    assert sent(script) == {"entry_id": "aa11"}
    assert capsys.readouterr().out == "aa11 has no label now\n"
    with pytest.raises(Trouble, match="Give a label, or --none"):
        label("s-1", "bb", where=where)


def test_the_conversation_continues_below_an_earlier_entry(gateway: Any, capsys: pytest.CaptureFixture[str]) -> None:
    script, where = gateway("s-1/branches", ADDED)
    assert branch("s-1", "aa2", summary="the tests failed", where=where) == ExitStatus.DONE
    assert sent(script) == {"entry_id": "aa22", "summary": "the tests failed"}
    assert capsys.readouterr().out == "cc44: what comes next hangs below aa22\n"
    assert branch("s-1", "aa2", json=True, where=where) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out) == ADDED


def test_a_foreign_transcript_is_sent_whole_and_its_damage_is_shown(
        gateway: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "old.jsonl"
    file.write_bytes(b'{"type":"session"}\n')
    script, where = gateway("import", {**BEGUN, "report": DAMAGED})
    assert import_(file, agent="claude", workspace="/w", where=where) == ExitStatus.DONE
    assert script.asked[-1].content == file.read_bytes()
    assert dict(script.asked[-1].url.params) == {"agent_id": "claude", "workspace": "/w"}
    printed = capsys.readouterr()
    assert printed.out == "s-2 · claude · 2 entries\n"
    assert "mended in the session: lost_parent 2" in printed.err
