"""Writes of an outbox: together and in order, and nothing of a call that fails (D-1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import apsw
import pytest

from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import OutboxError, PutPolicy, TransientText
from interlock.protocol.envelope import Frame
from interlock.protocol.payloads import StateChanged
from proof.faults.full_disk import FullDisk, State

pytestmark = pytest.mark.anyio
SESSION = "11111111-1111-4111-8111-111111111111"


def changed(name: str = "m") -> Frame:
    return Frame(type="agent.state.changed", payload=StateChanged(state="running", previous="idle"), message_id=name,
                 session_id=SESSION, timestamp="2026-11-21T10:00:00.000Z")


@pytest.mark.req("D-6")
async def test_counters_and_channels_are_restored_from_the_file(tmp_path: Path) -> None:
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
async def test_concurrent_calls_share_commits_and_keep_their_order(tmp_path: Path) -> None:
    outbox = SqliteOutbox(tmp_path / "outbox.db")
    await outbox.open_session(SESSION, 1, b"")
    stored = await asyncio.gather(*(outbox.write([changed(f"m{n}")]) for n in range(500)))
    assert [s[0].seq for s in stored] == list(range(1, 501))
    assert [s[0].message_id for s in stored] == [f"m{n}" for n in range(500)]
    await outbox.close()


@pytest.mark.req("D-1")
async def test_a_failing_store_fails_the_call_and_stores_nothing_of_it(tmp_path: Path) -> None:
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
async def test_every_call_waits_while_the_disk_is_full_and_nothing_is_lost(tmp_path: Path, how: State) -> None:
    disk = FullDisk(tmp_path)
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


@pytest.mark.req("L-5")
async def test_a_restarted_runner_continues_the_numbers_of_its_links(tmp_path: Path) -> None:
    for first in (1, 3, 5):
        outbox = SqliteOutbox(tmp_path / "outbox.db")
        assert [await outbox.number_link(), await outbox.number_link()] == [first, first + 1]
        await outbox.close()
