"""The outbox in dicts: the same rules as the one on disk, for tests of everything above the port."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from interlock.backends.outbox import bounds
from interlock.backends.outbox.bounds import CONTENT, CONTROLS_KEPT, ChannelKeep
from interlock.backends.outbox.frame_numbers import number_frames
from interlock.backends.outbox.readers import OutboxCounts
from interlock.ports.outbox import (
    ANSWERS_READ,
    CloseBlock,
    GatewayRow,
    OutboxError,
    OutboxWrite,
    PutController,
    PutPolicy,
    PutState,
    RefuseControl,
    SessionRow,
    StoreControl,
    StoredFrame,
    TransientText,
    UnknownSession,
)
from interlock.protocol.envelope import Frame
from interlock.protocol.limits import OBSERVER_ABSENT_MS, OUTBOX_BYTES
from interlock.protocol.records import ControlRecord
from interlock.protocol.sizes import json_size

Unnumbered = TransientText | CloseBlock | PutState | PutPolicy | StoreControl | RefuseControl | PutController


class _Session(OutboxCounts):
    """All that is kept of one session."""

    def __init__(self, session_id: str, created_ms: int, state: bytes) -> None:
        super().__init__(session_id, created_ms, state)
        self.frames: dict[int, StoredFrame] = {}
        self.pieces: dict[int, TransientText] = {}
        self.next_piece = 1
        self.channels: dict[str, ChannelKeep] = {}
        self.controls: dict[str, dict[int, ControlRecord]] = {}

    def add_frame(self, frame: StoredFrame, limit_bytes: int, attached: Set[str] | None) -> None:
        self.last_seq = frame.seq
        self.forgotten = False
        bytes_after = self.bytes_kept + len(frame.raw)
        detached = attached is not None and self.controller not in attached
        if bounds.refuses(self.policy, frame.frame_type, bytes_after, limit_bytes, detached=detached):
            bounds.add_lost(self.lost_ranges, frame.seq)
            return
        self.frames[frame.seq] = frame
        self.bytes_kept = bytes_after
        if self.policy == "RING":
            self._evict(limit_bytes)
        self.note_peak()
        for _, cursor in self.observers():
            if self._size_after(cursor.acked_seq) > limit_bytes:
                cursor.lose("bytes")
        self.trim()

    def _evict(self, limit_bytes: int) -> None:
        acked = self.seen(None).acked_seq
        for seq in [seq for seq, kept in self.frames.items() if kept.frame_type in CONTENT and seq > acked]:
            if self.bytes_kept <= limit_bytes:
                break
            self.bytes_kept -= len(self.frames.pop(seq).raw)
            bounds.add_lost(self.lost_ranges, seq)

    def _size_after(self, seq: int) -> int:
        return sum(len(frame.raw) for kept, frame in self.frames.items() if kept > seq)

    def trim(self) -> None:
        floor = self.floor()
        for seq in [kept for kept in self.frames if kept <= floor]:
            del self.frames[seq]

    def add_piece(self, piece: TransientText) -> None:
        for row in bounds.piece_rows(piece):
            name, self.next_piece = self.next_piece, self.next_piece + 1
            self.pieces[name] = row
            if bounds.is_channel(row.block):
                for dropped in self.channels.setdefault(row.block, ChannelKeep()).admit(name, json_size(row.text)):
                    del self.pieces[dropped]

    def close_block(self, block: str) -> None:
        self.pieces = {name: piece for name, piece in self.pieces.items() if piece.block != block}
        self.channels.pop(block, None)

    def add_control(self, record: ControlRecord, gateway_id: str) -> None:
        self.adopt(gateway_id)
        cursor, controls = self.cursor(gateway_id), self.controls.setdefault(gateway_id, {})
        if record.seq > cursor.control_seq:
            controls[record.seq] = record
            controls.pop(record.seq - CONTROLS_KEPT, None)
            cursor.control_seq = record.seq
            self.forgotten = False

    def put_controller(self, gateway_id: str) -> None:
        self.hand_to(gateway_id)
        self.bytes_kept = self._size_after(self.seen(None).acked_seq)
        self.note_peak()
        self.trim()

    def ack(self, seq: int, message_id: str, at_ms: int, gateway_id: str | None) -> None:
        cursor = self.cursor(gateway_id)
        if seq <= cursor.acked_seq:
            return
        last = max((kept for kept in self.frames if kept <= seq), default=None)
        found = self.frames[last].message_id if last is not None else cursor.last_message_id
        cursor.take_ack(seq, at_ms)
        cursor.last_message_id = message_id or found
        self.last_seq = max(self.last_seq, seq)
        if cursor is self.seen(None):
            self.bytes_kept = self._size_after(seq)
            self.trim_lost(seq)
        self.settle_peak(cursor)
        self.trim()


class MemoryOutbox:
    """`ports.outbox.Outbox` without a disk: not durable, otherwise the same."""

    def __init__(self, *, limit_bytes: int = OUTBOX_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._sessions: dict[str, _Session] = {}
        self._gateways: dict[str, GatewayRow] = {}
        self._link_number = 0
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

    async def write(self, writes: Sequence[OutboxWrite], *, attached: Set[str] | None = None) -> list[StoredFrame]:
        self._check_open()
        made = {write.record.session_id: write.at_ms for write in writes if isinstance(write, StoreControl)}
        for write in writes:
            if not isinstance(write, Frame | StoreControl) and write.session_id not in made:
                self._known(write.session_id)
        stored = number_frames(writes, {name: session.last_seq for name, session in self._sessions.items()},
                               made.keys())
        numbered = iter(stored)
        for name, at_ms in made.items():
            if name not in self._sessions:
                self._make(name, at_ms, b"")
        for write in writes:
            if isinstance(write, Frame):
                stored_frame = next(numbered)
                self._known(stored_frame.session_id).add_frame(stored_frame, self._limit_bytes, attached)
            else:
                self._apply(write)
        return stored

    def _make(self, session_id: str, at_ms: int, state: bytes) -> _Session:
        session = self._sessions[session_id] = _Session(session_id, at_ms, state)
        for gateway in self._gateways.values():
            session.observe(gateway, at_ms)
        return session

    def _apply(self, write: Unnumbered) -> None:
        match write:
            case TransientText():
                self._known(write.session_id).add_piece(write)
            case CloseBlock():
                self._known(write.session_id).close_block(write.block)
            case PutState():
                self._known(write.session_id).put_state(write.state)
            case PutPolicy():
                self._known(write.session_id).put_policy(write.policy)
            case StoreControl():
                self._known(write.record.session_id).add_control(write.record, write.gateway_id)
            case RefuseControl():
                self._known(write.session_id).cursor(write.gateway_id).refuse(write.refusal)
            case PutController():
                self._known(write.session_id).put_controller(write.gateway_id)

    async def open_session(self, session_id: str, at_ms: int, state: bytes) -> SessionRow:
        self._check_open()
        session = self._sessions.get(session_id) or self._make(session_id, at_ms, state)
        session.reopen(state)
        return session.row(None)

    async def sessions(self, gateway_id: str | None = None) -> list[SessionRow]:
        self._check_open()
        return [session.row(gateway_id) for session in self._sessions.values() if not session.forgotten]

    async def forgotten(self, since_ms: int, limit: int, gateway_id: str | None = None) -> list[SessionRow]:
        self._check_open()
        found = [session for session in self._sessions.values()
                 if session.forgotten and session.seen(None).last_sync_ms >= since_ms]
        found.sort(key=lambda session: -session.seen(None).last_sync_ms)
        return [session.row(gateway_id) for session in found[:limit]]

    async def session(self, session_id: str, gateway_id: str | None = None) -> SessionRow | None:
        self._check_open()
        session = self._sessions.get(session_id)
        return session.row(gateway_id) if session else None

    async def frames(self, session_id: str, after: int, limit_bytes: int) -> list[StoredFrame]:
        self._check_open()
        session = self._sessions.get(session_id)
        page: list[StoredFrame] = []
        taken = 0
        for seq, frame in session.frames.items() if session else ():
            if seq > after:
                taken += len(frame.raw)
                if page and taken > limit_bytes:
                    break
                page.append(frame)
        return page

    async def answers(self, session_id: str, after: int) -> list[StoredFrame]:
        self._check_open()
        session = self._sessions.get(session_id)
        kept = [frame for seq, frame in session.frames.items() if seq > after] if session else []
        return [frame for frame in kept if frame.frame_type == "session.error"][-ANSWERS_READ:]

    async def pieces(self, session_id: str) -> list[TransientText]:
        self._check_open()
        session = self._sessions.get(session_id)
        return bounds.merge_pieces(session.pieces.values()) if session else []

    async def controls(self, session_id: str, after: int, gateway_id: str | None = None) -> list[ControlRecord]:
        self._check_open()
        session = self._sessions.get(session_id)
        if session is None:
            return []
        controls = session.controls.get(session.controller if gateway_id is None else gateway_id, {})
        return [record for seq, record in controls.items() if seq > after]

    async def controlling(self, session_id: str) -> list[str]:
        self._check_open()
        session = self._sessions.get(session_id)
        return session.controlling() if session else []

    async def ack(self, session_id: str, seq: int, message_id: str, at_ms: int, gateway_id: str | None = None) -> None:
        self._known(session_id).ack(seq, message_id, at_ms, gateway_id)

    async def confirm(self, session_id: str, gateway_id: str, message_ids: Sequence[str]) -> None:
        self._known(session_id).cursor(gateway_id).confirm(message_ids)

    async def join(self, gateway_id: str, link: str, *, adopt: bool) -> None:
        self._check_open()
        for session in self._sessions.values():
            if adopt and session.controller == "":
                session.adopt(gateway_id)
                session.controls.setdefault(gateway_id, session.controls.pop("", {}))
            session.join(gateway_id)
        self._gateways[gateway_id] = GatewayRow(gateway_id, link, None)

    async def leave(self, gateway_id: str, at_ms: int) -> None:
        self._check_open()
        known = self._gateways.get(gateway_id)
        if known is not None and known.left_ms is None:
            self._gateways[gateway_id] = known._replace(left_ms=at_ms)

    async def number_link(self, beyond: int = 0) -> int:
        self._check_open()
        self._link_number = max(self._link_number, beyond) + 1
        return self._link_number

    async def gateways(self) -> list[GatewayRow]:
        self._check_open()
        return list(self._gateways.values())

    async def sweep(self, at_ms: int) -> list[tuple[str, str]]:
        self._check_open()
        gone = [one.gateway_id for one in self._gateways.values()
                if one.left_ms is not None and at_ms - one.left_ms >= OBSERVER_ABSENT_MS]
        lost = [(session.session_id, gateway_id) for gateway_id in gone for session in self._sessions.values()
                if session.leave(gateway_id)]
        for session in self._sessions.values():
            session.trim()
        return lost

    async def forget(self, session_id: str, handled: Mapping[str, int]) -> None:
        session = self._known(session_id)
        session.check_over(handled)
        session.pieces.clear()
        session.channels.clear()
        session.controls.clear()
        session.forget()

    async def close(self) -> None:
        self._closed = True
