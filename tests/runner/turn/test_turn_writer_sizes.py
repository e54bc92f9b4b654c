"""The size limits of a turn's frames, to the byte, counted as encoded JSON; and the files that it sends (E-5)."""

from __future__ import annotations

import hashlib
import secrets
from typing import Any

import msgspec
import pytest

from interlock.backends.memory.clock import ManualClock
from interlock.ports.agent import AgentFile, AgentQuestion, Option
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import (
    FILE_CHUNK_BYTES,
    MAX_BLOCK_BYTES,
    MAX_FILE_BYTES,
    MAX_TOOL_INPUT_BYTES,
    MAX_TOOL_OUTPUT_BYTES,
    TOOL_INPUT_HEAD_BYTES,
)
from interlock.protocol.sizes import json_size
from interlock.runner.journal import Journal
from interlock.runner.session_state import SessionState, TurnState
from interlock.runner.turn.interactions import Interactions, LivePresence
from interlock.runner.turn.turn_writer import StoredTurnWriter
from interlock.session.transfers import join
from runner.stage import NOW_MS, PATIENT

from .test_turn_writer import FrameRecorder

pytestmark = [pytest.mark.anyio, pytest.mark.req("E-5")]
LETTERS = ["a", '"', "\x01", "é", "漢", "😀"]
ONCE = [Option("y", "Yes", "allow_once"), Option("n", "No", "reject_once")]


def writing() -> tuple[StoredTurnWriter, FrameRecorder]:
    kept = FrameRecorder()
    journal = Journal("s-1", SessionState(), kept, ManualClock(), secrets.token_bytes)
    turn = TurnState(journal.new_uuid(), "p-1", NOW_MS)
    return StoredTurnWriter(journal, turn, Interactions(journal, LivePresence(), PATIENT)), kept


