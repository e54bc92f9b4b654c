"""The outbox on disk, where it differs from others: it outlives its process, and refuses a file that it cannot
trust."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.backends.outbox.sqlite import SqliteOutbox
from interlock.ports.outbox import OutboxError
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import MIB
from interlock.protocol.payloads import StateChanged
from proof.faults.full_disk import FullDisk

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
async def test_acknowledged_frames_survive_kill_9_exactly_once(tmp_path: Path) -> None:
    path = tmp_path / "outbox.db"
    reported: dict[int, str] = {}
    pieces: dict[str, int] = {}
    for run, lines in enumerate((7, 40, 101)):
        writer = await asyncio.create_subprocess_exec(sys.executable, "-c", WRITER, str(path), SESSION, str(run),
                                                      stdout=subprocess.PIPE)
        assert writer.stdout is not None
        for _ in range(lines):
            _note(await asyncio.wait_for(writer.stdout.readline(), PATIENCE_S), reported, pieces, f"b{run}")
        os.kill(writer.pid, signal.SIGKILL)
        for line in (await writer.stdout.read()).splitlines(keepends=True):
            _note(line, reported, pieces, f"b{run}")
        await writer.wait()

    outbox = SqliteOutbox(path)
    kept = await outbox.frames(SESSION, 0, 64 * MIB)
    assert [s.seq for s in kept] == list(range(1, len(kept) + 1))
    assert {s.seq: s.message_id for s in kept if s.seq in reported} == reported
    assert len(kept) - len(reported) <= 3, "At most the write that each kill interrupted was not reported."
    for piece in await outbox.pieces(SESSION):
        assert piece.offset == 0
        assert len(piece.text) - pieces[piece.block] in (0, 1)
    await outbox.close()


def _note(line: bytes, reported: dict[int, str], pieces: dict[str, int], block: str) -> None:
    if not line.endswith(b"\n"):
        return
    kind, number, *name = line.decode().split()
    if kind == "frame":
        reported[int(number)] = name[0]
    else:
        pieces[block] = int(number)


async def test_an_outbox_on_a_full_disk_can_be_closed(tmp_path: Path) -> None:
    disk = FullDisk(tmp_path)
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
