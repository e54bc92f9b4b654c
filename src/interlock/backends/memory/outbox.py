"""The outbox in dicts: the same rules as the one on disk, for tests of everything above the port."""

from __future__ import annotations

from collections.abc import Sequence

from interlock.backends.outbox import bounds
from interlock.backends.outbox.bounds import CONTENT, CONTROLS_KEPT, ChannelKeep, Ranges
from interlock.backends.outbox.numbering import number_frames
from interlock.ports.outbox import (
    CloseBlock,
    OutboxError,
    OutboxWrite,
    Piece,
    Policy,
    PutPolicy,
    PutState,
    SessionRow,
    StoreControl,
    Stored,
    UnknownSession,
)
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import OUTBOX_BYTES
from interlock.protocol.records import ControlRecord
from interlock.protocol.sizes import json_size


class _Session:
    """All that is kept of one session."""

    def __init__(self, session_id: str, created_ms: int, state: bytes) -> None:
        self.session_id = session_id
        self.created_ms = created_ms
        self.state = state
        self.last_seq = self.acked_seq = self.control_seq = self.bytes_kept = self.last_sync_ms = 0
        self.last_message_id = ""
        self.lost_ranges: Ranges = []
        self.policy: Policy = "RING"
        self.forgotten = False
        self.frames: dict[int, Stored] = {}
        self.pieces: dict[int, Piece] = {}
        self.next_piece = 1
        self.channels: dict[str, ChannelKeep] = {}
        self.controls: dict[int, ControlRecord] = {}

    def row(self) -> SessionRow:
        return SessionRow(self.session_id, self.last_seq, self.acked_seq, self.control_seq, self.bytes_kept,
                          bounds.count_lost(self.lost_ranges), list(self.lost_ranges), self.created_ms,
                          self.last_message_id, self.last_sync_ms, self.state, self.policy)

    def add_frame(self, frame: Stored, limit_bytes: int, *, detached: bool) -> None:
        self.last_seq = frame.seq
        self.forgotten = False
        bytes_after = self.bytes_kept + len(frame.raw)
        if bounds.refuses(self.policy, frame.frame_type, bytes_after, limit_bytes, detached=detached):
            bounds.add_lost(self.lost_ranges, frame.seq)
            return
        self.frames[frame.seq] = frame
        self.bytes_kept = bytes_after
        if self.policy != "RING":
            return
        for seq in [seq for seq, kept in self.frames.items() if kept.frame_type in CONTENT]:
            if self.bytes_kept <= limit_bytes:
                break
            self.bytes_kept -= len(self.frames.pop(seq).raw)
            bounds.add_lost(self.lost_ranges, seq)

    def add_piece(self, piece: Piece) -> None:
        for row in bounds.piece_rows(piece):
            name, self.next_piece = self.next_piece, self.next_piece + 1
            self.pieces[name] = row
            if bounds.is_channel(row.block):
                for dropped in self.channels.setdefault(row.block, ChannelKeep()).admit(name, json_size(row.text)):
                    del self.pieces[dropped]

    def close_block(self, block: str) -> None:
        self.pieces = {name: piece for name, piece in self.pieces.items() if piece.block != block}
        self.channels.pop(block, None)

    def add_control(self, record: ControlRecord) -> None:
        if record.seq > self.control_seq:
            self.controls[record.seq] = record
            self.controls.pop(record.seq - CONTROLS_KEPT, None)
            self.control_seq = record.seq
            self.forgotten = False

    def ack(self, seq: int, message_id: str, at_ms: int) -> None:
        if seq <= self.acked_seq:
            return
        for acked in [kept for kept in self.frames if kept <= seq]:
            frame = self.frames.pop(acked)
            self.bytes_kept -= len(frame.raw)
            self.last_message_id = frame.message_id
        self.last_message_id = message_id or self.last_message_id
        self.acked_seq, self.last_seq, self.last_sync_ms = seq, max(self.last_seq, seq), at_ms
        self.lost_ranges = bounds.trim_lost(self.lost_ranges, seq)