def of_size(letter: str, size: int) -> str:
    """Text of this letter that takes exactly `size` bytes as JSON."""
    cost = json_size(letter)
    text = letter * (size // cost) + "a" * (size % cost)
    assert json_size(text) == size
    return text


def frames(kept: FrameRecorder, kind: str) -> list[Frame]:
    return [frame for frame in kept.frames if frame.type == kind]


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("excess", [0, 1])
async def test_a_text_block_past_the_limit_continues_in_a_new_block(letter: str, excess: int) -> None:
    turn_writer, kept = writing()
    text = of_size(letter, MAX_BLOCK_BYTES) + "b" * excess
    await turn_writer.text(text)
    await turn_writer.finish("done")
    done = frames(kept, "agent.text.done")
    deltas = frames(kept, "agent.text.delta")
    assert "".join(frame.payload.text for frame in deltas) == text
    blocks = list(dict.fromkeys(frame.payload.block_id for frame in deltas))
    assert len(blocks) == 1 + excess
    assert next(frame.metadata.get("continues") for frame in deltas if frame.payload.block_id == blocks[-1]) == (
        blocks[0] if excess else None)
    assert [frame.payload.text for frame in done] == ([text[:-1]] if excess else [])


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_tools_output_of_exactly_the_limit_is_complete(letter: str, streamed: bool) -> None:
    text = of_size(letter, MAX_TOOL_OUTPUT_BYTES)
    result, files = await tool_says(text, streamed=streamed)
    assert (result.payload.output, result.payload.truncated, files) == (text, None, [])


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_one_byte_more_keeps_both_ends_and_sends_the_whole_as_a_file(letter: str, streamed: bool) -> None:
    text = of_size(letter, MAX_TOOL_OUTPUT_BYTES) + "z"
    result, files = await tool_says(text, streamed=streamed)
    kept, cut = result.payload.output, result.payload.truncated
    assert json_size(kept) <= MAX_TOOL_OUTPUT_BYTES
    assert text.startswith(kept[: len(kept) // 4])
    assert kept.endswith("z")
    assert (cut.bytes_total, cut.bytes_kept) == (len(text.encode()), len(kept.encode()))
    assert cut.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert join([frame.payload for frame in files]) == text.encode()
    assert result.metadata["transfer_id"] == files[0].payload.transfer_id
    assert {(f.payload.purpose, f.payload.name, f.metadata["invocation_id"]) for f in files} == {
        ("tool_output", "cat.txt", "i1")}


async def test_an_output_larger_than_a_file_is_reported_without_its_whole() -> None:
    result, files = await tool_says("x" * (MAX_FILE_BYTES + 1), streamed=True)
    assert (result.payload.truncated.bytes_total, files) == (MAX_FILE_BYTES + 1, [])
    assert "transfer_id" not in result.metadata


async def tool_says(text: str, *, streamed: bool) -> tuple[Frame, list[Frame]]:
    turn_writer, kept = writing()
    await turn_writer.tool_request("i1", "cat", b"{}")
    if streamed:
        await turn_writer.tool_output("i1", "stdout", text)
    await turn_writer.tool_result("i1", "ok", "text", None if streamed else text)
    return frames(kept, "tool.invoke.result")[0], frames(kept, "agent.file.transfer")


@pytest.mark.parametrize("letter", LETTERS)
@pytest.mark.parametrize("excess", [0, 1])
async def test_a_tools_input_past_the_limit_is_reported_by_digest_size_and_head(letter: str, excess: int) -> None:
    turn_writer, kept = writing()
    raw = msgspec.json.encode(of_size(letter, MAX_TOOL_INPUT_BYTES - 2) + "b" * excess)
    assert len(raw) == MAX_TOOL_INPUT_BYTES + excess
    await turn_writer.tool_request("i1", "write", raw)
    reported = bytes(frames(kept, "tool.invoke.request")[0].payload.input)
    if not excess:
        assert reported == raw
        return
    value: Any = msgspec.json.decode(reported)
    assert (value["sha256"], value["size"]) == (hashlib.sha256(raw).hexdigest(), len(raw))
    assert raw.decode().startswith(value["head"])
    assert TOOL_INPUT_HEAD_BYTES - 8 * json_size(letter) <= json_size(value["head"]) <= TOOL_INPUT_HEAD_BYTES


async def test_a_tools_input_past_the_limit_is_denied_if_the_agent_asks() -> None:
    turn_writer, kept = writing()
    raw = msgspec.json.encode("x" * (MAX_TOOL_INPUT_BYTES - 1))
    answer = await turn_writer.ask(AgentQuestion("i1", "write", "write", raw, ONCE))
    assert (answer.allow, answer.option_id) == (False, "n")
    assert [frame.payload.error_code for frame in frames(kept, "agent.error")] == ["FRAME_TOO_LARGE"]
    assert frames(kept, "agent.interaction.request") == []


# --- files ---
async def test_a_file_is_between_the_texts_before_and_after_it() -> None:
    turn_writer, kept = writing()
    data = secrets.token_bytes(FILE_CHUNK_BYTES + 1)
    await turn_writer.text("before")
    await turn_writer.file(AgentFile("plot.png", "image/png", data))
    await turn_writer.text("after")
    assert [frame.type for frame in kept.frames] == [
        "agent.text.delta", "agent.text.done", "agent.file.transfer", "agent.file.transfer", "agent.text.delta"]
    assert join([frame.payload for frame in frames(kept, "agent.file.transfer")]) == data
    assert frames(kept, "agent.file.transfer")[0].payload.purpose == "output"


async def test_a_file_that_is_too_large_is_left_out_and_reported() -> None:
    turn_writer, kept = writing()
    await turn_writer.file(AgentFile("film", "video/mp4", bytes(MAX_FILE_BYTES + 1)))
    assert [frame.type for frame in kept.frames] == ["agent.error"]
    assert f"{MAX_FILE_BYTES + 1} bytes exceeds the limit of {MAX_FILE_BYTES}" in kept.frames[0].payload.message


async def test_after_the_turns_end_no_file_is_reported() -> None:
    turn_writer, kept = writing()
    await turn_writer.finish("over")
    await turn_writer.file(AgentFile("late", "x/y", b"late"))
    assert kept.frames == []
