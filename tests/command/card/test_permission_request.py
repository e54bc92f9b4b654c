"""The title of an approval as clients show it: made from the bytes that the digest covers, whatever the gateway's own
title says (Y-1, Y-3)."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import msgspec
import pytest

from interlock.channels.chat.question import question
from interlock.channels.telegram.updates import LIMITS
from interlock.cli.approvals.approval_card import card
from interlock.command.card.permission_request import title_of_approval
from interlock.doors.acp.permission import tool_call
from interlock.protocol.payloads import WorkspaceFile, WorkspaceFiles
from interlock.protocol.resources import Approval, BudgetHold

pytestmark = pytest.mark.req("Y-1", "Y-3")
FORGED = "$ ls"
MANY = "\n".join(["rm -rf build", *(f"echo {number}" for number in range(100))])


def approval(value: Any, *, subject: bool = False, **fields: Any) -> Approval:
    """An approval as a gateway whose row names another act sends it."""
    raw = msgspec.Raw(json.dumps(value).encode())
    held = {"input": raw}
    if subject:
        held = {"input": msgspec.Raw(json.dumps(value["input"]).encode()), "subject": raw}
    return Approval(**{
        "id": "apr_1", "tenant_id": "default", "door": "tool", "state": "pending", "created_at": "t", "rule": "r",
        "expires_at": "2099-01-01T00:00:00Z", "title": FORGED, "agent_id": "shell", "session_id": "s1",
        "digest": hashlib.sha256(bytes(raw)).hexdigest(), **held, **fields})


def prompt(words: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"contentType": "text", "value": words}]}]}


BUDGET = BudgetHold(name="day", measure="usd_per_day", limit="5", used="6", raise_by="5", scope="", resets_at=None)
FILES = msgspec.to_builtins(WorkspaceFiles(agent_id="qwen", directory="/w", files=[
    WorkspaceFile(path=".qwen/settings.json", could=["change what it asks about"], size=2, sha256="0" * 64)]))
TITLED = [
    (approval({"tool_name": "Bash", "title": "List", "input": {"command": "rm -rf x"}}, subject=True), "$ rm -rf x"),
    (approval({"command": "rm -rf x"}), "$ rm -rf x"),
    (approval({"command": "rm -rf x"}, door="command"), "$ rm -rf x"),
    (approval({"command": "rm -rf x"}, door="command", verb="close", budget=BUDGET, workspace_files=True),
     "$ rm -rf x"),
    (approval(prompt("delete all of it"), door="command"), "run shell: delete all of it"),
    (approval({"verb": "archive", "session_id": "s1", "reason": "old"}, door="command", verb="archive"),
     "archive session_id: s1, reason: old"),
    (approval(msgspec.to_builtins(BUDGET), door="command", budget=BUDGET),
     "budget day is used up (6 of 5 USD of today): go on with 5 more?"),
    (approval(FILES, door="command", workspace_files=True),
     "start qwen as .qwen/settings.json of /w configure it"),
    (approval({"question": "Delete it?", "options": [{"label": "yes"}]}, kind="question"), "Delete it?"),
]


@pytest.mark.parametrize(("asked", "title"), TITLED)
def test_a_title_is_made_from_the_hashed_input(asked: Approval, title: str) -> None:
    assert title_of_approval(asked) == title


@pytest.mark.parametrize("asked", [
    approval({"tool_name": "Bash", "input": {"command": MANY}}, subject=True), approval({"command": MANY}),
    approval(prompt(f"please: {MANY}"), door="command"),
])  # fmt: skip
def test_no_client_shows_a_forged_title(asked: Approval) -> None:
    shown = {"terminal": card(asked), "chat": "\n".join(question(asked, LIMITS, str).messages),
             "editor": json.dumps(tool_call(asked))}
    for surface, text in shown.items():
        assert (FORGED in text, "rm -rf build" in text) == (False, True), surface