class MemoryOutbox:
    """`ports.outbox.Outbox` without a disk: it survives nothing, and is otherwise the same."""

    def __init__(self, *, limit_bytes: int = OUTBOX_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._sessions: dict[str, _Session] = {}
        self._closed = False

    def _known(self, session_id: str) -> _Session:
        self._check_open()
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(f"The outbox has no session {session_id}; open it first.")
        return session

    def _check_open(self) -> None:
        if self._closed:
            raise OutboxError("The outbox is closed.")

    async def write(self, writes: Sequence[OutboxWrite], *, detached: bool = False) -> list[Stored]:
        self._check_open()
        made = {write.record.session_id: write.at_ms for write in writes if isinstance(write, StoreControl)}
        for write in writes:
            if isinstance(write, Piece | CloseBlock | PutState | PutPolicy) and write.session_id not in made:
                self._known(write.session_id)
        stored = number_frames(writes, {name: session.last_seq for name, session in self._sessions.items()},
                               made.keys())
        numbered = iter(stored)
        for name, at_ms in made.items():
            self._sessions.setdefault(name, _Session(name, at_ms, b""))
        for write in writes:
            self._apply(next(numbered) if isinstance(write, Frame) else write, detached=detached)
        return stored

    def _apply(self, write: Stored | Piece | CloseBlock | PutState | PutPolicy | StoreControl, *, detached: bool
               ) -> None:
        match write:
            case Stored():
                self._known(write.session_id).add_frame(write, self._limit_bytes, detached=detached)
            case Piece():
                self._known(write.session_id).add_piece(write)
            case CloseBlock():
                self._known(write.session_id).close_block(write.block)
            case PutState():
                self._known(write.session_id).state = write.state
            case PutPolicy():
                self._known(write.session_id).policy = write.policy
            case StoreControl():
                self._known(write.record.session_id).add_control(write.record)

    async def open_session(self, session_id: str, at_ms: int, state: bytes) -> SessionRow:
        self._check_open()
        session = self._sessions.setdefault(session_id, _Session(session_id, at_ms, state))
        session.forgotten = False
        session.state = session.state or state
        return session.row()

    async def sessions(self) -> list[SessionRow]:
        self._check_open()
        return [session.row() for session in self._sessions.values() if not session.forgotten]

    async def session(self, session_id: str) -> SessionRow | None:
        self._check_open()
        session = self._sessions.get(session_id)
        return session.row() if session else None

    async def frames(self, session_id: str, after: int, limit_bytes: int) -> list[Stored]:
        self._check_open()
        session = self._sessions.get(session_id)
        page: list[Stored] = []
        taken = 0
        for seq, frame in session.frames.items() if session else ():
            if seq > after:
                taken += len(frame.raw)
                if page and taken > limit_bytes:
                    break
                page.append(frame)
        return page

    async def pieces(self, session_id: str) -> list[Piece]:
        self._check_open()
        session = self._sessions.get(session_id)
        return bounds.merge_pieces(session.pieces.values()) if session else []

    async def controls(self, session_id: str, after: int) -> list[ControlRecord]:
        self._check_open()
        session = self._sessions.get(session_id)
        return [record for seq, record in session.controls.items() if seq > after] if session else []

    async def ack(self, session_id: str, seq: int, message_id: str, at_ms: int) -> None:
        self._known(session_id).ack(seq, message_id, at_ms)

    async def forget(self, session_id: str) -> None:
        session = self._known(session_id)
        if session.last_seq > session.acked_seq:
            raise OutboxError(f"Session {session_id} still has frames that the gateway has not acknowledged.")
        session.pieces.clear()
        session.channels.clear()
        session.controls.clear()
        session.forgotten = True

    async def close(self) -> None:
        self._closed = True
