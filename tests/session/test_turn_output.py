"""The outputs of a command can be proved by the audit log alone: it has their digests (U-1)."""

from __future__ import annotations

import hashlib
import json
import sys
from typing import Any

import msgspec
import pytest

from engine.conversation import Table
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.session.turn_output import MAX_FILE_NOTICES, MAX_RESULT_BYTES, MAX_TOOL_DIGESTS, TurnFold

pytestmark = pytest.mark.anyio


async def ended(table: Table) -> dict[str, Any]:
    """The meta of the last record of a command's end."""
    bodies = [msgspec.json.decode(one.body) for one in await table.ledger.audit("default", 0, 1_000)]
    return next(one for one in reversed(bodies) if one["meta"].get("from") == "running")["meta"]


async def ran(table: Table, session_id: str, output: Any, invocation: str = "i1") -> None:
    await table.send(session_id, "tool.invoke.request", p.ToolRequest(
        invocation_id=invocation, turn_id="t1", tool_name="shell", input=msgspec.Raw(b"{}"), title="ls"))
    await table.send(session_id, "tool.invoke.result", p.ToolResult(
        invocation_id=invocation, status="ok", output_type="text", output=output, duration_ms=1))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@pytest.mark.req("U-1")
async def test_a_commands_last_record_has_the_digest_of_its_result_and_of_each_tools_output() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await ran(table, session_id, "a\nü\n")
    await ran(table, session_id, "x" * (MAX_RESULT_BYTES + 1), "i2")
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b", text="Done."))
    await table.ended(session_id)
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.result is not None
    shown = json.loads(msgspec.json.encode(record.command.result))["output"]["output"]
    meta = await ended(table)
    assert meta["output_digest"] == digest(json.dumps(shown, sort_keys=True, separators=(",", ":"),
                                                      ensure_ascii=False))
    assert meta["tool_outputs"] == [
        {"invocation_id": "i1", "status": "ok", "digest": digest("a\nü\n")},
        {"invocation_id": "i2", "status": "ok", "digest": digest("x" * (MAX_RESULT_BYTES + 1))}]
    assert "tool_outputs_left_out" not in meta
    await table.engine.stop()


@pytest.mark.req("U-1")
async def test_a_failed_commands_record_has_its_outputs_and_counts_omitted_ones() -> None:
    table = Table()
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    for number in range(MAX_TOOL_DIGESTS + 2):
        await ran(table, session_id, str(number), f"i{number}")
    await table.ended(session_id, "error")
    assert await table.state(command.id) == "failed"
    meta = await ended(table)
    assert [one["digest"] for one in meta["tool_outputs"]] == [digest(str(one)) for one in range(MAX_TOOL_DIGESTS)]
    assert meta["tool_outputs_left_out"] == 2
    assert len(meta["output_digest"]) == 64
    await table.engine.stop()


def alone(kind: str, payload: p.Payload) -> Frame:
    return Frame(type=kind, payload=payload, message_id="m", session_id="s", timestamp="t")


async def test_empty_calls_outputs_and_texts_fill_a_result_too() -> None:
    fold = TurnFold()
    for number in range(MAX_RESULT_BYTES // 64):
        fold.feed(alone("tool.invoke.request", p.ToolRequest(
            invocation_id=f"{number}", turn_id="t1", tool_name="sh", input=msgspec.Raw(b"{}"))))
        fold.feed(alone("tool.invoke.result", p.ToolResult(
            invocation_id=f"{number}", status="ok", output_type="empty", output="", duration_ms=1)))
        fold.feed(alone("agent.text.done", p.TextDone(turn_id="t1", block_id="b", text="x")))
    output = fold.output("s", [])
    assert len(msgspec.json.encode(output)) < 4 * MAX_RESULT_BYTES
    assert [notice.code for notice in output.notices] == ["Truncated"]


async def test_files_that_do_not_fit_are_named_without_being_kept() -> None:
    fold, content = TurnFold(), "A" * (MAX_RESULT_BYTES + 4)
    kept = sys.getrefcount(content)
    for number in range(2 * MAX_FILE_NOTICES):
        fold.feed(alone("agent.file.transfer", p.FileTransfer(
            transfer_id=f"f{number}", name="f", media_type="image/png", size=len(content), sha256="", purpose="output",
            content=content)))
    output = fold.output("s", [])
    assert [notice.message.rpartition("/")[2] for notice in output.notices] == [
        f"f{number}." for number in range(MAX_FILE_NOTICES)]
    assert sys.getrefcount(content) == kept
