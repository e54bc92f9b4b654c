"""One suite over every store of transcripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.backends.postgres.database import PostgresSettings
from interlock.backends.postgres.ledger import open_ledger
from interlock.backends.postgres.transcripts import PostgresTranscripts
from interlock.ports.transcripts import TranscriptHeader, TranscriptStore
from interlock.protocol.records import TranscriptLine
from interlock.session.transcript.entries import BadLine, header_line

pytestmark = pytest.mark.anyio
HEADER = TranscriptHeader("S1", "shell", "/w", "2026-01-01T00:00:00.000Z", "t1")


@pytest.fixture(params=["memory", "jsonl", "postgres", "postgres_by_tenant"])
def place(request: pytest.FixtureRequest) -> str | PostgresSettings:
    return request.getfixturevalue(request.param) if request.param.startswith("postgres") else request.param


@pytest.fixture
async def transcripts(place: str | PostgresSettings, tmp_path: Path) -> AsyncIterator[TranscriptStore]:
    clock = ManualClock()
    async with AsyncExitStack() as ends:
        store: TranscriptStore
        if isinstance(place, PostgresSettings):
            ledger = await open_ledger(place, clock, keeps_transcripts=True)
            ends.push_async_callback(ledger.close)
            store = PostgresTranscripts(ledger, clock)
        else:
            store = MemoryTranscripts() if place == "memory" else JsonlTranscripts(tmp_path, clock)
        ends.push_async_callback(store.close)
        yield store


def line(entry_id: str, parent: str | None = None, session_id: str = "S1") -> TranscriptLine:
    body = msgspec.json.encode({"type": "custom", "id": entry_id, "parentId": parent, "timestamp": ""})
    return TranscriptLine(tenant_id="t1", session_id=session_id, entry_id=entry_id, line=body)


@pytest.mark.req("X-3")
async def test_a_transcript_without_writes_is_empty(transcripts: TranscriptStore) -> None:
    assert await transcripts.leaf("S1", "shell", "t1") is None
    assert await transcripts.ids("S1", "shell", "t1") == set()
    assert await transcripts.read("S1", "shell", "t1") == []


@pytest.mark.req("X-3")
async def test_a_file_is_its_header_then_the_lines_in_order(transcripts: TranscriptStore) -> None:
    a, b, c = line("a"), line("b", "a"), line("c", "b")
    await transcripts.append(HEADER, [a, b])
    await transcripts.append(HEADER, [c])
    header, *rest = await transcripts.read("S1", "shell", "t1")
    assert msgspec.json.decode(header) == {"type": "session", "version": 3, "id": "S1", "cwd": "/w",
                                           "timestamp": "2026-01-01T00:00:00.000Z"}
    assert rest == [a.line, b.line, c.line]
    assert await transcripts.leaf("S1", "shell", "t1") == "c"
    assert await transcripts.ids("S1", "shell", "t1") == {"a", "b", "c"}


@pytest.mark.req("X-3")
async def test_an_entry_is_never_duplicated(transcripts: TranscriptStore) -> None:
    a, b, c = line("a"), line("b", "a"), line("c", "b")
    await transcripts.append(HEADER, [a, b, b])
    await transcripts.append(HEADER, [a, b, c])
    await transcripts.append(HEADER, [c])
    assert (await transcripts.read("S1", "shell", "t1"))[1:] == [a.line, b.line, c.line]


@pytest.mark.req("X-3")
async def test_sessions_are_independent(transcripts: TranscriptStore) -> None:
    other = HEADER._replace(session_id="S2")
    await asyncio.gather(transcripts.append(HEADER, [line("a")]), transcripts.append(other, [line("a", None, "S2")]),
                         transcripts.append(HEADER, [line("b", "a")]))
    assert await transcripts.ids("S1", "shell", "t1") == {"a", "b"}
    assert await transcripts.ids("S2", "shell", "t1") == {"a"}
    assert await transcripts.ids("S1", "other", "t1") == set()


@pytest.mark.req("X-3", "C-4")
async def test_entries_of_many_transcripts_are_read_like_those_of_each(transcripts: TranscriptStore) -> None:
    await transcripts.append(HEADER, [line("a"), line("c", "a"), line("b", "c")])
    await transcripts.append(HEADER._replace(session_id="S2", agent_id="goose"), [line("x", None, "S2")])
    await transcripts.rewrite("S1", "shell", "t1", lambda data: data.splitlines()[:-1])
    names = [("S2", "goose", "t1"), ("none", "shell", "t1"), ("S1", "shell", "t1"), ("S1", "goose", "t1"),
             ("S2", "goose", "t1")]
    found = await transcripts.kept_entries(names)
    assert found == [(await transcripts.ids(*one), await transcripts.leaf(*one)) for one in names]
    assert found[2] == ({"a", "c"}, "c")
    assert await transcripts.kept_entries([]) == []


@pytest.mark.req("X-3")
async def test_a_line_that_does_not_match_its_entry_is_refused_and_not_written(transcripts: TranscriptStore) -> None:
    with pytest.raises(BadLine):
        await transcripts.append(HEADER, [line("a"), msgspec.structs.replace(line("b"), entry_id="c")])
    assert await transcripts.read("S1", "shell", "t1") == []


@pytest.mark.req("X-3")
async def test_a_read_result_belongs_to_its_reader(transcripts: TranscriptStore) -> None:
    await transcripts.append(HEADER, [line("a")])
    (await transcripts.ids("S1", "shell", "t1")).add("b")
    (await transcripts.read("S1", "shell", "t1")).clear()
    await transcripts.append(HEADER, [line("b", "a")])
    assert len(await transcripts.read("S1", "shell", "t1")) == 3


@pytest.mark.req("X-3")
async def test_concurrent_appends_keep_their_order(transcripts: TranscriptStore) -> None:
    names = [f"{n:04x}" for n in range(300)]
    await asyncio.gather(*(transcripts.append(HEADER, [line(name)]) for name in names))
    written = (await transcripts.read("S1", "shell", "t1"))[1:]
    assert [msgspec.json.decode(one)["id"] for one in written] == names


@pytest.mark.req("X-1", "X-7")
async def test_tree_page_and_context_match_the_file(transcripts: TranscriptStore) -> None:
    assert (await transcripts.tree("S1", "shell", "t1")).nodes == []
    assert await transcripts.page("S1", "shell", "t1", 0, 5) == ([], 0)
    assert (await transcripts.context("S1", "shell", "t1")).messages == []
    appended = [message_line("a", None), message_line("b", "a"), message_line("c", "a")]
    await transcripts.append(HEADER, appended)
    assert (await transcripts.tree("S1", "shell", "t1")).children() == {None: [0], 0: [1, 2]}
    assert await transcripts.page("S1", "shell", "t1", 1, 1) == ([appended[1].line], 3)
    assert await transcripts.page("S1", "shell", "t1", 3, 1) == ([], 3)
    assert [one["content"] for one in (await transcripts.context("S1", "shell", "t1")).messages] == ["a", "c"]


@pytest.mark.req("X-6")
async def test_a_published_transcript_is_complete_and_replaces_no_other(transcripts: TranscriptStore) -> None:
    lines = [header_line("S1", HEADER.timestamp, "/w"), message_line("a", None).line]
    await transcripts.publish("S1", "shell", "t1", lines)
    assert await transcripts.read("S1", "shell", "t1") == lines
    with pytest.raises(FileExistsError):
        await transcripts.publish("S1", "shell", "t1", [])
    await transcripts.append(HEADER, [message_line("b", "a")])
    assert await transcripts.read("S1", "shell", "t1") == [*lines, message_line("b", "a").line]


@pytest.mark.req("X-1", "X-4")
async def test_escapes_of_other_programs_hide_no_entry(transcripts: TranscriptStore) -> None:
    """Halves of surrogate pairs, zero characters, bytes that are no text, a parent of another type."""
    appended = [message_line("a", None).line.replace(b'"content":"a"', rb'"content":"\ud83d\u0000"'),
                message_line("b", "a").line.replace(b'"content":"b"', b'"content":"\xff"'),
                message_line("nul", "b").line.replace(b'"nul"', rb'"n\u0000l"', 1),
                message_line("d", None).line.replace(b'"parentId":null', rb'"parentId":"n\u0000l","x":"\udc00"')]
    await transcripts.publish("S1", "shell", "t1", [header_line("S1", HEADER.timestamp, "/w"), *appended])
    assert (await transcripts.read("S1", "shell", "t1"))[1:] == appended
    assert await transcripts.ids("S1", "shell", "t1") == {"a", "b", "n\0l", "d"}
    assert await transcripts.leaf("S1", "shell", "t1") == "d"
    assert await transcripts.page("S1", "shell", "t1", 0, 9) == (appended, 4)
    assert [one["content"] for one in (await transcripts.context("S1", "shell", "t1")).messages] == [
        "\ufffd\0", "\ufffd", "nul", "d"]
    await transcripts.append(HEADER, [message_line("e", "d")])
    assert len((await transcripts.context("S1", "shell", "t1")).messages) == 5


@pytest.mark.req("X-4")
async def test_a_rewritten_transcript_is_continued(transcripts: TranscriptStore) -> None:
    await transcripts.append(HEADER, [message_line("a", None), message_line("b", "a")])
    assert await transcripts.rewrite("S1", "shell", "t1", lambda _: None) is None
    old = await transcripts.read("S1", "shell", "t1")
    kept = await transcripts.rewrite("S1", "shell", "t1", lambda data: data.split(b"\n")[:2])
    assert kept is not None
    assert await transcripts.read("S1", "shell", "t1") == old[:2]
    assert (await transcripts.leaf("S1", "shell", "t1"), await transcripts.ids("S1", "shell", "t1")) == ("a", {"a"})
    await transcripts.append(HEADER, [message_line("b", "a")])
    assert await transcripts.read("S1", "shell", "t1") == old


def message_line(entry_id: str, parent: str | None) -> TranscriptLine:
    body = {"type": "message", "id": entry_id, "parentId": parent, "timestamp": "",
            "message": {"role": "user", "content": entry_id, "timestamp": 1}}
    return TranscriptLine(tenant_id="t1", session_id="S1", entry_id=entry_id, line=msgspec.json.encode(body))
