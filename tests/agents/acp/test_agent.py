"""Differences between ACP agents that an adapter must handle, a row each: what an agent does, and the outcome.
`DIFFERENCES` names them all, and the last test checks that each has its row."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interlock.protocol.envelope import Frame
from runner.stage import Stage, misbehaving, stage

pytestmark = pytest.mark.anyio

DIFFERENCES = {
    "tool_call then updates", "only request_permission and one update", "echoes the user", "unknown notifications",
    "vendor requests", "unknown sessionUpdate", "two allow_always", "no reject_once", "no option at all",
    "only always-options", "asks before it announces", "update after the result", "no credentials", "thinks",
    "empty rawInput first", "no tool name but a kind", "neither name nor kind", "vendor's name", "usage in the result",
    "live output in _meta", "prompt answered with an error", "refusal", "max_turn_requests", "another session's update",
    "diff content", "plans and commands", "two results", "switches its mode by itself", "no conversation to load",
}  # fmt: skip

_CALL = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "look", "status": "pending"}
_DONE = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}


class Row(NamedTuple):
    """The script of the prompt, or raw updates; the decider; and the expected state."""

    words: str
    holds: Callable[[Stage], Any]
    updates: list[dict[str, Any]] = []  # noqa: RUF012 - never changed in place
    decide: str | None = None
    stop: str = "end_turn"


def last(scene: Stage, kind: str) -> Frame:
    return scene.all(kind)[-1]


def named(scene: Stage) -> str:
    return last(scene, "tool.invoke.request").payload.tool_name


def status(scene: Stage) -> str:
    return last(scene, "tool.invoke.result").payload.status


def warned(scene: Stage, words: str) -> bool:
    return words in last(scene, "agent.error").payload.message


ROWS: dict[str, Row] = {
    "tool_call then updates": Row("ask", lambda s: status(s) == "ok", decide="allow"),
    "only request_permission and one update": Row("ask-first", lambda s: status(s) == "ok", decide="allow"),
    "asks before it announces": Row("ask-first", lambda s: s.durable().index("tool.invoke.request") < s.durable().index(
        "agent.interaction.request"), decide="deny"),
    "echoes the user": Row("echo text:mine", lambda s: s.text() == "mine"),
    "unknown notifications": Row("unknown text:on", lambda s: s.text() == "on"),
    "vendor requests": Row("unknown text:on", lambda s: s.text() == "on"),
    "unknown sessionUpdate": Row("raw text:on", lambda s: s.text() == "on", [{"sessionUpdate": "vendor_thing"}]),
    "two allow_always": Row("ask-odd", lambda s: status(s) == "ok", decide="allow"),
    "no reject_once": Row("ask-odd", lambda s: status(s) == "denied", decide="deny"),
    "no option at all": Row("ask-none", lambda s: status(s) == "denied" and warned(s, "no way to allow")),
    "only always-options": Row("ask-always", lambda s: status(s) == "denied" and warned(s, "no way to allow")),
    "update after the result": Row("late-update text:mine", lambda s: s.text() == "mine"),
    "thinks": Row("think:hm text:so", lambda s: last(s, "agent.thinking.done").payload.text == "hm"),
    "empty rawInput first": Row("raw", lambda s: bytes(last(s, "tool.invoke.request").payload.input) == b'{"a": 1}', [
        {**_CALL, "kind": "read", "rawInput": {}}, {**_DONE, "status": "pending", "rawInput": {"a": 1}}, _DONE]),
    "no tool name but a kind": Row("raw", lambda s: named(s) == "read", [{**_CALL, "kind": "read"}, _DONE]),
    "neither name nor kind": Row("raw", lambda s: named(s) == "unknown", [_CALL, _DONE]),
    "vendor's name": Row("raw", lambda s: named(s) == "Grep", [
        {**_CALL, "kind": "search", "_meta": {"claudeCode": {"toolName": "Grep"}}}, _DONE]),
    "usage in the result": Row("usage", lambda s: last(s, "session.usage").payload.token_usage.input_tokens == 1_000),
    "live output in _meta": Row("raw", lambda s: last(s, "tool.invoke.result").payload.output == "out", [
        {**_CALL, "kind": "execute", "rawInput": {"command": "x"}}, {**_DONE, "status": "in_progress", "_meta": {
            "toolNotification": {"type": "live_output", "params": {"chunks": [{"stream": "stdout", "output": "out"}]}}
        }}, _DONE]),
    "prompt answered with an error": Row("error", lambda s: warned(s, "the model is on fire: as asked"), stop="error"),
    "refusal": Row("stop:refusal", lambda s: last(s, "agent.error").payload.error_code == "AgentRefused"),
    "max_turn_requests": Row("stop:max_turn_requests", lambda s: True, stop="max_tokens"),
    "another session's update": Row("wrong-session text:mine", lambda s: s.text() == "mine"),
    "diff content": Row("diff:notes.txt", lambda s: last(s, "tool.invoke.result").payload.output_type == "diff"),
    "plans and commands": Row("plan raw text:on", lambda s: s.text() == "on", [
        {"sessionUpdate": "available_commands_update", "availableCommands": [{"name": "compact", "description": ""}]}]),
    "two results": Row("two-results text:one", lambda s: s.text() == "one"),
    "switches its mode by itself": Row("mode:plan text:on", lambda s: s.text() == "on"),
}


@pytest.mark.req("A-5", "A-7", "A-9")
@pytest.mark.parametrize("name", sorted(ROWS))
async def test_every_documented_difference_exists_in_the_code(name: str, tmp_path: Path) -> None:
    row = ROWS[name]
    (tmp_path / "updates.json").write_text(json.dumps(row.updates))
    async with stage(tmp_path, {"acp": misbehaving("--start=able")}) as scene:
        await scene.open("acp")
        await scene.prompt(row.words)
        if row.decide is not None:
            await scene.answer(await scene.next("agent.interaction.request"), row.decide)
        assert (await scene.next("session.turn.end")).payload.stop_reason == row.stop
        await scene.next("session.usage")
        assert row.holds(scene)
        # In every case the session continues, and nothing of the last turn appears in the next.
        before = len(scene.received)
        assert (await scene.turn("text:after")).payload.stop_reason == "end_turn"
        assert "".join(f.payload.text for f in scene.received[before:] if f.type == "agent.text.done") == "after"


@pytest.mark.req("A-7", "A-8")
async def test_an_agent_without_credentials_reports_it_itself(tmp_path: Path) -> None:
    async with stage(tmp_path, {"acp": misbehaving("--start=session-error")}) as scene:
        await scene.open("acp")
        error = (await scene.next("session.error")).payload
        assert error.error_code == "AGENT_START_FAILED"
        assert "no API key: set MISBEHAVING_API_KEY" in error.message


@pytest.mark.req("A-7")
def test_every_difference_has_its_row() -> None:
    elsewhere = {"no credentials", "no conversation to load"}  # The test above; test_abilities (forgetful).
    assert set(ROWS) | elsewhere == DIFFERENCES
