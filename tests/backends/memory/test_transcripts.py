"""Transcripts in memory follow the rules of those on a disk: an entry once, a rewrite keeps the previous content
(X-4)."""

from __future__ import annotations

import msgspec
import pytest

from interlock.backends.memory.transcripts import MemoryTranscripts
from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol.records import TranscriptLine

pytestmark = pytest.mark.anyio
HEADER = TranscriptHeader("s1", "shell", "2026-01-01T00:00:00.000Z", "/w", "t1")


def line(entry_id: str, parent: str | None = None) -> TranscriptLine:
    entry = {"type": "custom", "id": entry_id, "parentId": parent, "timestamp": "2026-01-01T00:00:00.000Z",
             "customType": "x", "data": {}}
    return TranscriptLine(tenant_id="t1", session_id="s1", entry_id=entry_id, line=msgspec.json.encode(entry))


async def test_a_repeated_entry_is_stored_once() -> None:
    store = MemoryTranscripts()
    await store.append(HEADER, [line("aaaaaaaa"), line("bbbbbbbb", "aaaaaaaa")])
    await store.append(HEADER, [line("bbbbbbbb", "aaaaaaaa")])

    assert await store.ids("s1", "shell", "t1") == {"aaaaaaaa", "bbbbbbbb"}
    assert await store.ids("s1", "shell", "t2") == set()
    assert await store.leaf("s1", "shell", "t1") == "bbbbbbbb"
    assert len(await store.read("s1", "shell", "t1")) == 3  # With the header.
    assert (await store.leaf("s2", "shell", "t1"), await store.read("s2", "shell", "t1")) == (None, [])


async def test_a_page_begins_after_a_number_and_has_the_total_count() -> None:
    store = MemoryTranscripts()
    await store.append(HEADER, [line("aaaaaaaa"), line("bbbbbbbb", "aaaaaaaa"), line("cccccccc", "bbbbbbbb")])
    page = await store.page("s1", "shell", "t1", 1, 1)

    assert (len(page[0]), page[1]) == (1, len((await store.tree("s1", "shell", "t1")).lines))


async def test_a_file_is_published_once_and_rewritten_only_if_something_changes() -> None:
    store = MemoryTranscripts()
    await store.publish("s1", "shell", "t1", [b"{}"])
    with pytest.raises(FileExistsError):
        await store.publish("s1", "shell", "t1", [b"{}"])

    assert await store.rewrite("s1", "shell", "t1", lambda _old: None) is None
    assert await store.read("s1", "shell", "t1") == [b"{}"]
    assert await store.rewrite("s1", "shell", "t1", lambda old: [old.strip(), b"[]"]) is not None
    assert await store.read("s1", "shell", "t1") == [b"{}", b"[]"]
