"""From a conversation to its file: entries are written once, in order, and never before their commit (X-3, X-5)."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from engine.conversation import Table
from engine.within import Within
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.ledger import MemoryLedger
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.backends.sqlite.ledger import open_ledger
from interlock.engine.bridge.inputs.runner import AgentReported
from interlock.engine.bridge.link.links import SILENT_HEARTBEATS
from interlock.engine.sessions import transcript_writer
from interlock.engine.sessions.transcript_writer import TranscriptWriter
from interlock.ports.ledger import Full, PutSession, PutTranscript, Receipt, WriteBatch
from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol import payloads as p
from interlock.protocol.records import SessionRecord, TranscriptLine
from interlock.protocol.resources import Notice, Target
from interlock.session.context.context import context
from interlock.session.transcript.tree import read_tree

pytestmark = pytest.mark.anyio

KILLS = 4
"""Rounds of the kill -9 test."""
PROGRAM = Path(__file__).parents[1] / "transcribing_process.py"


class WatchedTranscripts(MemoryTranscripts):
    """A store that signals its writes, and refuses the sessions in `broken`."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: set[str] = set()
        self.refused = asyncio.Event()
        self.written: asyncio.Queue[list[str]] = asyncio.Queue()

    async def append(self, header: TranscriptHeader, lines: Sequence[TranscriptLine]) -> None:
        if header.session_id in self.broken:
            self.refused.set()
            raise OSError("no space left on the disk")
        await super().append(header, lines)
        self.written.put_nowait([line.entry_id for line in lines])


def entries_of(lines: list[bytes]) -> list[dict[str, Any]]:
    tree = read_tree(lines)
    return [tree.entry(place) for place in range(len(tree.nodes))]


def shape(lines: list[bytes]) -> list[str]:
    return [entry["message"]["role"] if entry["type"] == "message" else entry.get("customType", entry["type"])
            for entry in map(msgspec.json.decode, lines)]


def chain(lines: list[bytes]) -> bool:
    """Every entry hangs from the one before it."""
    entries = entries_of(lines)
    return [entry["parentId"] for entry in entries] == [None, *(entry["id"] for entry in entries[:-1])]


async def converse(table: Table) -> str:
    """A command with one tool call that a person allows."""
    command = await table.execute("say hi")
    session_id: str = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    held = table.wire.last("x-interlock.interaction.held").payload
    await table.vote(held.approval_id, "grant")
    await table.resolved(session_id, "allowed")
    await table.result(session_id, "a.txt")
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b1", text="hi"))
    await table.ended(session_id)
    return session_id


async def pending(table: Table) -> list[bytes]:
    return [line.line for line in await table.ledger.transcript_pending()]


WHOLE = ["user", *["interlock.approval"] * 3, "assistant", "toolResult", "assistant", "interlock.usage"]


@pytest.mark.req("X-3", "X-5", "X-8")
async def test_a_conversation_becomes_its_file() -> None:
    transcripts = WatchedTranscripts()
    table = Table(transcripts=transcripts)
    await table.engine.start()
    session_id = await converse(table)
    await table.engine.stop()
    lines = await transcripts.read(session_id, "shell", "default")
    assert shape(lines) == ["session", *WHOLE]
    assert msgspec.json.decode(lines[0]) == {"type": "session", "version": 3, "id": session_id, "cwd": "/w",
                                             "timestamp": "2027-01-15T08:00:00.000Z"}
    assert chain(lines)
    assert [message["role"] for message in context(read_tree(lines)).messages] == [
        "user", "assistant", "toolResult", "assistant"]
    assert await pending(table) == []


@pytest.mark.req("X-5", "X-3")
async def test_the_prompt_is_committed_with_the_dispatch() -> None:
    table = Table(transcripts=MemoryTranscripts())
    commits: list[set[str]] = []
    commit = table.ledger.commit

    async def watched(batch: WriteBatch) -> Receipt:
        commits.append({type(write).__name__ for write in batch.writes})
        return await commit(batch)

    table.ledger.commit = watched  # type: ignore[method-assign]
    await table.execute("say hi")
    assert [{"PutTranscript", "PutControl"} <= commit for commit in commits] == [True]
    assert shape(await pending(table)) == ["user"]


