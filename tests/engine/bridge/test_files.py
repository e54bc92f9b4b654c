"""Files in both directions, as the lane decides on them (E-5): before a prompt, and from the agent."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
import pytest

from engine.conversation import OWNER, Table, remember
from interlock.engine.bridge.inputs.runner import HistoryBegun, RunnerDetached
from interlock.engine.bridge.link.losses import FULL
from interlock.gateway.rest.operations.files import whole
from interlock.ports.ledger import LedgerError
from interlock.ports.objects import ObjectDamaged, ObjectsError
from interlock.protocol import payloads as p
from interlock.protocol.frames import Direction, decode
from interlock.protocol.identifiers import session_stream
from interlock.protocol.limits import FILE_CHUNK_BYTES, MAX_OPEN_FILES, MAX_PROMPT_BYTES
from interlock.protocol.problems import Problem
from interlock.protocol.resources import CommandBody, Target
from interlock.session.transfers import File, chunks, content_of, restored

pytestmark = [pytest.mark.anyio, pytest.mark.req("E-5")]
LONG = "é" * (MAX_PROMPT_BYTES // 2 + 1)
IMAGE = bytes(range(256)) * 1024  # one chunk exactly


async def execute(table: Table, *parts: dict[str, Any]) -> Any:
    payload = msgspec.json.encode({"messages": [{"role": "user", "content": list(parts)}]})
    body = CommandBody(type="execute", target=Target(agent_id="shell"), payload=msgspec.Raw(payload))
    return await table.engine.submit(OWNER, body, remember)


def image(data: bytes, **fields: Any) -> dict[str, Any]:
    return {"contentType": "image", "value": {"encoding": "base64", "data": base64.b64encode(data).decode(),
                                              "media_type": "image/png", **fields}}


async def events(table: Table, session_id: str, kind: str) -> list[Any]:
    found = await table.ledger.events("default", session_stream(session_id), 0, 1000)
    return [decode(e.body, Direction.M if kind == "M" else Direction.C) for e in found if e.kind == kind]


async def read(table: Table, session_id: str, transfer_id: str) -> bytes:
    record = await table.ledger.file(session_id, "default", transfer_id)
    assert record is not None
    return b"".join([piece async for piece in whole(record, table.objects)])


async def in_turn(table: Table) -> tuple[Any, str]:
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    return command, session_id


async def deliver(table: Table, session_id: str, *transfers: p.FileTransfer) -> None:
    for one in transfers:
        await table.send(session_id, "agent.file.transfer", one)


def given(data: bytes, transfer_id: str = "f1", name: str = "plot.png", purpose: str = "output"
          ) -> list[p.FileTransfer]:
    return chunks(transfer_id, File(name, "image/png", data, purpose))


async def output(table: Table, command: Any) -> Any:
    record = await table.ledger.command(command.id, "default")
    assert record is not None
    assert record.command.result is not None
    return record.command.result.output


# --- gateway to runner ---
async def test_a_long_prompt_is_sent_after_its_chunks() -> None:
    table = Table()
    command = await table.execute(LONG)
    session_id = command.target.session_id
    sent = table.wire.sent
    assert [frame.type for frame in sent] == [
        "control.session.open", "agent.file.transfer", "agent.file.transfer", "control.prompt.request"]
    assert [frame.seq for frame in sent] == [1, 2, 3, 4]
    block = content_of(sent[-1].payload)[0]
    assert restored(block, [frame.payload for frame in sent[1:3]]) == {"type": "text", "text": LONG}
    # The stream names the bytes, and the store has them.
    sent_files = [frame for frame in await events(table, session_id, "M") if frame.type == "agent.file.transfer"]
    assert [frame.payload.content for frame in sent_files] == ["", ""]
    assert (await read(table, session_id, block["transfer_id"])).decode() == LONG


async def test_a_prompt_of_exactly_the_limit_is_sent_without_chunks() -> None:
    table = Table()
    await table.execute("x" * MAX_PROMPT_BYTES)
    assert table.wire.types() == ["control.session.open", "control.prompt.request"]


async def test_an_image_is_sent_with_its_name_and_type() -> None:
    table = Table()
    await execute(table, {"contentType": "text", "value": "see"}, image(IMAGE, name="a.png"))
    block = content_of(table.wire.last("control.prompt.request").payload)[1]
    chunk = table.wire.last("agent.file.transfer").payload
    assert (block["type"], block["name"], chunk.name, chunk.media_type) == ("image", "a.png", "a.png", "image/png")
    assert base64.b64decode(restored(block, [chunk])["data"]) == IMAGE


async def test_a_resent_prompt_resends_its_files_under_new_names() -> None:
    table = Table()
    command = await table.execute(LONG)
    session_id = command.target.session_id
    first = table.wire.last("control.prompt.request")
    await table.send(session_id, "session.error",
                     p.SessionError(error_code="RUNNER_RESTARTED", message="", fatal=False),
                     in_reply_to=first.message_id)
    again = table.wire.last("control.prompt.request")
    assert again.payload.prompt_id != first.payload.prompt_id
    assert content_of(again.payload)[0]["transfer_id"] != content_of(first.payload)[0]["transfer_id"]
    assert table.wire.types().count("agent.file.transfer") == 4


@pytest.mark.req("D-7")
@pytest.mark.parametrize("acked", [1, 2, 3])
async def test_a_cancel_replaces_a_prompt_and_its_unacknowledged_files(acked: int) -> None:
    table = Table()
    command = await table.execute(LONG)
    session_id = command.target.session_id
    await table.confirm(session_id, acked)
    uploads = [block["transfer_id"] for block in content_of(table.wire.last("control.prompt.request").payload)]
    await detach_all(table, session_id)
    await table.cancel(command.id)
    kept = [decode(one.body, Direction.M) for one in await table.ledger.controls(session_id, "default", acked)]
    assert [frame.type for frame in kept if frame.seq is not None and frame.seq <= 4] == (
        ["control.turn.cancel"] * (4 - acked))
    noop = next(frame for frame in kept if frame.seq == 4)
    assert noop.metadata["transfers"] == uploads
    await table.reattach(session_id, acked)
    await table.confirm(session_id, 5)
    assert await table.state(command.id) == "canceled"


async def detach_all(table: Table, session_id: str) -> None:

    shell = await table.lane(session_id)
    await shell.call(RunnerDetached())


async def test_a_prompt_with_too_many_small_parts_is_refused_on_submission() -> None:
    table = Table()
    with pytest.raises(Problem, match="300 parts, the limit is 256"):
        await execute(table, image(b"x"), *({"contentType": "text", "value": "x"} for _ in range(299)))


# --- runner to gateway ---
@pytest.mark.req("E-5", "W-1")
async def test_a_file_of_the_agent_is_stored_and_a_small_one_is_in_the_result() -> None:
    table = Table()
    command, session_id = await in_turn(table)
    small, large = b"small", IMAGE + IMAGE + b"!"
    await deliver(table, session_id, *given(small), *given(large, "f2", "big.png"))
    await table.ended(session_id)
    assert await read(table, session_id, "f1") == small
    assert await read(table, session_id, "f2") == large
    final = await output(table, command)
    assert final.output == [{"role": "assistant", "content": [{"contentType": "image", "value": {
        "encoding": "base64", "data": base64.b64encode(small).decode(), "media_type": "image/png",
        "sha256": hashlib.sha256(small).hexdigest(), "name": "plot.png"}}]}]
    assert [(n.code, "big.png" in n.message, f"/v1/sessions/{session_id}/files/f2" in n.message)
            for n in final.notices] == [("Truncated", True, True)]
    frames = [f for f in await events(table, session_id, "C") if f.type == "agent.file.transfer"]
    assert {f.payload.content for f in frames} == {""}
    assert [name for _, record in await table.ledger.files(session_id, "default", 0, 10) for name in [record.name]] == [
        "plot.png", "big.png"]


async def test_a_restarted_gateway_continues_a_file_and_a_result() -> None:
    table = Table()
    command, session_id = await in_turn(table)
    large = given(IMAGE + b"!", "f2")
    await deliver(table, session_id, *given(b"small"), large[0])
    table.begin()
    await deliver(table, session_id, large[1])
    await table.ended(session_id)
    assert await read(table, session_id, "f2") == IMAGE + b"!"
    assert base64.b64decode((await output(table, command)).output[0]["content"][0]["value"]["data"]) == b"small"


def broken(fault: str) -> list[p.FileTransfer]:
    change: Any = msgspec.structs.replace
    parts = given(IMAGE + IMAGE + b"!")
    match fault:
        case "digest":
            return [change(one, sha256="0" * 64) for one in parts]
        case "missing":
            return [parts[0], parts[2]]
        case "first":
            return parts[1:]
        case "repeated":
            return [parts[0], parts[0], *parts[1:]]
        case "size":
            return [change(one, size=one.size + 1) for one in parts]
        case "longer":
            return [change(one, size=IMAGE.__len__()) for one in parts]
        case "base64":
            return [parts[0], change(parts[1], content="?"), parts[2]]
        case _:
            return [parts[0], change(parts[1], name="other"), parts[2]]


@pytest.mark.parametrize(("fault", "sentence"), [
    ("digest", "sha256 is not the one"), ("missing", "chunk 1 is missing"), ("first", "chunk 0 is missing"),
    ("repeated", "chunk 0 came twice"), ("size", "were announced"), ("longer", "were announced"),
    ("base64", "not base64"), ("disagree", "disagree about `name`"),
])
async def test_a_corrupt_file_is_reported_once_and_not_stored(fault: str, sentence: str) -> None:
    table = Table()
    command, session_id = await in_turn(table)
    await deliver(table, session_id, *broken(fault))
    refused = [frame.payload for frame in table.wire.sent if frame.type == "session.error"]
    assert [(one.error_code, sentence in one.message) for one in refused] == [("INVALID_FRAME", True)]
    assert await table.ledger.files(session_id, "default", 0, 10) == []
    await deliver(table, session_id, *given(b"next", "f9"))
    assert await read(table, session_id, "f9") == b"next"
    await table.ended(session_id)
    assert await table.state(command.id) == "succeeded"


def status(lost: int) -> p.BufferStatus:
    return p.BufferStatus(policy_applied="RING", truncated=True, lost_frame_count=lost)


@pytest.mark.req("D-3", "D-4")
@pytest.mark.parametrize("lost", [[0], [1], [0, 1]])
async def test_a_file_with_lost_chunks_is_reported_without_an_error_of_the_agent(lost: list[int]) -> None:
    table = Table()
    command, session_id = await in_turn(table)
    parts = given(IMAGE + IMAGE + b"!")
    for index, part in enumerate(parts):
        if index in lost:
            table.seqs[session_id] += 1
            seq = table.seqs[session_id]
            shell = await table.lane(session_id)
            count = seq - shell.lane.state.last_seq
            await shell.call(HistoryBegun(status(count), [(seq - count + 1, seq)], "m", True, FULL))
        else:
            await deliver(table, session_id, part)
    await table.ended(session_id)
    notices = (await output(table, command)).notices
    assert sum(n.lost_frame_count or 0 for n in notices) == len(lost)
    assert [n.code for n in notices if "not whole" in n.message] == ["Truncated"]
    assert "session.error" not in table.wire.types()
    assert await table.ledger.files(session_id, "default", 0, 10) == []


async def test_files_in_transfer_are_bounded() -> None:
    table = Table()
    _, session_id = await in_turn(table)
    for number in range(MAX_OPEN_FILES + 1):
        await deliver(table, session_id, given(IMAGE + b"!", f"f{number}")[0])
    assert f"{MAX_OPEN_FILES} files are under way" in table.wire.last("session.error").payload.message


async def test_a_transfer_id_is_used_once() -> None:
    table = Table()
    _, session_id = await in_turn(table)
    await deliver(table, session_id, *given(b"first"), *given(b"second"))
    assert await read(table, session_id, "f1") == b"first"


async def test_a_failing_store_leaves_the_frame_unacknowledged() -> None:
    table = Table()
    _, session_id = await in_turn(table)
    acked = table.wire.acks[session_id]

    async def full(_: Any) -> Any:
        raise ObjectsError("The disk is full.")

    table.objects.put = full  # type: ignore[method-assign]
    with pytest.raises(Problem, match="disk is full"):
        await deliver(table, session_id, *given(b"x"))
    assert table.wire.acks[session_id] == acked
    assert await table.ledger.files(session_id, "default", 0, 10) == []


async def test_a_damaged_chunk_is_never_returned_as_complete() -> None:
    table = Table()
    _, session_id = await in_turn(table)
    await deliver(table, session_id, *given(IMAGE + b"!"))
    record = await table.ledger.file(session_id, "default", "f1")
    assert record is not None
    swapped = msgspec.structs.replace(record, objects=record.objects[::-1])
    with pytest.raises(ObjectDamaged):
        _ = [piece async for piece in whole(swapped, table.objects)]
    assert record.size == FILE_CHUNK_BYTES + 1


async def test_a_file_in_transfer_survives_a_temporary_outage_of_the_store() -> None:
    table = Table()
    _, session_id = await in_turn(table)
    first, last = given(IMAGE + b"!")
    await deliver(table, session_id, first)
    read_back = table.objects.read

    async def silent(_: str) -> Any:
        raise ObjectsError("The bucket does not answer.")
        yield b""

    table.objects.read = silent  # type: ignore[method-assign]
    table.begin()
    with pytest.raises(LedgerError, match="does not answer"):
        await table.engine.lanes.lane(session_id)
    table.objects.read = read_back  # type: ignore[method-assign]
    table.begin()
    await deliver(table, session_id, last)
    assert await read(table, session_id, "f1") == IMAGE + b"!"
