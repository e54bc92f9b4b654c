"""Transcript files: modes, torn tails, failing disks, other programs in the same file (X-3, X-4)."""

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
from interlock.backends.jsonl.plain_files import PIECE_BYTES, Snapshot
from interlock.backends.jsonl.transcripts import JsonlTranscripts
from interlock.backends.memory.clock import ManualClock
from interlock.protocol.records import TranscriptLine
from interlock.session.keys import topic_of, transcript_name

pytestmark = pytest.mark.anyio


async def test_files_and_directories_belong_to_their_owner_alone(transcripts: JsonlTranscripts, file: Path) -> None:
    await transcripts.append(HEADER, [line("a")])
    assert file.stat().st_mode & 0o777 == 0o600
    assert {parent.stat().st_mode & 0o777 for parent in list(file.parents)[:4]} == {0o700}
    assert list(file.parents)[3].name == "state"


@pytest.mark.req("X-3")
async def test_entries_added_by_another_program_are_read(transcripts: JsonlTranscripts, file: Path) -> None:
    await transcripts.append(HEADER, [line("a")])
    with file.open("ab") as other:
        other.write(line("p", "a").line + b"\n")
    assert await transcripts.leaf("S1", "shell", "t1") == "p"
    await transcripts.append(HEADER, [line("p", "a"), line("b", "p")])
    assert await transcripts.ids("S1", "shell", "t1") == {"a", "p", "b"}
    assert file.read_bytes().count(b'"p"') == 2, "once as an id, once as a parent"


@pytest.mark.req("X-1", "X-3")
async def test_an_entry_has_another_programs_latest_entry_as_parent(transcripts: JsonlTranscripts, file: Path
                                                                        ) -> None:
    """The entry was made below the leaf that this process knew; pi has gone on in the file since."""

    def parents() -> dict[str, str | None]:
        read = [msgspec.json.decode(one) for one in file.read_bytes().splitlines()[1:]]
        return {one["id"]: one["parentId"] for one in read}

    await transcripts.append(HEADER, [line("a")])
    with file.open("ab") as other:
        other.write(line("p", "a").line + b"\n" + line("q", "p").line + b"\n")
    await transcripts.append(HEADER, [line("a")])  # Once more, since the ledger has not forgotten it yet.
    await transcripts.append(HEADER, [line("b", "a"), line("c", "b")])
    assert parents() == {"a": None, "p": "a", "q": "p", "b": "q", "c": "b"}
    await transcripts.append(HEADER, [line("b", "a"), line("d", "c")])
    assert parents()["d"] == "c"
    # A branch begins where a person chose, whatever was written meanwhile; so does one after a restart.
    with file.open("ab") as other:
        other.write(line("r", "d").line + b"\n")
    chosen = line("e", "a").line.replace(b'"type":"custom"', b'"type":"custom","customType":"interlock.branch"')
    await transcripts.append(HEADER, [msgspec.structs.replace(line("e"), line=chosen), line("f", "e")])
    assert (parents()["e"], parents()["f"]) == ("a", "e")
    again = JsonlTranscripts(file.parents[3], ManualClock())
    with file.open("ab") as other:
        other.write(line("s", "f").line + b"\n")
    await again.append(HEADER, [line("g", "f")])
    await again.close()
    assert parents()["g"] == "s"


@pytest.mark.req("X-3", "X-4")
async def test_an_entry_without_its_parent_is_kept_and_logged(transcripts: JsonlTranscripts, file: Path) -> None:
    await transcripts.append(HEADER, [line("a")])
    file.unlink()
    with capture_logs() as logs:
        await transcripts.append(HEADER, [line("b", "a")])
    assert [entry["parent"] for entry in logs] == ["a"]
    assert [msgspec.json.decode(one)["type"] for one in file.read_bytes().splitlines()] == ["session", "custom"]


