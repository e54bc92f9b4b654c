"""`interlock tasks`: the words on the screen, and a task as a person reads it (Y-17)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from cli.scripted import Script, answer, link_to
from interlock.cli import short_ids
from interlock.cli.config.place import Where
from interlock.cli.link import gateway_link
from interlock.cli.tasks.lists import tasks
from interlock.cli.tasks.task_members import task_members
from interlock.cli.verb_error import Trouble
from interlock.cli.verbs import build

pytestmark = pytest.mark.req("Y-17")

AT = "2026-11-21T10:00:00.000Z"
EXECUTE: dict[str, Any] = {
    "id": "cmd_01M8ACPCJNESQ9Z0G4Z738VAZP", "created_at": AT, "updated_at": AT, "tenant_id": "t", "timeout_ms": 1,
    "actor": {"type": "user", "id": "ann"}, "type": "execute", "state": "timed_out", "priority": 0,
    "target": {"agent_id": "claude", "session_id": "s1", "session_key": "agent:claude:run:s1", "workspace": "/w"},
    "payload": {"messages": [{"role": "user", "content": [{"contentType": "text", "value": "fix it\nall"}]}]},
    "error": {"code": "Timeout", "message": "it did not end"},
    "result": {"ok": False, "output": {"session_id": "s1", "output": [
        {"role": "tool", "content": [{"contentType": "text", "value": "noise"}]},
        {"role": "assistant", "content": [{"contentType": "text", "value": "half of it"}]}]}},
}
SESSION = {"session_id": "s1", "tenant_id": "t", "agent_id": "claude", "session_key": "agent:claude:run:s1",
           "title": "fix it", "state": "closed", "created_at": AT, "updated_at": AT}


def listed(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return {"items": rows, "next_cursor": None, "has_more": False}


def gateway(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *rows: dict[str, Any]) -> Where:
    script = Script({"GET /v1/commands": [answer(listed(list(rows)))], "GET /v1/sessions": [answer(listed([SESSION]))]})
    monkeypatch.setattr(gateway_link, "GatewayLink", lambda *_, **__: link_to(script, tmp_path))
    return Where(state=tmp_path)


def test_the_list_shows_a_tasks_prompt_and_calls_it_a_task(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tasks(where=gateway(monkeypatch, tmp_path, {**EXECUTE, "title": "and the rest"})) == 0
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split() == ["TASK", "STATE", "AGENT", "PROMPT", "SESSION", "BY", "CREATED", "TOOK", "ERROR"]
    assert re.search(r"timed out +claude +and the rest +fix it +ann ", row)
    assert tasks(where=gateway(monkeypatch, tmp_path, {**EXECUTE, "title": "fix it"})) == 0
    assert capsys.readouterr().out.count("fix it") == 1, "a session that is called by this very prompt is not named"
    cancel = {**EXECUTE, "id": "cmd_02", "type": "cancel"}
    assert tasks(all_=True, where=gateway(monkeypatch, tmp_path, EXECUTE, cancel)) == 0
    assert "TYPE" in capsys.readouterr().out


def test_a_task_is_shown_with_the_name_that_its_session_was_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = {**EXECUTE, "target": {**EXECUTE["target"], "session_key": "agent:claude:release-2"}}
    for prompt in ("fix it", "and the rest"):
        assert tasks(where=gateway(monkeypatch, tmp_path, {**named, "title": prompt})) == 0
        assert re.search(rf"claude +{prompt} +release-2 +ann ", capsys.readouterr().out)


def test_one_task_is_shown_without_the_nesting_of_the_wire() -> None:
    assert task_members(EXECUTE) == {
        "id": EXECUTE["id"], "state": "timed out", "prompt": "fix it\nall", "agent": "claude", "session": "s1",
        "workspace": "/w", "by": "user:ann", "created_at": AT, "timeout_ms": 1, "result": "half of it",
        "error": "Timeout: it did not end"}
    assert task_members({"id": "cmd_02", "state": "succeeded", "type": "cancel"}) == {
        "id": "cmd_02", "state": "succeeded", "type": "cancel"}


@pytest.mark.anyio
@pytest.mark.parametrize(("kind", "verb"), [
    (short_ids.COMMAND, "interlock tasks"), (short_ids.APPROVAL, "interlock approvals"),
    (short_ids.IdKind("signing key", "/x", "sgk_", "signing-keys"), "interlock signing-keys"),
])
async def test_a_missing_object_is_named_with_the_verb_that_lists_its_kind(
    kind: short_ids.IdKind, verb: str, tmp_path: Path
) -> None:
    for text in ("zz", short_ids.LAST):
        with pytest.raises(Trouble, match=f"There is no {kind.noun} ") as caught:
            short_ids.pick(text, list[str](), kind, str, str)
        assert caught.value.remedy.endswith(verb)


def test_no_line_of_help_calls_a_task_a_command() -> None:
    lines = [text for name in build() if not name.startswith("-") for text in (str(build()[name].help or ""),)]
    assert len(lines) > 30
    wrong = [line for line in lines if re.search(r"\bcommands?\b", line)
             and not re.search(r"shell command|under command|command line|to command agents", line)]
    assert wrong == []
