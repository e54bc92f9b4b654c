"""The outbox's tables, as the writer thread sees them: synchronous, one connection, counters in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from interlock.backends.outbox import bounds
from interlock.backends.outbox.bounds import CONTENT, CONTROLS_KEPT, ChannelKeep, Ranges
from interlock.backends.outbox.numbering import number_frames
from interlock.backends.outbox.schema import Database
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
from interlock.protocol.records import ControlRecord
from interlock.protocol.sizes import json_size

_ranges_decoder = msgspec.json.Decoder(list[tuple[int, int]])


class _Session:
    """A session's row in memory; `key` is its short name in the other tables."""

    __slots__ = ("acked_seq", "bytes_kept", "control_seq", "created_ms", "forgotten", "key", "last_message_id",
                 "last_seq", "last_sync_ms", "lost_ranges", "policy", "session_id", "state")

    def __init__(self, key: int, session_id: str, created_ms: int, state: bytes) -> None:
        self.key = key
        self.session_id = session_id
        self.created_ms = created_ms
        self.state = state
        self.last_seq = self.acked_seq = self.control_seq = self.bytes_kept = self.last_sync_ms = 0
        self.last_message_id = ""
        self.lost_ranges: Ranges = []
        self.policy: Policy = "RING"
        self.forgotten = False

    def row(self) -> SessionRow:
        return SessionRow(self.session_id, self.last_seq, self.acked_seq, self.control_seq, self.bytes_kept,
                          bounds.count_lost(self.lost_ranges), list(self.lost_ranges), self.created_ms,
                          self.last_message_id, self.last_sync_ms, self.state, self.policy)


