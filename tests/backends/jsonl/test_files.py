"""A transcript after a torn write, a lost tail or a full disk: acknowledged entries are there, and losses are
reported."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import msgspec
import pytest
from structlog.testing import capture_logs

from backends.jsonl.transcript_file import HEADER, ReadBytes, damaged, line, long_file
from interlock.backends.jsonl import files, transcript_index
from interlock.backends.jsonl import transcripts as transcripts_module
from interlock.backends.jsonl.plain_files import Snapshot
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock

pytestmark = pytest.mark.anyio


@pytest.mark.req("X-4", "X-3")
@pytest.mark.parametrize("tail", [line("b").line[:-5], b"\0" * 5_000, b"\0" * 10 + line("b").line, b"{", b"\xff\xfe"])
async def test_a_torn_tail_is_set_aside_and_logged(transcripts: JsonlTranscripts, file: Path, tail: bytes) -> None:
    whole = damaged(file, tail)
    assert await transcripts.leaf("S1", "shell", "t1") == "a"
    assert file.read_bytes() == whole + tail, "reading changes nothing"
    with capture_logs() as logs:
        await transcripts.append(HEADER, [line("b", "a")])
    assert file.read_bytes() == whole + line("b", "a").line + b"\n"
    aside = file.with_name("S1.jsonl.torn-20270115T080000123Z")
    assert (aside.read_bytes(), aside.stat().st_mode & 0o777) == (tail, 0o600)
    assert [(entry["log_level"], entry["aside"]) for entry in logs] == [("warning", str(aside))]


@pytest.mark.req("X-4")
async def test_no_tail_replaces_another_one(transcripts: JsonlTranscripts, file: Path) -> None:
    damaged(file, b"{1")
    await transcripts.append(HEADER, [line("b", "a")])
    with file.open("ab") as other:
        other.write(b"{2")
    await transcripts.append(HEADER, [line("c", "b")])
    assert [path.read_bytes() for path in sorted(file.parent.glob("*.torn-*"))] == [b"{1", b"{2"]


@pytest.mark.req("X-4")
async def test_a_complete_line_without_its_line_feed_is_an_entry(transcripts: JsonlTranscripts, file: Path) -> None:
    whole = damaged(file, line("b", "a").line)
    await transcripts.append(HEADER, [line("b", "a"), line("c", "b")])
    assert file.read_bytes() == whole + line("b", "a").line + b"\n" + line("c", "b").line + b"\n"
    assert len(list(file.parent.iterdir())) == 1


@pytest.mark.req("X-4")
async def test_a_torn_header_is_set_aside_too(transcripts: JsonlTranscripts, file: Path) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(b'{"type":"sess')
    await transcripts.append(HEADER, [line("a")])
    assert [msgspec.json.decode(one)["type"] for one in file.read_bytes().splitlines()] == ["session", "custom"]


@pytest.mark.req("X-4")
async def test_damage_in_the_middle_is_left_unchanged(transcripts: JsonlTranscripts, file: Path) -> None:
    whole = damaged(file, b"\0\0\0\n\n" + line("b", "a").line + b"\n")
    with capture_logs() as logs:
        await transcripts.append(HEADER, [line("a"), line("c", "b")])
    assert file.read_bytes() == whole + b"\0\0\0\n\n" + line("b", "a").line + b"\n" + line("c", "b").line + b"\n"
    assert [entry["lines"] for entry in logs] == [1]


@pytest.mark.req("X-4")
@pytest.mark.parametrize("held", [b"\0" * 30 + b"\n" + line("c", "b").line + b"\n",
                                  b"\0" * 30 + b"\n" + line("c", "b").line,
                                  b"\0" * 30 + b"\n" + line("c", "b").line + b"\n" + line("d", "c").line[:-5]])
async def test_lines_kept_behind_ones_lost_in_a_power_cut_are_rewritten_in_order(
    transcripts: JsonlTranscripts, file: Path, held: bytes
) -> None:
    damaged(file, held)
    with capture_logs() as logs:
        await transcripts.append(HEADER, [line("b", "a"), line("c", "b"), line("d", "c")])
    entries = [one for one in file.read_bytes().splitlines() if not one.startswith(b"\0")]
    assert [msgspec.json.decode(one).get("id") for one in entries] == ["S1", "a", "b", "c", "d"]
    assert await transcripts.leaf("S1", "shell", "t1") == "d"
    assert any("a part of a write" in entry["event"] for entry in logs)
    assert b"".join(path.read_bytes() for path in file.parent.glob("*.torn-*")) in held


@pytest.mark.req("X-4")
async def test_lines_added_by_another_program_after_a_power_cut_are_kept(
    transcripts: JsonlTranscripts, file: Path
) -> None:
    left = damaged(file, held := b"\0\n" + line("c", "b").line + b"\n" + line("theirs", "c").line + b"\n") + held
    await transcripts.append(HEADER, [line("b", "a"), line("c", "b")])
    assert file.read_bytes() == left + line("b", "a").line + b"\n"


@pytest.mark.req("X-4")
@pytest.mark.parametrize("held", [b"", line("b", "a").line + b"\n"])
async def test_a_header_lost_in_a_power_cut_is_written_again(transcripts: JsonlTranscripts, file: Path, held: bytes
                                                             ) -> None:
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\0" * 40 + b"\n" + held)
    await transcripts.append(HEADER, [line("a"), line("b", "a")])
    read = [msgspec.json.decode(one) for one in file.read_bytes().splitlines()]
    assert [one["type"] for one in read] == ["session", "custom", "custom"]
    assert [one["id"] for one in read[1:]] == ["a", "b"]


@pytest.mark.req("X-3")
@pytest.mark.parametrize("cut_back_fails", [False, True])
async def test_a_failed_sync_leaves_no_line_counted_as_stored(
    transcripts: JsonlTranscripts, file: Path, monkeypatch: pytest.MonkeyPatch, cut_back_fails: bool
) -> None:
    """After a failed sync a page may be clean and not on the disk: the lines are removed and written again."""
    await transcripts.append(HEADER, [line("a")])
    kept = file.read_bytes()

    def never_syncs(*_args: object) -> None:
        raise OSError(errno.EIO, "input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fdatasync", never_syncs)
        if cut_back_fails:
            broken.setattr(os, "ftruncate", never_syncs)
        for _ in range(2):
            with pytest.raises(OSError, match="input/output"):
                await transcripts.append(HEADER, [line("b", "a")])
        assert (file.read_bytes() == kept) != cut_back_fails
    await transcripts.append(HEADER, [line("b", "a"), line("c", "b")])
    assert file.read_bytes() == kept + line("b", "a").line + b"\n" + line("c", "b").line + b"\n"


@pytest.mark.req("X-3")
async def test_a_full_disk_loses_nothing(
    transcripts: JsonlTranscripts, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await transcripts.append(HEADER, [line("a")])
    kept = file.read_bytes()
    write, writes = os.write, []

    def half(fd: int, data: bytes) -> int:
        writes.append(fd)
        if len(writes) > 1:
            raise OSError(errno.ENOSPC, "no space left")
        return write(fd, bytes(data)[:9])

    with monkeypatch.context() as full:
        full.setattr(os, "write", half)
        with pytest.raises(OSError, match="no space"):
            await transcripts.append(HEADER, [line("b", "a")])
    assert file.read_bytes() == kept
    await transcripts.append(HEADER, [line("b", "a")])
    assert file.read_bytes() == kept + line("b", "a").line + b"\n"


async def test_an_evicted_file_is_read_again(
    transcripts: JsonlTranscripts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "KNOWN_FILES", 1)
    for session_id in ("S1", "S2", "S1", "S2"):
        await transcripts.append(HEADER._replace(session_id=session_id), [line("a")])
    assert [len(await transcripts.read(session_id, "shell", "t1")) for session_id in ("S1", "S2")] == [2, 2]


@pytest.mark.req("X-7")
async def test_a_long_file_evicted_for_others_is_not_read_completely_again(
    transcripts: JsonlTranscripts, tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transcript_index, "SETTLED_NS", 0)
    monkeypatch.setattr(files, "KNOWN_FILES", 2)
    long_file(file, 1_500)
    first = JsonlTranscripts(tmp_path / "state", ManualClock())
    await first.append(HEADER, [line("a", "e1499")])
    await first.close()
    renewed = threading.Event()

    def renew(of: Snapshot) -> None:
        transcript_index.renew_index(of)
        renewed.set()

    monkeypatch.setattr(transcripts_module, "renew_index", renew)
    await transcripts.append(HEADER, [line("b", "a")])
    for name in ("S2", "S3", "S4"):
        await transcripts.append(HEADER._replace(session_id=name), [line("a")])
    assert await asyncio.to_thread(renewed.wait, 20)
    counted = ReadBytes(file, monkeypatch)
    await transcripts.append(HEADER, [line("c", "b")])
    assert counted.count < 1024
    assert len(await transcripts.ids("S1", "shell", "t1")) == 1_503