@pytest.mark.req("X-5", "C-8")
async def test_a_resent_prompt_is_written_once() -> None:
    table = Table(transcripts=MemoryTranscripts())
    command = await table.execute("say hi")
    session_id = command.target.session_id
    prompt = table.wire.last("control.prompt.request")
    await table.send(session_id, "session.error", p.SessionError(
        error_code="RUNNER_RESTARTED", message="", fatal=False), in_reply_to=prompt.message_id)
    assert table.wire.types().count("control.prompt.request") == 2
    assert shape(await pending(table)) == ["user"]


@pytest.mark.req("X-3", "X-8")
async def test_a_gateway_killed_at_any_point_of_a_turn_writes_the_same_file() -> None:
    whole = Table(transcripts=MemoryTranscripts())
    session_id = await converse(whole)
    expected = shape(await pending(whole))
    assert expected == WHOLE
    frames = ["opened", "started", "asked", "vote", "resolved", "result", "text", "ended"]
    for cut in range(1, len(frames)):
        table = Table(transcripts=MemoryTranscripts())
        session_id = await converse_with_a_kill(table, frames, cut)
        lines = await pending(table)
        assert shape([line for line in lines if b"interlock.notice" not in line]) == expected, frames[cut]
        assert chain(lines)
        assert [m["content"] for m in context(read_tree(lines)).messages] == [
            m["content"] for m in context(read_tree(await pending(whole))).messages]
        assert session_id


async def converse_with_a_kill(table: Table, frames: list[str], cut: int) -> str:
    """The same conversation, with kill -9 of the gateway before step `cut`: its lanes are gone, the ledger stays."""
    command = await table.execute("say hi")
    session_id: str = command.target.session_id
    prompt_wire = table.wire
    approval_id = ""
    for step, frame in enumerate(frames):
        if step == cut:
            table.begin()
            if frame == "started":
                table.wire.sent += prompt_wire.sent
        match frame:
            case "asked":
                await table.asked(session_id)
                approval_id = table.wire.last("x-interlock.interaction.held").payload.approval_id
            case "vote":
                await table.vote(approval_id, "grant")
            case "resolved":
                await table.resolved(session_id, "allowed")
            case "result":
                await table.result(session_id, "a.txt")
            case "text":
                await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b1", text="hi"))
            case _:
                await getattr(table, frame)(session_id)
    return session_id


@pytest.mark.req("X-8", "P-5")
async def test_the_denier_and_the_reason_are_in_the_result() -> None:
    table = Table(transcripts=MemoryTranscripts())
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.asked(session_id)
    held = table.wire.last("x-interlock.interaction.held").payload
    await table.vote(held.approval_id, "deny")
    table.begin()  # the gateway is killed before the runner reports the outcome
    await table.resolved(session_id, "denied")
    await table.result(session_id, "refused", "denied")
    result = entries_of(await pending(table))[-1]["message"]
    assert result["isError"]
    assert result["content"] == [{"type": "text", "text": "Denied by user:owner.\nrefused"}]


@pytest.mark.req("X-8", "C-7")
async def test_the_text_of_a_lost_agent_is_kept() -> None:
    table = Table(transcripts=MemoryTranscripts())
    command = await table.execute()
    session_id = command.target.session_id
    await table.opened(session_id)
    await table.started(session_id)
    await table.send(session_id, "agent.text.done", p.TextDone(turn_id="t1", block_id="b1", text="half"))
    for _ in range(SILENT_HEARTBEATS):
        await (await table.lane(session_id)).call(AgentReported(False))
    message = next(entry["message"] for entry in entries_of(await pending(table)) if entry["type"] == "message"
                   and entry["message"]["role"] == "assistant")
    assert (message["content"][0]["text"], message["stopReason"]) == ("half", "error")