class Store:
    """Every call runs inside a transaction that the writer thread began. After a rollback, `reload` is due."""

    def __init__(self, database: Database, limit_bytes: int) -> None:
        self._database = database
        self._limit_bytes = limit_bytes
        self._sessions: dict[str, _Session] = {}
        self._channels: dict[tuple[int, str], ChannelKeep] = {}
        self._dirty: dict[int, _Session] = {}
        self.reload()

    # --- counters ---
    def reload(self) -> None:
        """Read the counters back from the tables."""
        self._sessions.clear()
        self._channels.clear()
        self._dirty.clear()
        for row in self._rows("SELECT * FROM session ORDER BY key"):
            session = _Session(row[0], row[1], row[7], row[10])
            session.last_seq, session.acked_seq, session.control_seq, session.bytes_kept = row[2:6]
            session.lost_ranges = _ranges_decoder.decode(row[6])
            session.last_message_id, session.last_sync_ms, session.forgotten = row[8], row[9], bool(row[11])
            session.policy = row[12]
            self._sessions[session.session_id] = session
        for row in self._rows("SELECT id, session, block, text FROM piece ORDER BY id"):
            if bounds.is_channel(row[2]):
                self._channel(row[1], row[2]).admit(row[0], json_size(row[3]))

    def settle(self) -> None:
        """Write the counters that this transaction changed, once for all its writes."""
        self._database.executemany(
            "UPDATE session SET last_seq = ?, acked_seq = ?, control_seq = ?, bytes_kept = ?, lost_ranges = ?,"
            " last_message_id = ?, last_sync_ms = ?, state = ?, forgotten = ?, policy = ? WHERE key = ?",
            [(s.last_seq, s.acked_seq, s.control_seq, s.bytes_kept, msgspec.json.encode(s.lost_ranges),
              s.last_message_id, s.last_sync_ms, s.state, int(s.forgotten), s.policy, s.key)
             for s in self._dirty.values()],
        )
        self._dirty.clear()

    def _rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(sql, values).fetchall()

    def _known(self, session_id: str) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise UnknownSession(f"The outbox has no session {session_id}; open it first.")
        return session

    def _channel(self, key: int, block: str) -> ChannelKeep:
        return self._channels.setdefault((key, block), ChannelKeep())

    def _touch(self, session: _Session) -> None:
        self._dirty[session.key] = session

    def _make(self, session_id: str, at_ms: int, state: bytes) -> _Session:
        self._database.execute("INSERT INTO session VALUES (NULL, ?, 0, 0, 0, 0, x'5b5d', ?, '', 0, ?, 0, 'RING')",
                               (session_id, at_ms, state))
        session = _Session(self._database.last_insert_rowid(), session_id, at_ms, state)
        self._sessions[session_id] = session
        return session

    # --- writes ---
    def write(self, writes: Sequence[OutboxWrite], *, detached: bool = False) -> list[Stored]:
        """Apply in order. Raises InvalidFrame or UnknownSession before the first change."""
        made = {write.record.session_id: write.at_ms for write in writes if isinstance(write, StoreControl)}
        for write in writes:
            if isinstance(write, Piece | CloseBlock | PutState | PutPolicy) and write.session_id not in made:
                self._known(write.session_id)
        named = {write.session_id for write in writes if isinstance(write, Frame)}
        last_seqs = {name: session.last_seq for name in named if name and (session := self._sessions.get(name))}
        stored = number_frames(writes, last_seqs, made.keys())
        numbered = iter(stored)
        for session_id, at_ms in made.items():
            if session_id not in self._sessions:
                self._make(session_id, at_ms, b"")
        for write in writes:
            match write:
                case Frame():
                    self._add_frame(next(numbered), detached=detached)
                case Piece():
                    self._add_piece(write)
                case CloseBlock():
                    self._close_block(write)
                case PutState():
                    self._put_state(write)
                case PutPolicy():
                    self._put_policy(write)
                case StoreControl():
                    self._add_control(write)
        return stored

    def _add_frame(self, frame: Stored, *, detached: bool) -> None:
        session = self._known(frame.session_id)
        size = len(frame.raw)
        session.last_seq = frame.seq
        session.forgotten = False
        self._touch(session)
        if bounds.refuses(session.policy, frame.frame_type, session.bytes_kept + size, self._limit_bytes,
                          detached=detached):
            bounds.add_lost(session.lost_ranges, frame.seq)
            return
        self._database.execute(
            "INSERT INTO frame VALUES (NULL, ?, ?, ?, ?, ?, ?, ?)",
            (session.key, frame.seq, frame.message_id, frame.frame_type, int(frame.frame_type in CONTENT), size,
             frame.raw),
        )
        session.bytes_kept += size
        if session.bytes_kept > self._limit_bytes and session.policy == "RING":
            self._evict(session)

    def _evict(self, session: _Session) -> None:
        """RING: the oldest content goes until the rest fits or nothing that may go is left (D-3)."""
        gone: list[tuple[int, int]] = []
        for seq, size in self._database.execute(
            "SELECT seq, size FROM frame WHERE session = ? AND content = 1 ORDER BY seq", (session.key,)
        ):
            if session.bytes_kept <= self._limit_bytes:
                break
            session.bytes_kept -= size
            bounds.add_lost(session.lost_ranges, seq)
            gone.append((session.key, seq))
        self._database.executemany("DELETE FROM frame WHERE session = ? AND seq = ?", gone)

    def _add_piece(self, piece: Piece) -> None:
        session = self._known(piece.session_id)
        for row in bounds.piece_rows(piece):
            self._database.execute("INSERT INTO piece VALUES (NULL, ?, ?, ?, ?)",
                                   (session.key, row.block, row.offset, row.text))
            if bounds.is_channel(row.block):
                dropped = self._channel(session.key, row.block).admit(self._database.last_insert_rowid(),
                                                                     json_size(row.text))
                self._database.executemany("DELETE FROM piece WHERE id = ?", [(name,) for name in dropped])

    def _close_block(self, close: CloseBlock) -> None:
        session = self._known(close.session_id)
        self._database.execute("DELETE FROM piece WHERE session = ? AND block = ?", (session.key, close.block))
        self._channels.pop((session.key, close.block), None)

    def _put_state(self, put: PutState) -> None:
        session = self._known(put.session_id)
        session.state = put.state
        self._touch(session)

    def _put_policy(self, put: PutPolicy) -> None:
        session = self._known(put.session_id)
        session.policy = put.policy
        self._touch(session)

    def _add_control(self, control: StoreControl) -> None:
        record = control.record
        session = self._known(record.session_id)
        if record.seq <= session.control_seq:
            return
        self._database.execute("INSERT INTO control VALUES (?, ?, ?, ?, ?)",
                               (session.key, record.seq, record.message_id, control.at_ms, record.body))
        self._database.execute("DELETE FROM control WHERE session = ? AND seq <= ?",
                               (session.key, record.seq - CONTROLS_KEPT))
        session.control_seq = record.seq
        session.forgotten = False
        self._touch(session)

    def open_session(self, session_id: str, at_ms: int, state: bytes) -> SessionRow:
        session = self._sessions.get(session_id) or self._make(session_id, at_ms, state)
        session.forgotten = False
        session.state = session.state or state
        self._touch(session)
        return session.row()

    def ack(self, session_id: str, seq: int, message_id: str, at_ms: int) -> None:
        session = self._known(session_id)
        if seq <= session.acked_seq:
            return
        if not message_id:
            found = self._rows("SELECT message_id FROM frame WHERE session = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
                               (session.key, seq))
            message_id = found[0][0] if found else session.last_message_id
        freed = self._rows("SELECT total(size) FROM frame WHERE session = ? AND seq <= ?", (session.key, seq))
        self._database.execute("DELETE FROM frame WHERE session = ? AND seq <= ?", (session.key, seq))
        session.bytes_kept -= int(freed[0][0])
        session.acked_seq = seq
        session.last_seq = max(session.last_seq, seq)
        session.lost_ranges = bounds.trim_lost(session.lost_ranges, seq)
        session.last_message_id, session.last_sync_ms = message_id, at_ms
        self._touch(session)

    def forget(self, session_id: str) -> None:
        session = self._known(session_id)
        if session.last_seq > session.acked_seq:
            raise OutboxError(f"Session {session_id} still has frames that the gateway has not acknowledged.")
        for table in ("piece", "control"):
            self._database.execute(f"DELETE FROM {table} WHERE session = ?", (session.key,))
        for name in [name for name in self._channels if name[0] == session.key]:
            del self._channels[name]
        session.forgotten = True
        self._touch(session)

    # --- reads ---
    def sessions(self) -> list[SessionRow]:
        return [session.row() for session in self._sessions.values() if not session.forgotten]

    def session(self, session_id: str) -> SessionRow | None:
        session = self._sessions.get(session_id)
        return session.row() if session else None

    def frames(self, session_id: str, after: int, limit_bytes: int) -> list[Stored]:
        session = self._sessions.get(session_id)
        if session is None:
            return []
        page: list[Stored] = []
        taken = 0
        for seq, message_id, frame_type, raw in self._database.execute(
            "SELECT seq, message_id, type, raw FROM frame WHERE session = ? AND seq > ? ORDER BY seq",
            (session.key, after),
        ):
            taken += len(raw)
            if page and taken > limit_bytes:
                break
            page.append(Stored(session_id, seq, message_id, frame_type, raw))
        return page

    def pieces(self, session_id: str) -> list[Piece]:
        session = self._sessions.get(session_id)
        if session is None:
            return []
        rows = self._database.execute("SELECT block, offset, text FROM piece WHERE session = ? ORDER BY id",
                                      (session.key,))
        return bounds.merge_pieces(Piece(session_id, *row) for row in rows)

    def controls(self, session_id: str, after: int) -> list[ControlRecord]:
        session = self._sessions.get(session_id)
        if session is None:
            return []
        rows = self._rows("SELECT seq, message_id, body FROM control WHERE session = ? AND seq > ? ORDER BY seq",
                          (session.key, after))
        return [ControlRecord(session_id=session_id, seq=seq, message_id=message_id, body=body)
                for seq, message_id, body in rows]
