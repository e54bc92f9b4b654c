"""What only the outbox on disk does: it outlives its process, and refuses a file that it cannot trust."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import msgspec
import pytest
from proof.scarce import Scarce, State

from interlock.backends.outbox.schema import APPLICATION_ID, MIGRATIONS, OutboxUnusable
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import OutboxError, PutPolicy, TransientText
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.limits import MIB
from interlock.protocol.payloads import StateChanged

pytestmark = pytest.mark.anyio
SESSION = "11111111-1111-4111-8111-111111111111"
PATIENCE_S = 30.0

WRITER = """
import asyncio, sys
from pathlib import Path
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import TransientText
from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import StateChanged

async def main():
    outbox = SqliteOutbox(Path(sys.argv[1]))
    row = await outbox.open_session(sys.argv[2], 1, b"")
    offset = 0
    while True:
        name = f"m{row.last_seq + 1 + offset}"
        frame = Frame(type="agent.state.changed", payload=StateChanged(state="running", previous="idle"),
                      message_id=name, session_id=sys.argv[2], timestamp="2026-11-21T10:00:00.000Z")
        (stored,) = await outbox.write([frame])
        print("frame", stored.seq, name, flush=True)
        await outbox.write([TransientText(sys.argv[2], "b" + sys.argv[3], offset, "x")])
        offset += 1
        print("piece", offset, flush=True)