@pytest.mark.req("X-3", "X-1")
async def test_a_conversation_continues_below_entries_of_another_program() -> None:
    transcripts = WatchedTranscripts()
    table = Table(transcripts=transcripts)
    await table.engine.start()
    session_id = await converse(table)
    await table.engine.stop()
    entry = b'{"type":"session_info","id":"0000abcd","parentId":null,"timestamp":"","name":"x"}'
    header = TranscriptHeader(session_id, "shell", "/w", "", "default")
    await transcripts.append(header, [msgspec.structs.replace(line("0000abcd", session_id), line=entry)])
    table.begin()
    await table.execute("again", target=Target(agent_id="shell", session_id=session_id))
    assert entries_of(await pending(table))[0]["parentId"] == "0000abcd"


@pytest.mark.req("X-3")
async def test_an_id_that_the_file_has_is_drawn_again() -> None:
    transcripts = MemoryTranscripts()
    table = Table(transcripts=transcripts)
    command = await table.execute("say hi")
    waiting = await table.ledger.transcript_pending()
    taken = [waiting[0].entry_id, "0000abcd"]
    session_id = command.target.session_id
    header = TranscriptHeader(session_id, "shell", "/w", "", "default")
    await transcripts.append(header, [line("0000abcd", session_id)])
    draws, entropy = iter([*taken, "0000beef"]), table.entropy
    table.entropy = lambda count: bytes.fromhex(next(draws)) if count == 4 else entropy(count)
    table.begin()
    await table.reattach(session_id, 0)
    await (await table.lane(session_id)).call(Within(lambda lane: lane.notice(Notice(code="c", message="m"))))
    assert [one.entry_id for one in await table.ledger.transcript_pending()] == [waiting[0].entry_id, "0000beef"]


def line(entry_id: str, session_id: str = "S1", parent: str | None = None) -> TranscriptLine:
    body = msgspec.json.encode({"type": "custom", "id": entry_id, "parentId": parent, "timestamp": ""})
    return TranscriptLine(tenant_id="default", session_id=session_id, entry_id=entry_id, line=body)


async def ledger_with(*lines: TranscriptLine) -> MemoryLedger:
    ledger = MemoryLedger()
    rows = [PutSession(SessionRecord(
        session_id=session_id, tenant_id="default", session_key="k", agent_id="shell", runner_id="r", workspace="/w",
        state="idle", created_ms=0, updated_ms=0, deadline_ms=None, machine=b"{}", usage={}))
        for session_id in {one.session_id for one in lines}]
    await ledger.commit(WriteBatch([*rows, *map(PutTranscript, lines)]))
    return ledger


@pytest.mark.req("X-3")
async def test_entries_left_by_an_earlier_gateway_are_written_at_the_start() -> None:
    ledger, transcripts = await ledger_with(line("a"), line("b"), line("z", "S2")), WatchedTranscripts()
    await transcripts.append(TranscriptHeader("S1", "shell", "/w", "", "default"), [line("a")])
    writer = TranscriptWriter(ledger, transcripts)
    writer.start()
    await writer.stop()
    assert [len(await transcripts.read(session_id, "shell", "default")) for session_id in ("S1", "S2")] == [3, 2]
    assert await ledger.transcript_pending() == []


@pytest.mark.req("X-4")
async def test_the_first_lines_of_a_file_are_all_its_waiting_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_writer, "BATCH_LINES", 2)
    ledger, transcripts = await ledger_with(*(line(f"{n:02}") for n in range(5))), WatchedTranscripts()
    writer = TranscriptWriter(ledger, transcripts)
    writer.start()
    await writer.stop()
    assert [transcripts.written.get_nowait()] == [[f"{n:02}" for n in range(5)]]
    assert await ledger.transcript_pending() == []


@pytest.mark.req("X-3")
async def test_a_batch_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_writer, "BATCH_LINES", 4)
    monkeypatch.setattr(transcript_writer, "BATCH_LINES_MAX", 4)
    ledger, transcripts = await ledger_with(*(line(f"{n:02}") for n in range(10))), WatchedTranscripts()
    writer = TranscriptWriter(ledger, transcripts)
    writer.start()
    await writer.stop()
    sizes = [len(transcripts.written.get_nowait()) for _ in range(transcripts.written.qsize())]
    assert sizes == [4, 4, 2]
    assert len(await transcripts.read("S1", "shell", "default")) == 11


