"""Files of ours open in pi, whose format they have, with the same context, and files of pi open here (X-6).

pi is installed by `.ci/install-agents`.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from engine.conversation import Table
from engine.gateway_context import ContextTable
from engine.sessions.test_transcript_writer import converse
from installed import require
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.engine.sessions.transcript_desk import TranscriptDesk
from interlock.session.context.context import ModelContext, context
from interlock.session.transcript.doctor import examine, repair
from interlock.session.transcript.entries import Header
from interlock.session.transcript.tree import read_tree
from session.transcript.test_transcript import long_turn
from session.trees import AT, file_of, random_entries

pytestmark = [pytest.mark.anyio, pytest.mark.req("X-6"), pytest.mark.needs("pi")]
PROGRAM = Path(__file__).with_name("pi.mjs")
PATIENCE_S = 120


def pi(*words: str | Path) -> list[Any]:
    command = ["node", PROGRAM, require("pi"), *words]
    done = subprocess.run(command, capture_output=True, check=False, timeout=PATIENCE_S)
    assert done.returncode == 0, done.stderr.decode()
    return [json.loads(line) for line in done.stdout.splitlines()]


def same(theirs: Any, ours: ModelContext) -> None:
    assert [_bare(one) for one in theirs["messages"]] == [_bare(one) for one in ours.messages]
    model = theirs["model"]
    assert ours.model == (None if model is None else (model["provider"], model["modelId"]))
    assert ours.thinking_level == theirs["thinkingLevel"]


def _bare(message: dict[str, Any]) -> dict[str, Any]:
    """A missing value is undefined in pi and null here."""
    return {name: value for name, value in message.items() if value is not None}


@pytest.mark.req("X-1")
def test_pi_reads_the_same_context_from_every_file(tmp_path: Path) -> None:
    files: list[Path] = []
    for seed in range(60):
        dice = random.Random(seed)
        files.append(tmp_path / f"{seed}.jsonl")
        data = file_of(random_entries(dice, dice.randrange(1, 60), 0.2))
        if seed % 5 == 4:  # Lines that are not JSON are ignored by both.
            data = data.replace(b"\n", b"\n\0\0\0\n", 3)
        files[-1].write_bytes(data)
    for file, theirs in zip(files, pi("context", *files), strict=True):
        same(theirs, context(read_tree(file.read_bytes().split(b"\n"))))


@pytest.mark.req("X-2")
def test_pi_upgrades_old_files_as_we_do(tmp_path: Path) -> None:
    def node(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "message", "timestamp": AT, **more,
                "message": {"role": more.pop("role", "user"), "content": text, "timestamp": 1}}

    first: list[dict[str, Any]] = [
        {"type": "session", "id": "S", "timestamp": AT, "cwd": "/w"}, node("a"), node("b", role="hookMessage"),
        {"type": "compaction", "timestamp": AT, "summary": "sum", "firstKeptEntryIndex": 2, "tokensBefore": 5},
        node("c")]
    second: list[dict[str, Any]] = [
        {"type": "session", "version": 2, "id": "S", "timestamp": AT, "cwd": "/w"},
        node("a", id="x", parentId=None), node("b", id="y", parentId="x", role="hookMessage"),
        node("c", id="z", parentId="x")]
    files = [tmp_path / "v1.jsonl", tmp_path / "v2.jsonl"]
    for file, entries in zip(files, (first, second), strict=True):
        file.write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    before = [context(read_tree(file.read_bytes().split(b"\n"))) for file in files]
    for theirs, ours in zip(pi("context", *files), before, strict=True):
        same(theirs, ours)
    for file, ours in zip(files, before, strict=True):
        assert context(read_tree(file.read_bytes().split(b"\n"))).messages == ours.messages, "pi wrote it anew"


async def test_a_conversation_written_here_opens_in_pi(tmp_path: Path) -> None:
    table = Table(transcripts=JsonlTranscripts(tmp_path, ManualClock()))
    await table.engine.start()
    session_id = await converse(table)
    desk = table.engine.transcripts
    assert isinstance(desk, TranscriptDesk)
    record = await table.ledger.session(session_id)
    assert record is not None
    ours = await desk.context(record)
    await table.engine.stop()
    (theirs,) = pi("context", tmp_path / "agents" / "shell" / "sessions" / f"{session_id}.jsonl")
    same(theirs, ours)
    assert len(ours.messages) == 4


@pytest.mark.req("X-4")
def test_a_file_that_pi_cannot_open_is_repaired_into_one_that_it_can(tmp_path: Path) -> None:
    def node(entry_id: str, parent: str | None, **fields: Any) -> dict[str, Any]:
        return {"type": "message", "id": entry_id, "parentId": parent, "timestamp": AT, **fields}

    user = {"role": "user", "content": "hello", "timestamp": 1}
    broken = tmp_path / "broken.jsonl"
    broken.write_bytes(file_of([node("a", None, message=user), node("b", "a"), node("c", "b", message=user)]))
    with pytest.raises(AssertionError, match="Cannot read properties of undefined"):
        pi("context", broken)
    top = Header(version=3, id="S", timestamp=AT, cwd="/w")
    files: list[Path] = []
    odd: list[dict[str, Any]] = [
        {}, {"message": None}, {"message": {"role": "user", "content": 5}}, {"message": {"role": "assistant"}},
        {"type": "session_info", "name": 5}, {"type": "compaction"}, {"type": "custom_message", "content": None}]
    for number, fields in enumerate(odd):
        data = file_of([node("a", None, message=user), node("b", "a", **fields), node("c", "b", message=user)])
        assert not examine(data).sound
        files.append(tmp_path / f"{number}.jsonl")
        files[-1].write_bytes(b"".join(line + b"\n" for line in repair(data, top, os.urandom).lines))
    for file, theirs in zip(files, pi("context", *files), strict=True):
        same(theirs, context(read_tree(file.read_bytes().split(b"\n"))))
        assert [one["content"] for one in theirs["messages"]] == ["hello", "hello"]


@pytest.mark.req("X-1")
def test_half_a_surrogate_pair_that_pi_wrote_is_read_as_pi_sends_it(tmp_path: Path) -> None:
    (read,) = pi("write", tmp_path, "half \\ud83d pair")
    data = Path(read["file"]).read_bytes()
    assert b"\\ud83d" in data
    theirs = json.loads(json.dumps(read["context"]).replace("\\ud83d", "\\ufffd"))
    same(theirs, context(read_tree(data.split(b"\n"))))


def test_a_conversation_written_by_pi_opens_here(tmp_path: Path) -> None:
    (read,) = pi("write", tmp_path)
    tree = read_tree(Path(read["file"]).read_bytes().split(b"\n"))
    same(read["context"], context(tree))
    assert list(tree.labels().values()) == ["start"]
    assert tree.damaged == []


@pytest.mark.req("Z-3", "Z-4")
async def test_a_compaction_made_here_has_the_same_meaning_in_pi(tmp_path: Path) -> None:
    room = ContextTable(transcripts=JsonlTranscripts(tmp_path, ManualClock()))
    for summary in ("the first summary", "the second, 두 번째"):
        before = room.requests()
        while room.requests() == before:
            await room.run_turns(1)
        await room.report(summary)
    await room.run_turns(1, "short")
    ours = await room.context()
    await room.engine.stop()
    (theirs,) = pi("context", tmp_path / "agents" / "shell" / "sessions" / f"{room.session_id}.jsonl")
    same(theirs, ours)
    assert ours.messages[0]["summary"] == "the second, 두 번째"
    assert 4 <= len(ours.messages) < 12


@pytest.mark.req("X-8")
@pytest.mark.parametrize("last", [{"used": 20_025}, {}])
@pytest.mark.parametrize("running", [False, True])
def test_pi_estimates_a_conversations_true_size(tmp_path: Path, last: dict[str, int], running: bool) -> None:
    """pi reads the context's size from the last assistant message: a turn's total would make it compact at once."""
    header = {"type": "session", "version": 3, "id": "S", "timestamp": AT, "cwd": "/w"}
    entries = long_turn(25, running=running, **last).entries
    parents = [None, *(entry["id"] for entry in entries)]
    file = tmp_path / "S.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [
        header, *({**entry, "parentId": parent} for entry, parent in zip(entries, parents, strict=False))]))
    (size,) = pi("size", file)
    assert 19_000 <= size["last"] <= 21_000
    assert 19_000 <= size["estimate"] <= 21_000
