"""The outbox's file: its owner's alone, one runner's at a time, refused with a remedy if it is damaged or foreign."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import apsw
import msgspec
import pytest

from interlock.backends.outbox.schema import APPLICATION_ID, MIGRATIONS, OutboxUnusable
from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import encode
from interlock.protocol.payloads import StateChanged

pytestmark = pytest.mark.anyio
SESSION = "11111111-1111-4111-8111-111111111111"


def changed(name: str = "m") -> Frame:
    return Frame(type="agent.state.changed", payload=StateChanged(state="running", previous="idle"), message_id=name,
                 session_id=SESSION, timestamp="2026-11-21T10:00:00.000Z")


async def test_a_second_runner_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    outbox = SqliteOutbox(path)
    with pytest.raises(OutboxUnusable, match=r"outbox\.db is in use by another runner"):
        SqliteOutbox(path)
    await outbox.close()
    await SqliteOutbox(path).close()


async def test_the_file_is_accessible_only_by_its_owner(tmp_path: Path) -> None:
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


async def test_a_file_locked_by_another_program_is_not_reported_as_damaged(tmp_path: Path) -> None:
    """Moving a sound file away would lose the frames that wait in it."""
    path = tmp_path / "outbox.db"
    await SqliteOutbox(path).close()
    other = apsw.Connection(str(path))
    other.execute("PRAGMA journal_mode = DELETE; BEGIN EXCLUSIVE").fetchall()
    with pytest.raises(OutboxUnusable, match=r"cannot be read or written: .*locked.* leave it in its place"):
        SqliteOutbox(path)
    other.close()
    await SqliteOutbox(path).close()


async def test_a_full_disk_is_not_reported_as_damage(tmp_path: Path) -> None:
    """A file may grow to one byte here, which SQLite reports as it does a full disk."""
    path = tmp_path / "outbox.db"
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, limit[1]))
    try:
        with pytest.raises(OutboxUnusable, match=r"cannot be read or written: .*that the disk has room"):
            SqliteOutbox(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    await SqliteOutbox(path).close()


async def test_a_foreign_and_a_newer_file_are_refused(tmp_path: Path) -> None:
    foreign, newer = tmp_path / "foreign.db", tmp_path / "newer.db"
    apsw.Connection(str(foreign)).execute("CREATE TABLE t (a)")
    with pytest.raises(OutboxUnusable, match="not an outbox"):
        SqliteOutbox(foreign)
    await SqliteOutbox(newer).close()
    apsw.Connection(str(newer)).execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(OutboxUnusable, match="Update Interlock"):
        SqliteOutbox(newer)


async def test_an_impossible_directory_is_reported_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutboxUnusable, match="cannot be opened"):
        SqliteOutbox(tmp_path / "file" / "outbox.db")


@pytest.mark.req("D-5", "D-6")
async def test_a_file_of_a_single_gateway_version_continues_its_numbers(tmp_path: Path) -> None:
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