@pytest.mark.parametrize("name", ["../S1", "", ".", "a/b", "-x", "a" * 200, "a\0"])
async def test_a_name_cannot_lead_out_of_the_directory(transcripts: JsonlTranscripts, name: str) -> None:
    for session_id, agent_id in ((name, "shell"), ("S1", name)):
        with pytest.raises(ValueError, match="cannot name a transcript"):
            await transcripts.append(HEADER._replace(session_id=session_id, agent_id=agent_id), [line("a")])
        with pytest.raises(ValueError, match="cannot name a transcript"):
            await transcripts.read(session_id, agent_id, "t1")


@pytest.mark.req("X-4", "X-7")
async def test_a_long_file_delays_no_other_session(
    transcripts: JsonlTranscripts, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, go_on = threading.Event(), threading.Event()
    lines = Snapshot.lines

    def slowly(self: Snapshot, at: int = 0) -> list[bytes]:
        if self.path == file:
            reading.set()
            assert go_on.wait(20)
        return lines(self, at)

    damaged(file, line("b", "a").line.replace(b'"custom"', b'"custom","data":"' + b"x" * files.LARGE_BYTES + b'"')
            + b"\n")
    monkeypatch.setattr(Snapshot, "lines", slowly)
    waiting = [asyncio.ensure_future(transcripts.append(HEADER, [line("c", "b")])),
               asyncio.ensure_future(transcripts.append(HEADER, [line("d", "c")])),
               asyncio.ensure_future(transcripts.tree("S1", "shell", "t1"))]
    assert await asyncio.to_thread(reading.wait, 20)
    async with asyncio.timeout(20):
        await transcripts.append(HEADER._replace(session_id="S2"), [line("a")])
        assert await transcripts.leaf("S2", "shell", "t1") == "a"
    go_on.set()
    await asyncio.gather(*waiting)
    assert await transcripts.leaf("S1", "shell", "t1") == "d"
    assert [node.id for node in (await transcripts.tree("S1", "shell", "t1")).nodes] == ["a", "b", "c", "d"]


@pytest.mark.req("X-7")
@pytest.mark.parametrize("entries", [1_500, 3_000])
async def test_the_first_append_reads_only_the_last_entry_of_a_long_file(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, entries: int,
) -> None:
    monkeypatch.setattr(transcript_index, "SETTLED_NS", 0)
    long_file(file, entries)
    counted = ReadBytes(file, monkeypatch)
    first = JsonlTranscripts(tmp_path / "state", ManualClock())
    await first.append(HEADER, [line("a", f"e{entries - 1}")])
    assert counted.count == file.stat().st_size - len(line("a", f"e{entries - 1}").line) - 1, "there was no index yet"
    await first.append(HEADER, [line("b", "a"), line("c", "b")])
    await first.close()
    for parent, fresh in (("c", "d"), ("d", "f")):
        counted.count = 0
        again = JsonlTranscripts(tmp_path / "state", ManualClock())
        await again.append(HEADER, [line(fresh, parent), line("e7", "e6")])
        assert counted.count < 1024
        assert (await again.leaf("S1", "shell", "t1"), len(await again.ids("S1", "shell", "t1"))) == (
            fresh, entries + "abcdf".index(fresh) + 1), "an entry that is there is not written twice"
        assert counted.count < 1024
        await again.close()


@pytest.mark.req("X-3", "X-7")
@pytest.mark.parametrize("change", ["append", "edit", "index"])
async def test_a_mismatching_index_is_not_used_for_ids(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch, change: str,
) -> None:
    monkeypatch.setattr(transcript_index, "SETTLED_NS", 0)
    long_file(file, 1_500)
    first = JsonlTranscripts(tmp_path / "state", ManualClock())
    await first.append(HEADER, [line("a", "e1499")])
    await first.close()
    index = transcript_index.index_path(file)
    if change == "append":
        with file.open("ab") as other:
            other.write(line("b", "a").line + b"\n")
    elif change == "edit":
        file.write_bytes(file.read_bytes().replace(b'"e7"', b'"e!"'))
    else:
        index.write_bytes(index.read_bytes().replace(b"e7\n", b"e!\n"))
    again = JsonlTranscripts(tmp_path / "state", ManualClock())
    expected = ({f"e{at}" for at in range(1_500)} | {"a"} | ({"b"} if change == "append" else set())
                | ({"e!"} if change == "edit" else set())) - ({"e7"} if change == "edit" else set())
    assert await again.ids("S1", "shell", "t1") == expected
    await again.close()


@pytest.mark.req("X-7")
async def test_an_append_waiting_for_its_files_survey_completes_before_the_close(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(files, "LARGE_BYTES", 1)
    long_file(file, 10)
    store = JsonlTranscripts(tmp_path / "state", ManualClock())
    busy, free, ended = threading.Event(), threading.Event(), threading.Event()
    shutdown = store._readers.shutdown

    def hold() -> None:
        busy.set()
        free.wait()

    def end_readers() -> None:
        shutdown()
        ended.set()

    monkeypatch.setattr(store._readers, "shutdown", end_readers)
    store._thread.submit(hold)
    await asyncio.to_thread(busy.wait)
    appending = asyncio.create_task(store.append(HEADER, [line("a", "e9")]))
    await asyncio.sleep(0)
    closing = asyncio.create_task(store.close())
    await asyncio.to_thread(ended.wait, 0.05)
    free.set()
    await asyncio.wait_for(appending, 10)
    await closing
    assert b'"a"' in file.read_bytes().splitlines()[-1]


@pytest.mark.req("X-4")
def test_a_line_as_long_as_the_file_is_joined_once(tmp_path: Path) -> None:
    path = tmp_path / "long.jsonl"
    parts = [b"", b"x" * (3 * PIECE_BYTES + 5), b"", b"y" * PIECE_BYTES, b"z", b""]
    path.write_bytes(b"\n".join(parts))
    with Snapshot.take(path) as file:
        with path.open("ab") as other:
            other.write(b"later\n")
        assert file.lines() == parts
        assert file.lines(1) == parts[1:]
        assert max(map(len, file.pieces())) == PIECE_BYTES


async def test_an_unreadable_file_is_named(
    transcripts: JsonlTranscripts, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await transcripts.append(HEADER, [line("a")])

    def failing(*_: object) -> bytes:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "pread", failing)
    with pytest.raises(OSError, match=r"Input/output error: '.*S1\.jsonl'"):
        await transcripts.tree("S1", "shell", "t1")


@pytest.mark.req("X-3", "R-1")
def test_the_file_of_a_topic_has_it_in_its_name_and_is_found_again(tmp_path: Path) -> None:
    store = files.TranscriptFiles(tmp_path, ManualClock())
    line = TranscriptLine(tenant_id="t1", session_id="S1", entry_id="0000000a",
                          line=b'{"type":"custom","id":"0000000a"}')
    store.append(HEADER._replace(topic="42"), [line])
    place = tmp_path / "agents/shell/sessions/S1-topic-42.jsonl"
    assert [transcript_name("S1", topic) for topic in ("42", "", "../x")] == [place.name, "S1.jsonl", "S1.jsonl"]
    assert place.read_bytes().endswith(line.line + b"\n")
    # A read by the session alone finds it, also after a restart; a file begun without a topic keeps none.
    for again in (store, files.TranscriptFiles(tmp_path, ManualClock())):
        assert again.path("S1", "shell") == again.path("S1", "shell", "42") == place
        assert again.path("S2", "shell").name == "S2.jsonl"
    plain = HEADER._replace(session_id="S3")
    store.append(plain, [line])
    store.append(plain._replace(topic="42"), [
        TranscriptLine(tenant_id="t1", session_id="S3", entry_id="0000000b", line=b"{}")])
    assert sorted(path.name for path in place.parent.glob("*.jsonl")) == ["S1-topic-42.jsonl", "S3.jsonl"]
    # A topic that could lead elsewhere names nothing.
    assert store.path("S4", "shell", "../../x").name == "S4.jsonl"
    assert [topic_of(key) for key in ("agent:a:telegram:group:-1:topic:42", "agent:a:topic", "agent:a:dm:topic:",
                                      "agent:a:main")] == ["42", "", "", ""]
