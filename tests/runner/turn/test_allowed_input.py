"""A tool that runs without a grant, or with another input than the allowed one, is reported at once (H-3, H-12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interlock.protocol.codes import Code
from interlock.runner.turn.allowed_input import without_yes
from interlock.runner.turn.tool_calls import Allowed, AnnouncedCall
from runner.stage import Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("A-5", "A-10")]
LS = {"command": "ls"}


def tool(kind: str | None, value: Any, status: str = "completed") -> dict[str, Any]:
    return {"sessionUpdate": "tool_call", "toolCallId": "c", "title": "t", "kind": kind, "status": status,
            "rawInput": value}


async def reported(scene: Stage, tmp_path: Path, words: str, updates: list[dict[str, Any]],
                   permissions: list[dict[str, Any]] | None = None, decision: Any = "allow") -> list[tuple[str, str]]:
    (tmp_path / "updates.json").write_text(json.dumps(updates))
    (tmp_path / "permissions.json").write_text(json.dumps(permissions or []))
    await scene.open("bad")
    await scene.prompt(words)
    for _ in permissions or []:
        await scene.answer(await scene.next("agent.interaction.request"), decision)
    await scene.next("session.usage")
    return [(frame.payload.error_code, frame.payload.message) for frame in scene.all("agent.error")]


@pytest.mark.req("H-12")
@pytest.mark.parametrize(("kind", "value", "sentence"), [
    ("execute", LS, "The agent ran a tool without asking: $ ls"),
    ("edit", {"path": "a", "content": "x\n"}, "The agent ran a tool without asking: write a (+1 −0)"),
    ("other", LS, "The agent ran a tool without asking: $ ls"),
    (None, {"file_path": "a", "old_string": "b", "new_string": "c"},
     "The agent ran a tool without asking: edit a (+1 −1)"),
    ("fetch", {"url": "https://example.org"}, "The agent ran a tool without asking: fetch https://example.org"),
    ("other", {"url": "https://example.org"}, "The agent ran a tool without asking: other https://example.org"),
])  # fmt: skip
async def test_a_tool_that_ran_without_a_question_is_reported_once(
    kind: str | None, value: Any, sentence: str, tmp_path: Path
) -> None:
    async with stage(tmp_path) as scene:
        found = await reported(scene, tmp_path, "raw", [tool(kind, value)])
        assert [code for code, _ in found] == ["RAN_UNASKED"]
        assert found[0][1].startswith(sentence)


@pytest.mark.parametrize(("kind", "value", "status"), [
    ("read", {"path": "a"}, "completed"), ("search", {"query": "x"}, "completed"), ("think", {}, "completed"),
    ("other", {"todos": ["a"]}, "completed"), ("execute", LS, "failed"), ("execute", LS, "in_progress"),
])  # fmt: skip
async def test_reads_and_tools_that_did_not_run_are_not_reported(
    kind: str, value: Any, status: str, tmp_path: Path
) -> None:
    async with stage(tmp_path) as scene:
        assert await reported(scene, tmp_path, "raw", [tool(kind, value, status)]) == []


async def test_a_program_with_output_counts_as_running(tmp_path: Path) -> None:
    printing = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": {"terminal_output": {"data": "out"}}}
    async with stage(tmp_path) as scene:
        found = await reported(scene, tmp_path, "raw", [tool("execute", LS, "in_progress"), printing])
        assert [code for code, _ in found] == ["RAN_UNASKED"]


@pytest.mark.req("H-3")
async def test_an_input_that_differs_from_the_allowed_one_is_reported(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        found = await reported(scene, tmp_path, "permit raw", [
            {**tool("execute", {"command": "rm -rf ."}), "sessionUpdate": "tool_call_update"}],
            [{"toolCallId": "c", "kind": "execute", "rawInput": LS}])
        assert found == [("RAN_OTHER_THAN_ALLOWED", "The agent ran '$ rm -rf .', but '$ ls' was allowed.")]


async def test_the_allowed_input_in_another_spelling_is_not_reported(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        assert await reported(scene, tmp_path, "permit raw", [
            {**tool("execute", {"cwd": "/", "command": "ls"}), "sessionUpdate": "tool_call_update"}],
            [{"toolCallId": "c", "kind": "execute", "rawInput": {"command": "ls", "cwd": "/"}}]) == []


async def test_a_denied_tool_that_failed_is_not_reported(tmp_path: Path) -> None:
    async with stage(tmp_path) as scene:
        assert await reported(scene, tmp_path, "permit raw", [
            {**tool("execute", LS, "failed"), "sessionUpdate": "tool_call_update"}],
            [{"toolCallId": "c", "kind": "execute", "rawInput": LS}], "deny") == []


@pytest.mark.req("H-3", "P-2")
@pytest.mark.parametrize(("reported", "found"), [
    (None, None), (b'{"command": "ls -l"}', None),
    (b'{"command": "rm"}', (Code.RAN_OTHER_THAN_ALLOWED, "The agent ran '$ rm', but '$ ls -l' was allowed.")),
])
def test_a_changed_input_is_what_runs_unless_the_agent_reports_another(
    reported: bytes | None, found: tuple[Code, str] | None
) -> None:
    call = AnnouncedCall("c", 0, tool_name="shell", input_json=b'{"command": "rm"}', kind="execute")
    call.ask()
    call.allow(Allowed(b'{"command": "ls -l"}'), changed=True)
    if reported is not None:
        call.run_with(reported)
    assert without_yes(call, call.input_json) == found


def test_a_grant_of_a_described_call_has_nothing_to_compare() -> None:
    call = AnnouncedCall("c", 0)
    call.asked, call.kind = True, "execute"
    call.allowed.append(Allowed(b""))
    assert without_yes(call, b'{"command": "rm"}') is None
    call.allowed.clear()
    call.allowed.append(Allowed(b'{"command": "ls"}'))
    assert without_yes(call, b'{"command": "rm"}') == (
        Code.RAN_OTHER_THAN_ALLOWED, "The agent ran '$ rm', but '$ ls' was allowed.")


RM = {"command": "rm -rf ."}
PRINTS = {"sessionUpdate": "tool_call_update", "toolCallId": "c", "_meta": {"terminal_output": {"data": "out"}}}


def ask(value: Any, **more: Any) -> dict[str, Any]:
    return {"toolCallId": "c", "kind": "execute", "rawInput": value, **more}


async def played(scene: Stage, tmp_path: Path, steps: list[Any]) -> list[tuple[str, str]]:
    """Play updates (objects) and permissions (pairs of a call and the decision on it) in this order."""
    (tmp_path / "steps.json").write_text(json.dumps([one if isinstance(one, dict) else one[0] for one in steps]))
    await scene.open("bad")
    await scene.prompt("steps")
    for one in steps:
        if isinstance(one, tuple):
            await scene.answer(await scene.next("agent.interaction.request"), one[1])
    await scene.next("session.usage")
    return [(frame.payload.error_code, frame.payload.message) for frame in scene.all("agent.error")]


@pytest.mark.req("H-3", "H-12")
@pytest.mark.parametrize(("steps", "found"), [
    # Two requests under one id, and only one of them was allowed.
    ([(ask(LS), "allow"), (ask(RM), "deny"), {**tool("execute", RM), "sessionUpdate": "tool_call_update"}],
     ("RAN_OTHER_THAN_ALLOWED", "The agent ran '$ rm -rf .', but '$ ls' was allowed.")),
    ([(ask(RM), "deny"), (ask(LS), "allow"), {**tool("execute", RM), "sessionUpdate": "tool_call_update"}],
     ("RAN_OTHER_THAN_ALLOWED", "The agent ran '$ rm -rf .', but '$ ls' was allowed.")),
    ([(ask(LS), "allow"), (ask(RM), "allow"), {**tool("execute", LS), "sessionUpdate": "tool_call_update"}], None),
    # A program that prints after a no.
    ([(ask(RM), "deny"), PRINTS], ("RAN_UNASKED", "The agent ran a tool that was denied: $ rm -rf .")),
    ([(ask(RM), "deny"), {**tool("execute", RM), "sessionUpdate": "tool_call_update"}], None),
    # The id of a call that was allowed and has ended, for another one.
    ([(ask(LS), "allow"), {**tool("execute", LS), "sessionUpdate": "tool_call_update"}, tool("execute", RM)],
     ("RAN_UNASKED", "The agent ran a tool without asking: $ rm -rf .")),
    ([(ask(LS), "allow"), {**tool("execute", LS), "sessionUpdate": "tool_call_update"},
      {**tool("execute", RM), "sessionUpdate": "tool_call_update"}],
     ("RAN_UNASKED", "The agent ran a tool without asking: $ rm -rf .")),
    ([(ask(LS), "allow"), {**tool("execute", LS), "sessionUpdate": "tool_call_update"},
      tool("execute", LS, "in_progress"), PRINTS], ("RAN_UNASKED", "The agent ran a tool without asking: $ ls")),
    # A late update of a call that has ended is not another call.
    ([(ask(LS), "allow"), *[{**tool("execute", LS), "sessionUpdate": "tool_call_update"}] * 2, tool("execute", LS),
      PRINTS, {"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"}], None),
    # An id that was allowed once is asked about again, and gets its own answer.
    ([(ask(LS), "allow"), {**tool("execute", LS), "sessionUpdate": "tool_call_update"}, (ask(LS), "deny"), PRINTS],
     ("RAN_UNASKED", "The agent ran a tool that was denied: $ ls")),
])
async def test_a_second_call_under_an_asked_id_is_checked_separately(
    steps: list[Any], found: tuple[str, str] | None, tmp_path: Path
) -> None:
    async with stage(tmp_path) as scene:
        assert await played(scene, tmp_path, steps) == ([] if found is None else [found])


def test_a_text_question_is_not_a_permission_and_an_open_question_not_a_grant() -> None:
    call = AnnouncedCall("c", 0)
    call.kind = "execute"
    assert without_yes(call, b'{"command": "rm"}') is not None
    call.asked = True
    assert without_yes(call, b'{"command": "rm"}') == (
        Code.RAN_UNASKED, "The agent asked about a tool, but ran it before the answer: $ rm")
