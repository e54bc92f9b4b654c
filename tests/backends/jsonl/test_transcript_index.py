"""The index beside a file returns what the file has, and nothing else (X-7)."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

import pytest

from interlock.backends.jsonl import transcript_index
from interlock.backends.jsonl.files import TranscriptFiles
from interlock.backends.jsonl.plain_files import Snapshot
from interlock.backends.jsonl.transcript_index import Indexed, index_path
from interlock.backends.memory.clock import ManualClock
from interlock.ports.transcripts import TranscriptHeader
from interlock.protocol.records import TranscriptLine
from interlock.session.context.context import context
from interlock.session.transcript.tree import read_tree
from session.trees import AT, file_of, lines_of, random_entries

pytestmark = pytest.mark.req("X-7")


@pytest.fixture(autouse=True)
def small_files_have_one_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_index, "INDEX_MIN_BYTES", 1)
    monkeypatch.setattr(transcript_index, "WHOLE_SHARE", 1)


def later() -> int:
    """An instant at which the file has long been still."""
    return time.time_ns() + 10**12


def opened(path: Path) -> tuple[bool, list[bytes], Any]:
    with Indexed(path, later) as file:
        found = file.from_index, file.page(0, 10_000), file.context()
    file.keep_index()
    return found


def test_reads_through_the_index_equal_reads_of_the_file(tmp_path: Path) -> None:
    for seed in range(60):
        path = tmp_path / f"{seed}.jsonl"
        path.write_bytes(file_of(random_entries(random.Random(seed), 40, 0.15)))
        tree = read_tree(path.read_bytes().split(b"\n"))
        first, again = opened(path), opened(path)
        assert (first[0], again[0]) == (False, True)
        for _, page, found in (first, again):
            assert page == tree.lines
            assert found == context(tree)
            assert found.messages == context(tree).messages
        with Indexed(path, later) as file:
            assert [file.place(node.id) for node in tree.nodes] == list(range(40))
            assert file.place("ffffffff") is None
            assert file.page(38, 10) == tree.lines[38:]
            assert file.page(40, 10) == []


def test_an_append_or_an_edit_invalidates_the_index(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    entries = random_entries(random.Random(1), 20, 0)
    path.write_bytes(file_of(entries[:19]))
    opened(path)
    path.write_bytes(file_of(entries))
    from_index, page, _ = opened(path)
    assert (from_index, len(page)) == (False, 20)
    assert opened(path)[0] is True
    changed = path.read_bytes().replace(b'"hello"', b'"HELLO"')
    path.write_bytes(changed)
    from_index, page, _ = opened(path)
    assert (from_index, b"\n".join(page)) == (False, changed.split(b"\n", 1)[1].removesuffix(b"\n"))


def test_a_false_index_is_detected_by_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_of(random_entries(random.Random(2), 40, 0.2)))
    whole = opened(path)[1:]
    good = index_path(path).read_bytes()
    dice = random.Random(3)
    for _ in range(200):
        bad = bytearray(good)
        at = dice.randrange(len(bad))
        bad[at] ^= 1 << dice.randrange(8)
        index_path(path).write_bytes(bytes(bad))
        with Indexed(path, later) as file:
            assert file.context() == whole[1]
        index_path(path).write_bytes(bytes(bad))
        with Indexed(path, later) as file:
            assert set(file.page(0, 10_000)) <= set(whole[0])
    for cut in (0, 1, 40, len(good) - 1):
        index_path(path).write_bytes(good[:cut])
        assert opened(path)[1:] == whole


def test_a_just_changed_file_is_not_indexed_yet(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_of(random_entries(random.Random(1), 5)))
    with Indexed(path, lambda: path.stat().st_mtime_ns + 1) as file:
        pass
    file.keep_index()
    assert not index_path(path).exists()


def test_damaged_and_missing_files_are_read_without_an_index(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    assert opened(path) == (False, [], context(read_tree(())))
    data = file_of(random_entries(random.Random(1), 5))
    for spoilt in (data[:-7], data.replace(b"\n", b"\n\n", 1), data + b"\0\0", b"", data.split(b"\n", 1)[1]):
        path.write_bytes(spoilt)
        assert opened(path)[1] == read_tree(spoilt.split(b"\n")).lines
        assert not index_path(path).exists()


def test_the_file_is_read_if_the_index_cannot_be_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(file_of(random_entries(random.Random(1), 5)))
    (tmp_path / f".{index_path(path).name}.new").mkdir()
    from_index, page, _ = opened(path)
    assert (from_index, len(page)) == (False, 5)
    assert not index_path(path).exists()


class Grown:
    """A file with an index, to which this process keeps appending."""

    def __init__(self, root: Path, entries: list[dict[str, Any]]) -> None:
        self.files = TranscriptFiles(root, ManualClock())
        self.path = self.files.path("S", "shell")
        self.path.parent.mkdir(parents=True)
        self.path.write_bytes(file_of(entries))
        opened(self.path)
        self.read = 0

    def append(self, entries: list[dict[str, Any]]) -> None:
        lines = [TranscriptLine(tenant_id="t1", session_id="S", entry_id=entry["id"], line=line)
                 for entry, line in zip(entries, lines_of(entries, None), strict=True)]
        self.files.append(TranscriptHeader("S", "shell", "/w", AT, "t1"), lines)

    def trunk(self) -> tuple[bool, Any, Any]:
        """Whether it came of the index, and the context by it and by the file."""
        with Indexed(self.path, later, self.files.snapshot(self.path)) as file:
            trunk, found, by_index = file.trunk(), file.context(), file.from_index
            self.read = sum(map(len, trunk.lines))
        file.keep_index()
        whole = context(read_tree(self.path.read_bytes().split(b"\n")))
        assert found == whole
        return by_index, context(trunk).raw, whole.raw


def test_the_index_is_extended_by_this_processs_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcript_index, "KEEP_ENTRIES", 7)
    for seed in range(40):
        dice = random.Random(seed)
        entries = random_entries(dice, 60, 0.1)
        grown = Grown(tmp_path / str(seed), entries[:30])
        at = 30
        while at < 60:
            count = dice.randrange(1, 6)
            grown.append(entries[at : at + count])
            at += count
            from_index, trunk, whole = grown.trunk()
            assert from_index, "the file is not read again for what was appended to it"
            assert trunk == whole


def test_changes_by_another_program_are_read(tmp_path: Path) -> None:
    entries = random_entries(random.Random(3), 40, 0)
    grown = Grown(tmp_path, entries[:20])
    grown.append(entries[20:22])
    with grown.path.open("ab") as other:
        other.write(lines_of(entries[22:23], None)[0] + b"\n")
    from_index, trunk, whole = grown.trunk()
    assert (from_index, trunk) == (False, whole)
    grown.append(entries[23:25])
    assert grown.trunk()[0] is True
    # An edit in place keeps the file's size, and is seen all the same.
    grown.path.write_bytes(grown.path.read_bytes().replace(b'"hello"', b'"HELLO"'))
    from_index, trunk, whole = grown.trunk()
    assert (from_index, trunk) == (False, whole)


def test_a_turn_of_a_long_session_reads_only_from_the_last_compaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript_index, "WHOLE_SHARE", 4)
    entries = [entry for entry in random_entries(random.Random(5), 3_000, 0) if entry["type"] == "message"]
    for before, entry in zip([None, *entries], entries, strict=False):
        entry["parentId"] = before["id"] if before is not None else None
    last, kept = entries[-1]["id"], entries[-4]["id"]
    compaction = {"type": "compaction", "id": "cccccccc", "parentId": last, "timestamp": AT, "summary": "so far",
                  "firstKeptEntryId": kept, "tokensBefore": 9}
    edited = {"type": "message", "id": "dddddddd", "parentId": "cccccccc", "timestamp": AT,
              "message": {"role": "user", "content": "go on", "timestamp": 1}}
    grown = Grown(tmp_path, [*entries, compaction])
    grown.append([edited])
    read: list[int] = []
    lines = Snapshot.lines

    def counted(self: Snapshot, at: int = 0) -> list[bytes]:
        read.append(self.stat.st_size - at)
        return lines(self, at)

    monkeypatch.setattr(Snapshot, "lines", counted)
    from_index, trunk, whole = grown.trunk()
    assert (from_index, trunk, len(trunk)) == (True, whole, 6)
    assert sum(read) < 200, "only what was appended"
    assert grown.read < 2_000
