"""Files before a prompt: stored, checked, passed completely to the agent, deleted afterwards (E-5)."""

from __future__ import annotations

import base64
import hashlib
import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from interlock.backends.memory.objects import MemoryObjects
from interlock.backends.memory.outbox import MemoryOutbox
from interlock.protocol import payloads as p
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import FILE_CHUNK_BYTES, HELD_UPLOADS_BYTES, MAX_FILE_BYTES, MAX_PROMPT_BYTES
from interlock.session.transfers import File as Whole
from interlock.session.transfers import carried, chunks, content_of
from runner.stage import Stage, program, stage

pytestmark = [pytest.mark.anyio, pytest.mark.req("E-5")]
COUNT = "import sys, hashlib; t = sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read();" \
        "print(len(t), hashlib.sha256(t.encode()).hexdigest())"
COUNTER = {"counter": program(COUNT)}
LONG = "é😀\n" * (MAX_PROMPT_BYTES // 6)


def prompt_of(text: str = LONG) -> tuple[p.PromptRequest, list[p.FileTransfer]]:
    numbers = itertools.count(1)
    asked = p.PromptRequest(prompt_id="p1", input_type="text", origin="user", text=text)
    return carried(asked, lambda: f"t{next(numbers)}")


async def send_all(on: Stage, transfers: list[p.FileTransfer]) -> list[Frame]:
    return [await on.send("agent.file.transfer", one) for one in transfers]


async def refusal(on: Stage, asked: Frame) -> p.SessionError:
    error = await on.next("session.error")
    assert error.metadata["in_reply_to"] == asked.message_id
    assert error.payload.fatal is False
    payload: p.SessionError = error.payload
    return payload


async def test_a_long_prompt_reaches_the_agent_complete_and_its_chunks_are_removed(tmp_path: Path) -> None:
    async with stage(tmp_path, COUNTER) as on:
        await on.open("counter")
        prompt, transfers = prompt_of()
        assert len(transfers) > 1
        await send_all(on, transfers)
        assert len(await on.objects.names()) == len(transfers)
        await on.send("control.prompt.request", prompt)
        await on.next("session.usage")
        assert on.text().split() == [str(len(LONG)), hashlib.sha256(LONG.encode()).hexdigest()]
        assert (await on.objects.names(), on.all("session.error")) == ([], [])
        assert (await on.turn("again")).payload.stop_reason == "end_turn"


async def test_chunks_survive_the_runner(tmp_path: Path) -> None:
    outbox, objects = MemoryOutbox(), MemoryObjects()
    prompt, transfers = prompt_of()
    async with stage(tmp_path, COUNTER, outbox=outbox, objects=objects) as before:
        await before.open("counter")
        await before.send("agent.file.transfer", transfers[0])
        await before.store("agent.file.transfer", transfers[1])  # Stored, and the runner died before it acted on it.
        row = await outbox.session(before.session_id)
        assert row is not None
    # The kill discards the last frames of the former process.
    async with stage(tmp_path, COUNTER, outbox=await copy_of(outbox, row.state, before.session_id),
                     objects=objects) as after:
        after.session_id, after._control_seq = before.session_id, before._control_seq
        assert len(await objects.names()) == 2
        await after.open("counter")
        await send_all(after, transfers[2:])
        await after.send("control.prompt.request", prompt)
        await after.next("session.usage")
        assert after.text().split()[1] == hashlib.sha256(LONG.encode()).hexdigest()
        assert await objects.names() == []


async def copy_of(outbox: MemoryOutbox, state: bytes, session_id: str) -> MemoryOutbox:
    """The outbox as a killed runner leaves it: its controls, and the state as it was then."""
    from interlock.ports.outbox import PutState, StoreControl

    copy = MemoryOutbox()
    await copy.write([StoreControl(record, 0) for record in await outbox.controls(session_id, 0)])
    await copy.write([PutState(session_id, state)])
    return copy


@pytest.mark.parametrize(("fault", "sentence"), [
    ("digest", "sha256 is not the one announced"),
    ("missing", "chunk 1 is missing"), ("last", "chunk 1 of 2 is missing"),
    ("none", "which was not sent in this session"), ("name", "another sha256 or media_type"),
    ("base64", "not base64"),
])
async def test_a_broken_file_refuses_the_prompt_that_names_it(tmp_path: Path, fault: str, sentence: str) -> None:
    async with stage(tmp_path, COUNTER) as on:
        await on.open("counter")
        prompt, transfers = prompt_of("x" * (FILE_CHUNK_BYTES + MAX_PROMPT_BYTES + 1 - FILE_CHUNK_BYTES + 9))
        transfers = transfers[:2]
        change: Any = msgspec.structs.replace
        match fault:
            case "digest":
                data = base64.b64encode(b"y" + b"x" * (FILE_CHUNK_BYTES - 1)).decode()
                transfers[0] = change(transfers[0], content=data)
            case "missing":
                transfers = [transfers[0], change(transfers[1], chunk=p.FileChunk(index=5, count=9))]
                transfers = [change(one, chunk=p.FileChunk(index=at, count=9)) for one, at in
                             zip(transfers, (0, 2), strict=True)]
            case "last":
                transfers = transfers[:1]
            case "none":
                transfers = []
            case "name":
                prompt = change(prompt, content=[{**content_of(prompt)[0], "sha256": "0" * 64}])
            case _:
                transfers[0] = change(transfers[0], content="?")
        await send_all(on, transfers)
        asked = await on.send("control.prompt.request", prompt)
        error = [frame for frame in on.all("session.error") if frame.metadata["in_reply_to"] == asked.message_id]
        while not error:
            await on.next("session.error")
            error = [frame for frame in on.all("session.error") if frame.metadata["in_reply_to"] == asked.message_id]
        assert error[0].payload.error_code == "INVALID_FRAME"
        assert sentence in error[0].payload.message
        assert "session.turn.start" not in on.durable()
        assert await on.objects.names() == []
        assert (await on.turn("the session continues")).payload.stop_reason == "end_turn"


async def test_a_repeated_chunk_is_reported_once_and_breaks_its_file(tmp_path: Path) -> None:
    async with stage(tmp_path, COUNTER) as on:
        await on.open("counter")
        prompt, transfers = prompt_of()
        first, again, late = await send_all(on, [transfers[0], transfers[0], transfers[1]])
        assert "chunk 0 came twice" in (await refusal(on, again)).message
        asked = await on.send("control.prompt.request", prompt)
        assert "chunk 0 came twice" in (await refusal(on, asked)).message
        answered = [frame.metadata["in_reply_to"] for frame in on.all("session.error")]
        assert answered == [again.message_id, asked.message_id]
        assert first.message_id not in answered
        assert late.message_id not in answered
        assert await on.objects.names() == []


async def test_a_file_of_another_session_is_not_found(tmp_path: Path) -> None:
    async with stage(tmp_path, COUNTER) as on:
        await on.open("counter")
        prompt, transfers = prompt_of()
        await send_all(on, transfers)
        on.session_id, on._control_seq = "00000000-0000-4000-8000-0000000000ff", 0
        await on.open("counter")
        asked = await on.send("control.prompt.request", prompt)
        assert "was not sent in this session" in (await refusal(on, asked)).message


async def test_the_files_of_a_session_are_bounded(tmp_path: Path) -> None:
    async with stage(tmp_path, COUNTER) as on:
        await on.open("counter")
        big = chunks("big", Whole("a", "b", bytes(MAX_FILE_BYTES), "prompt"))[0]
        for number in range(HELD_UPLOADS_BYTES // MAX_FILE_BYTES):
            await on.send("agent.file.transfer", msgspec.structs.replace(big, transfer_id=f"t{number}"))
        one_more = await on.send("agent.file.transfer", msgspec.structs.replace(big, transfer_id="more"))
        assert f"{HELD_UPLOADS_BYTES} bytes and" in (await refusal(on, one_more)).message


@pytest.mark.req("D-7")
async def test_a_no_op_that_replaces_a_prompt_removes_its_files(tmp_path: Path) -> None:
    async with stage(tmp_path, COUNTER) as on:
        await on.open("counter")
        _, transfers = prompt_of()
        await send_all(on, transfers)
        await on.send("control.turn.cancel", p.TurnCancel(reason="canceled before it was delivered"),
                      {"replaces": "p1", "transfers": ["t1"]})
        assert await on.objects.names() == []
        assert on.sessions.all[on.session_id].state.uploads == {}


async def test_unneeded_files_are_removed_at_the_start(tmp_path: Path) -> None:
    objects = MemoryObjects()
    await objects.put([b"of a chunk whose control frame was never stored"])
    async with stage(tmp_path, COUNTER, objects=objects):
        assert await objects.names() == []


async def test_files_without_a_prompt_are_removed_with_their_session(tmp_path: Path) -> None:
    async with stage(tmp_path, COUNTER) as on:
        await on.open("counter")
        await send_all(on, prompt_of()[1])
        await on.send("control.session.close", p.SessionClose(reason="done"))
        await on.outflow.flushed()
        row = await on.outbox.session(on.session_id)
        assert row is not None
        await on.outbox.ack(on.session_id, row.last_seq, "", 0)
        assert len(await on.objects.names()) > 0
        assert await on.sessions.hello_sessions() == []
        assert await on.objects.names() == []


@pytest.mark.req("A-6", "A-7")
@pytest.mark.parametrize(("kind", "feature"), [("image", "images"), ("audio", "audio"), ("file", "files"),
                                               ("video", "video")])
async def test_content_that_the_agent_does_not_support_is_refused_before_the_run(
    tmp_path: Path, kind: str, feature: str
) -> None:
    async with stage(tmp_path, COUNTER) as on:
        await on.open("counter")
        block = {"type": kind, "data": "aGk=", "media_type": "x/y"}
        asked = await on.send("control.prompt.request", p.PromptRequest(
            prompt_id="p", input_type="blocks", origin="user", content=[{"type": "text", "text": "see"}, block]))
        error = await refusal(on, asked)
        assert (error.error_code, error.message) == ("UNSUPPORTED_CAPABILITY", f"This agent does not offer {feature}.")
        assert "session.turn.start" not in on.durable()