@pytest.mark.req("X-3")
async def test_an_unwritable_file_waits_and_blocks_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_writer, "BATCH_LINES", 2)
    monkeypatch.setattr(transcript_writer, "RETRY_MIN_S", 0.01)
    ledger = await ledger_with(*(line(f"b{n}", "bad") for n in range(5)), line("g", "good"))
    transcripts = WatchedTranscripts()
    transcripts.broken.add("bad")
    with capture_logs() as logs:
        writer = TranscriptWriter(ledger, transcripts)
        writer.start()
        assert await transcripts.written.get() == ["g"]
        for _ in range(3):  # it is retried repeatedly, and logged once
            transcripts.refused.clear()
            await transcripts.refused.wait()
        assert len(await ledger.transcript_pending()) == 5
        transcripts.broken.clear()
        assert await transcripts.written.get() == ["b0", "b1"]
        await writer.stop()
    assert shape(await transcripts.read("bad", "shell", "default")) == ["session", *["custom"] * 5]
    assert [(entry["log_level"], entry["session_id"]) for entry in logs] == [("error", "bad"), ("info", "bad")]


@pytest.mark.req("X-3")
async def test_stopping_keeps_unwritten_entries_in_the_ledger() -> None:
    ledger, transcripts = await ledger_with(line("a")), WatchedTranscripts()
    transcripts.broken.add("S1")
    writer = TranscriptWriter(ledger, transcripts)
    writer.start()
    await transcripts.refused.wait()
    await writer.stop()
    assert await ledger.transcript_pending() == [line("a")]


@pytest.mark.req("X-3")
async def test_a_ledger_that_cannot_delete_causes_no_duplicates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_writer, "RETRY_MIN_S", 0.01)
    ledger, transcripts = await ledger_with(line("a")), WatchedTranscripts()
    commit, refused = ledger.commit, asyncio.Event()

    async def full(batch: WriteBatch) -> Receipt:
        if not refused.is_set():
            refused.set()
            raise Full("the disk is full")
        return await commit(batch)

    ledger.commit = full  # type: ignore[method-assign]
    writer = TranscriptWriter(ledger, transcripts)
    writer.start()
    assert [await transcripts.written.get(), await transcripts.written.get()] == [["a"], ["a"]]
    await writer.stop()
    assert len(await transcripts.read("S1", "shell", "default")) == 2
    assert await ledger.transcript_pending() == []


@pytest.mark.req("X-3", "X-4")
async def test_kill_9_loses_and_duplicates_no_entry(tmp_path: Path) -> None:
    """A process commits and writes as fast as it can and is killed at some instant, again and again."""
    committed: list[str] = []
    for round_ in range(KILLS):
        child = subprocess.Popen([sys.executable, str(PROGRAM), str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        with child.stdout as output:
            # The kill hits the two threads at any point after a number of commits, which differs in each round.
            committed += [output.readline().decode().strip() for _ in range(random.randrange(20, 160))]
            child.send_signal(signal.SIGKILL)
            committed += output.read().decode().split()
        child.wait()
        file = tmp_path / "agents" / "shell" / "sessions" / "S1.jsonl"
        if round_ % 2 and file.exists():
            with file.open("ab") as torn:  # as a power loss in the middle of a write leaves it
                torn.write(b'{"type":"custom","id":"torn')
    ledger = await open_ledger(tmp_path / "ledger.db", ManualClock())
    transcripts = JsonlTranscripts(tmp_path, ManualClock())
    writer = TranscriptWriter(ledger, transcripts)
    writer.start()
    await writer.stop()
    assert await ledger.transcript_pending() == []
    lines = await transcripts.read("S1", "shell", "default")
    await transcripts.close()
    await ledger.close()
    ids = [entry["id"] for entry in entries_of(lines)]
    assert len(entries_of(lines)) == len(lines) - 1, "every line is whole"
    assert len(set(ids)) == len(ids), "no entry is doubled"
    assert set(committed) <= set(ids), "no entry is lost"
    assert [entry["data"]["n"] for entry in entries_of(lines)] == list(range(1, len(ids) + 1)), "in order"
