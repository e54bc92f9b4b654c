"""What a person is asked about is the permission request itself, and not what was announced before it (H-1, H-2)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.protocol import payloads as p
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("P-2", "A-5")]
ANNOUNCED = {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "ls -l", "status": "pending", "kind": "execute",
             "rawInput": {"command": "ls -l"}}


async def asked_about(
    scene: Stage, calls: list[dict[str, Any]], updates: list[dict[str, Any]] | None = None
) -> list[p.InteractionSubject]:
    """The subjects of the permissions that an agent asks for after its updates; each is denied."""
    (scene.workspace / "updates.json").write_text(json.dumps(updates or []))
    (scene.workspace / "permissions.json").write_text(json.dumps(calls))
    await scene.open("bad")
    await scene.prompt("raw permit")
    subjects: list[p.InteractionSubject] = []
    for _ in calls:
        asked = await scene.next("agent.interaction.request")
        subjects.append(msgspec.json.decode(asked.payload.context.subject, type=p.InteractionSubject))
        await scene.answer(asked, "deny")
    await scene.next("session.usage")
    return subjects


@pytest.mark.req("H-1")
async def test_the_announced_call_differs_from_the_requested_one(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        [subject] = await asked_about(scene, [
            {"toolCallId": "c", "title": "rm -rf ~", "rawInput": {"command": "rm -rf ~"}}], [ANNOUNCED])
        assert bytes(subject.input) == b'{"command": "rm -rf ~"}'
        assert (subject.title, subject.changed, subject.described) == ("rm -rf ~", True, False)
        asked = scene.all("agent.interaction.request")[0].payload
        assert (asked.title, bytes(asked.context.input)) == ("rm -rf ~", b'{"command": "rm -rf ~"}')


@pytest.mark.req("H-1")
async def test_the_same_input_in_another_order_is_not_a_change(tmp_path: Path) -> None:
    announced = {**ANNOUNCED, "rawInput": {"command": "ls", "cwd": "/"}}
    async with stage(tmp_path) as scene:
        [subject] = await asked_about(scene, [{"toolCallId": "c", "rawInput": {"cwd": "/", "command": "ls"}}],
                                      [announced])
        assert not subject.changed


@pytest.mark.req("H-1")
async def test_two_requests_of_one_call_are_two_subjects(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        subjects = await asked_about(scene, [
            {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "ls"}},
            {"toolCallId": "c", "kind": "execute", "rawInput": {"command": "rm -rf ."}}])
        assert [bytes(one.input) for one in subjects] == [b'{"command": "ls"}', b'{"command": "rm -rf ."}']
        assert [one.changed for one in subjects] == [False, True]


@pytest.mark.parametrize("call", [
    {"kind": "execute", "title": "rm -rf x"},
    {"kind": "execute", "title": "rm -rf x", "rawInput": {}},
    {"kind": "execute", "title": "rm -rf x", "rawInput": {"cwd": "/srv"}},
    {"kind": "edit", "title": "Writing to setup.sh", "content": [
        {"type": "diff", "path": "setup.sh", "oldText": None, "newText": "curl x | sh"}],
     "locations": [{"path": "setup.sh"}]},
    {"kind": "delete", "title": "rm x", "rawInput": {"reason": "old"}},
    {"title": "Bash"},
])  # fmt: skip
async def test_an_input_without_the_effect_is_only_described(call: dict[str, Any], tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        [subject] = await asked_about(scene, [{"toolCallId": "c", **call}], [ANNOUNCED])
        assert subject.described
        assert subject.title == call["title"]
        assert subject.locations == [one["path"] for one in call.get("locations", [])]
        shown = msgspec.json.decode(subject.content) if isinstance(subject.content, msgspec.Raw) else None
        assert shown == call.get("content")


@pytest.mark.parametrize("call", [
    {"kind": "execute", "rawInput": {"command": ["git", "status"]}},
    {"kind": "edit", "rawInput": {"file_path": "a", "old_string": "x", "new_string": "y"}},
    {"kind": "fetch", "rawInput": {"url": "https://example.org"}},
    {"kind": "other", "rawInput": {"n": 1}},
])  # fmt: skip
async def test_an_input_with_the_effect_is_not_described(call: dict[str, Any], tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        [subject] = await asked_about(scene, [{"toolCallId": "c", **call}])
        assert (subject.described, subject.changed) == (False, False)


@pytest.mark.req("E-5")
async def test_a_request_that_cannot_be_shown_in_full_is_denied_without_asking(tmp_path: Path) -> None:
    (tmp_path / "updates.json").write_text("[]")
    (tmp_path / "permissions.json").write_text(json.dumps([{"toolCallId": "c", "kind": "edit", "content": [
        {"type": "diff", "path": "a", "oldText": "", "newText": "x" * 300_000}]}]))
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.turn("raw permit")
        assert scene.all("agent.interaction.request") == []
        assert scene.all("agent.error")[-1].payload.error_code == "FRAME_TOO_LARGE"


async def test_a_request_that_cannot_be_read_is_denied_and_the_session_continues(tmp_path: Path) -> None:
    (tmp_path / "updates.json").write_text("[]")
    (tmp_path / "permissions.json").write_text(json.dumps([
        {"toolCallId": "c", "locations": "here"}, {"toolCallId": 7}, {}, {"toolCallId": "d", "locations": [{}]}]))
    async with stage(tmp_path) as scene:
        await scene.open("bad")
        await scene.turn("raw permit")
        assert scene.all("agent.interaction.request") == []
        assert (await scene.turn("text:on")).payload.stop_reason == "end_turn"
