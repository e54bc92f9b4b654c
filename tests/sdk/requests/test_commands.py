"""Requests for commands (C-0, C-2, C-6): a prompt as the payload that it becomes, and the verbs that steer it."""

from __future__ import annotations

from typing import Any

import pytest

from interlock.protocol.resources import ExecutePayload, Heartbeat, StatusEvent
from interlock.sdk.exchange import RequestSpec
from interlock.sdk.requests import commands
from sdk.requests.asked import body, line


@pytest.mark.req("C-0")
def test_a_text_becomes_one_message_of_a_person() -> None:
    sent = body(commands.submit("ls", agent="shell", workspace="/w", tools=["bash"], approvals=2, timeout_ms=5))
    assert sent["payload"]["messages"] == [
        {"role": "user", "content": [{"contentType": "text", "value": "ls"}]}]
    assert (sent["payload"]["tools"], sent["target"]) == (["bash"], {"agent_id": "shell", "workspace": "/w"})
    assert (sent["type"], sent["approval"], sent["timeout_ms"]) == ("execute", {"required": 2}, 5)
    assert sent.keys() == {"type", "target", "payload", "approval", "timeout_ms"}


@pytest.mark.req("C-0")
def test_a_payload_is_sent_unchanged_and_unset_options_are_absent() -> None:
    sent = body(commands.submit(ExecutePayload(messages=[], land=True), session_id="s"))
    assert sent["payload"]["land"] is True
    assert "approval" not in sent
    assert "timeout_ms" not in sent


def test_a_submission_may_wait_for_the_end() -> None:
    asked = commands.submit("ls", agent="shell", wait_s=5)
    assert asked.wait_s == 5
    assert commands.submit("ls", agent="shell").wait_s is None


@pytest.mark.req("C-2", "C-6")
@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_a_control_verb_is_a_command_about_a_command(verb: str) -> None:
    asked: RequestSpec[Any] = getattr(commands, verb)("cmd_1", reason="late", wait_s=3, idempotency_key="own")
    sent = body(asked)
    assert (sent["type"], sent["target"], sent["reason"]) == (verb, {"command_id": "cmd_1"}, "late")
    assert (line(asked), asked.wait_s, asked.key) == ("POST /v1/commands", 3, "own")
    assert "payload" not in sent


@pytest.mark.parametrize(("asked", "text"), [
    (commands.show("c"), "GET /v1/commands/c"), (commands.approval("c"), "GET /v1/commands/c/approval"),
    (commands.listing(kind="cancel", state="queued"), "GET /v1/commands?state=queued&type=cancel"),
    (commands.status("c", since="1", wait=0), "GET /v1/commands/c/status?since=1&wait=0"),
])
def test_a_read_is_that_of_the_reference(asked: RequestSpec[Any], text: str) -> None:
    assert line(asked) == text


@pytest.mark.req("S-1", "S-2")
def test_a_status_is_decoded_by_the_name_of_its_event() -> None:
    following = commands.follow("c", since="7")
    assert (following.path, following.since) == ("/v1/commands/c/status", "7")
    beat = b'{"event":"heartbeat","command_id":"c","agent_id":"a","at":"t","state":"running"}'
    assert isinstance(following.read("heartbeat", beat), Heartbeat)
    assert isinstance(following.read("state", b'{"event":"state","command_id":"c","at":"t"}'), StatusEvent)
