"""Output of tools that agents send in fields of their own: streamed, and in the result."""

from __future__ import annotations

from typing import Any

import pytest

from agents.scripted_acp import content, play, update

pytestmark = pytest.mark.anyio
END = {"result": {"stopReason": "end_turn"}}


def announced(**fields: Any) -> dict[str, Any]:
    return update(sessionUpdate="tool_call", toolCallId="c1", kind="execute", status="in_progress", title="make",
                  content=[{"type": "terminal", "terminalId": "c1"}], **fields)


def terminal(status: str | None = None, **meta: Any) -> dict[str, Any]:
    fields = {} if status is None else {"status": status}
    return update(sessionUpdate="tool_call_update", toolCallId="c1", **fields, _meta=meta)


def stdout_of(text: str) -> dict[str, Any]:
    return {"data": text, "terminal_id": "c1"}


def ended(code: int | None, signal: Any = None) -> dict[str, Any]:
    return {"terminal_id": "c1", "exit_code": code, "signal": signal}


@pytest.mark.req("A-7")
async def test_codex_streams_the_output_of_its_own_terminal() -> None:
    recorder, _, _ = await play([
        announced(name="exec_command", rawInput={"command": "make", "cwd": "/w"}),
        terminal(terminal_output_delta=stdout_of("one\n")),
        terminal("completed", terminal_output_delta=stdout_of("two\n"), terminal_exit=ended(0)),
        END,
    ])
    assert recorder.events == [
        ("request", "exec_command", {"command": "make", "cwd": "/w"}),
        ("output", "stdout", "one\n"), ("output", "stdout", "two\n"), ("result", "ok", "text", None),
    ]


@pytest.mark.req("A-7")
async def test_pi_streams_the_output_of_its_own_terminal() -> None:
    recorder, _, _ = await play([
        announced(),
        terminal("in_progress"),
        terminal("in_progress", terminal_output=stdout_of("one\n")),
        terminal("failed", terminal_output=stdout_of("\n\nCommand exited with code 3"), terminal_exit=ended(1)),
        END,
    ])
    assert recorder.events == [
        ("request", "execute", {}), ("output", "stdout", "one\n"),
        ("output", "stdout", "\n\nCommand exited with code 3"), ("result", "error", "text", None),
    ]


@pytest.mark.req("A-7")
@pytest.mark.parametrize(("code", "signal", "sentence"), [
    (3, None, "The command ended with exit code 3."),
    (None, "SIGKILL", "The command was ended by SIGKILL."),
])
@pytest.mark.parametrize("status", ["completed", "failed"])
async def test_a_failed_command_without_output_has_its_exit_status_as_result(
    status: str, code: int | None, signal: str | None, sentence: str
) -> None:
    recorder, _, _ = await play([announced(), terminal(status, terminal_exit=ended(code, signal)), END])
    assert recorder.events[-1] == ("result", "error", "text", sentence)


@pytest.mark.req("A-7")
@pytest.mark.parametrize("meta", [
    {"terminal_output": None}, {"terminal_output": {"data": 7}}, {"terminal_output_delta": "text"},
    {"terminal_exit": "0"}, {"terminal_exit": {"exit_code": "3"}}, {"terminal_output": {"data": ""}},
])  # fmt: skip
async def test_fields_of_an_unexpected_shape_are_not_output(meta: dict[str, Any]) -> None:
    recorder, _, _ = await play([announced(), terminal("completed", **meta), END])
    assert recorder.events[-1] == ("result", "ok", "empty", "")


@pytest.mark.req("H-3", "A-7")
@pytest.mark.parametrize(("meta", "ran"), [
    ({"terminal_exit": ended(None)}, False), ({"terminal_exit": {"terminal_id": "c1"}}, False),
    ({"terminal_exit": ended(0)}, True), ({"terminal_exit": ended(1)}, True),
    ({"terminal_exit": ended(None, "SIGKILL")}, True),
    ({"terminal_exit": ended(None), "terminal_output_delta": stdout_of("x")}, True),
])
async def test_a_terminal_that_closes_before_its_program_ends_has_run_nothing(
    meta: dict[str, Any], ran: bool
) -> None:
    """codex closes the terminal of a denied call so."""
    recorder, _, _ = await play([announced(), terminal("failed", **meta), END])
    assert [printed for _, _, printed in recorder.ran] == ([True] if ran else [])


@pytest.mark.req("A-7")
async def test_qwen_names_its_tools() -> None:
    recorder, _, _ = await play([
        update(sessionUpdate="tool_call", toolCallId="c1", status="pending", title="Shell", kind="execute",
               rawInput={}, _meta={"toolName": "run_shell_command", "provenance": "builtin"}),
        update(sessionUpdate="tool_call_update", toolCallId="c1", status="completed", content=content("one")),
        END,
    ])
    assert recorder.events[0] == ("request", "run_shell_command", {})