asyncio.run(main())
"""


def changed(name: str = "m") -> Frame:
    return Frame(type="agent.state.changed", payload=StateChanged(state="running", previous="idle"), message_id=name,
                 session_id=SESSION, timestamp="2026-11-21T10:00:00.000Z")


@pytest.mark.req("D-6", "D-1")
async def test_what_was_acknowledged_survives_kill_9_exactly_once(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    told: dict[int, str] = {}
    pieces: dict[str, int] = {}
    for run, lines in enumerate((7, 40, 101)):
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, str(path), SESSION, str(run),
                                                      stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(lines):
            _note(await asyncio.wait_for(writer.stdout.readline(), PATIENCE_S), told, pieces, f"b{run}")
        os.kill(writer.pid, signal.SIGKILL)
        for line in (await writer.stdout.read()).splitlines(keepends=True):
            _note(line, told, pieces, f"b{run}")
        await writer.wait()

    outbox = SqliteOutbox(path)
    kept = await outbox.frames(SESSION, 0, 64 * MIB)
    assert [s.seq for s in kept] == list(range(1, len(kept) + 1))
    assert {s.seq: s.message_id for s in kept if s.seq in told} == told
    assert len(kept) - len(told) <= 3, "At most the write that each kill interrupted was not told."
    for piece in await outbox.pieces(SESSION):
        assert piece.offset == 0
        assert len(piece.text) - pieces[piece.block] in (0, 1)
    await outbox.close()


def _note(line: bytes, told: dict[int, str], pieces: dict[str, int], block: str) -> None:
    if not line.endswith(b"\n"):
        return
    kind, number, *name = line.decode().split()
    if kind == "frame":
        told[int(number)] = name[0]
    else:
        pieces[block] = int(number)


@pytest.mark.req("D-6")
async def test_counters_and_channels_come_back_with_the_file(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    outbox = SqliteOutbox(path, limit_bytes=300)
    await outbox.open_session(SESSION, 5, b"state")
    await outbox.write([changed(), TransientText(SESSION, "i/stdout", 0, "x" * 200_000), PutPolicy(SESSION, "DROP")])
    before, pieces = await outbox.sessions(), await outbox.pieces(SESSION)
    await outbox.close()

    again = SqliteOutbox(path, limit_bytes=300)
    assert await again.sessions() == before
    assert await again.pieces(SESSION) == pieces
    await again.write([TransientText(SESSION, "i/stdout", 200_000, "y" * 200_000)])
    head, tail = await again.pieces(SESSION)
    assert (head.text[0], tail.text[-1], tail.offset + len(tail.text)) == ("x", "y", 400_000)
    await again.close()


@pytest.mark.req("D-1")
async def test_calls_at_the_same_time_share_commits_and_keep_their_order(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    await outbox.open_session(SESSION, 1, b"")
    stored = await asyncio.gather(*(outbox.write([changed(f"m{n}")]) for n in range(500)))
    assert [s[0].seq for s in stored] == list(range(1, 501))
    assert [s[0].message_id for s in stored] == [f"m{n}" for n in range(500)]
    await outbox.close()


async def test_a_second_runner_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    outbox = SqliteOutbox(path)
    with pytest.raises(OutboxUnusable, match=r"outbox\.db is in use by another runner"):
        SqliteOutbox(path)
    await outbox.close()
    await SqliteOutbox(path).close()


async def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "state" / "outbox.db"
    outbox = SqliteOutbox(path)
    await outbox.open_session(SESSION, 1, b"")
    assert {stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir() if file.suffix != ".db-shm"} == {0o600}
    await outbox.close()


@pytest.mark.parametrize("content", [b"not a database, but long enough to be one" * 100, b"SQLite format 3\0" * 512])
async def test_a_damaged_file_is_refused_with_its_name_and_the_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "outbox.db"
    path.write_bytes(content)
    with pytest.raises(OutboxUnusable, match=r"outbox\.db is damaged .*Move it away"):
        SqliteOutbox(path)
    assert path.read_bytes() == content


async def test_a_torn_page_is_found_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    outbox = SqliteOutbox(path)
    await outbox.open_session(SESSION, 1, b"")
    await outbox.write([changed(f"m{n}") for n in range(500)])
    await outbox.close()
    content = bytearray(path.read_bytes())
    content[8_192:40_960] = os.urandom(32_768)
    path.write_bytes(content)
    with pytest.raises(OutboxUnusable, match="damaged"):
        SqliteOutbox(path)


async def test_a_foreign_and_a_newer_file_are_refused(tmp_path: Path) -> None:
    foreign, newer = tmp_path / "foreign.db", tmp_path / "newer.db"
    apsw.Connection(str(foreign)).execute("CREATE TABLE t (a)")
    with pytest.raises(OutboxUnusable, match="not an outbox"):
        SqliteOutbox(foreign)
    await SqliteOutbox(newer).close()
    apsw.Connection(str(newer)).execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(OutboxUnusable, match="Update Interlock"):
        SqliteOutbox(newer)


async def test_a_directory_that_cannot_be_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutboxUnusable, match="cannot be opened"):
        SqliteOutbox(tmp_path / "file" / "outbox.db")


@pytest.mark.req("D-1")
async def test_a_store_that_fails_fails_the_call_and_nothing_of_it_is_there(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    outbox = SqliteOutbox(path)
    await outbox.open_session(SESSION, 1, b"")
    other = apsw.Connection(str(path))
    other.execute("CREATE TRIGGER no_more BEFORE INSERT ON frame BEGIN SELECT RAISE(ABORT, 'the disk is full'); END")
    with pytest.raises(OutboxError, match="the disk is full"):
        await outbox.write([changed()])
    other.execute("DROP TRIGGER no_more")
    other.close()
    assert [s.seq for s in await outbox.write([changed()])] == [1]
    await outbox.close()


@pytest.mark.req("D-1", "D-3")
@pytest.mark.parametrize("how", ["full", "failing"])
async def test_everybody_waits_while_the_disk_takes_nothing_and_nothing_is_lost(tmp_path: Path, how: State) -> None:
    disk = Scarce(tmp_path)
    try:
        outbox = SqliteOutbox(tmp_path / "outbox.db")
    finally:
        disk.close()
    await outbox.open_session(SESSION, 1, b"")
    disk.state = how
    writing = [asyncio.ensure_future(outbox.write([changed()])) for _ in range(3)]
    await asyncio.to_thread(disk.refused.wait)
    disk.state = "fine"
    assert sorted(stored.seq for done in await asyncio.gather(*writing) for stored in done) == [1, 2, 3]
    await outbox.close()


async def test_an_outbox_whose_disk_is_full_is_closed_all_the_same(tmp_path: Path) -> None:
    disk = Scarce(tmp_path)
    try:
        outbox = SqliteOutbox(tmp_path / "outbox.db")
    finally:
        disk.close()
    await outbox.open_session(SESSION, 1, b"")
    disk.state = "full"
    writing = asyncio.ensure_future(outbox.write([changed()]))
    await asyncio.to_thread(disk.refused.wait)
    await outbox.close()
    with pytest.raises(OutboxError, match="has room"):
        await writing


@pytest.mark.req("D-5", "D-6")
async def test_a_file_of_the_time_of_one_gateway_goes_on_with_its_numbers(tmp_path: Path) -> None:
    """Written with the schema of before: its session, control frames and frames are its first gateway's."""
    path = tmp_path / "outbox.db"
    database = apsw.Connection(str(path))
    for step in MIGRATIONS[:2]:
        database.execute(step)
    frame = encode(msgspec.structs.replace(changed("m"), seq=4))
    database.execute("PRAGMA user_version = 2")
    database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    database.execute("INSERT INTO session VALUES (1, ?, 4, 3, 7, ?, x'5b5d', 10, 'm3', 20, x'7b7d', 0, 'DROP')",
                     (SESSION, len(frame)))
    database.execute("INSERT INTO frame VALUES (1, 1, 4, 'm4', 'agent.state.changed', 0, ?, ?)", (len(frame), frame))
    database.execute("INSERT INTO control VALUES (1, 7, 'c7', 30, x'7b7d')")
    database.close()

    outbox = SqliteOutbox(path)
    row = await outbox.session(SESSION, "")
    assert row is not None
    assert (row.controller, row.acked_seq, row.control_seq, row.policy) == ("", 3, 7, "DROP")
    await outbox.join("g1", "one", adopt=True)
    await outbox.join("g2", "two", adopt=False)
    await outbox.close()

    outbox = SqliteOutbox(path)
    one, two = await outbox.session(SESSION, "g1"), await outbox.session(SESSION, "g2")
    assert one is not None
    assert two is not None
    assert (one.controller, one.acked_seq, one.control_seq, one.last_message_id) == ("g1", 3, 7, "m3")
    assert (two.acked_seq, two.control_seq, two.why_lost) == (0, 0, "joined")
    assert [record.message_id for record in await outbox.controls(SESSION, 0)] == ["c7"]
    assert [(gateway.gateway_id, gateway.link) for gateway in await outbox.gateways()] == [("g1", "one"), ("g2", "two")]
    assert [stored.seq for stored in await outbox.write([changed("n")])] == [5]
    await outbox.ack(SESSION, 5, "", 40, "g1")
    assert len(await outbox.frames(SESSION, 0, 1 << 20)) == 2
    await outbox.close()


@pytest.mark.req("L-5")
async def test_a_runner_that_was_started_again_goes_on_with_the_numbers_of_its_links(tmp_path: Path) -> None:
    for first in (1, 3, 5):
        outbox = SqliteOutbox(tmp_path / "outbox.db")
        assert [await outbox.number_link(), await outbox.number_link()] == [first, first + 1]
        await outbox.close()
