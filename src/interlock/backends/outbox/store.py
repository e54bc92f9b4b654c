"""The outbox's tables for the writer thread: synchronous, one connection, counters in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any, Self

import msgspec

from interlock.backends.outbox import bounds
from interlock.backends.outbox.bounds import CONTENT, CONTROLS_KEPT, ChannelKeep, Ranges
from interlock.backends.outbox.frame_numbers import number_frames
from interlock.backends.outbox.readers import OutboxCounts, ReaderCursor
from interlock.backends.outbox.schema import OutboxDatabase
from interlock.ports.outbox import (
    ANSWERS_READ,
    CloseBlock,
    GatewayRow,
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
from interlock.protocol.limits import OBSERVER_ABSENT_MS
from interlock.protocol.records import ControlRecord
from interlock.protocol.sizes import json_size

_ranges_decoder = msgspec.json.Decoder(list[tuple[int, int]])
_cursors_decoder = msgspec.json.Decoder(dict[str, ReaderCursor])


class _Session(OutboxCounts):
    """A session's row in memory; `key` is its short name in the other tables, `trimmed` up to where frames were
    deleted."""

    def __init__(self, key: int, session_id: str, created_ms: int, state: bytes, *, lost_ranges: Ranges | None = None,
                 cursors: dict[str, ReaderCursor] | None = None) -> None:
        super().__init__(session_id, created_ms, state, lost_ranges=lost_ranges, cursors=cursors)
        self.key = key
        self.trimmed = 0

    @classmethod
    def of_row(cls, row: tuple[Any, ...], bytes_stored: int) -> Self:
        """Read a row of the table `session`."""
        session = cls(row[0], row[1], row[7], row[10], lost_ranges=_ranges_decoder.decode(row[6]),
                      cursors=_cursors_decoder.decode(row[14]))
        session.restore(row[2], row[5], bytes_stored, forgotten=bool(row[11]), policy=row[12], controller=row[13])
        if session.controller not in session.cursors:  # A file from before gateways had cursors of their own.
            session.cursors[session.controller] = ReaderCursor(row[3], row[4], row[8], row[9])
        session.trimmed = session.floor()
        return session


class Store:
    """The tables. Every call runs inside a transaction that the writer thread began. After a rollback, call
    `reload`."""

    def __init__(self, database: OutboxDatabase, limit_bytes: int) -> None:
        self._database = database
        self._limit_bytes = limit_bytes
        self._sessions: dict[str, _Session] = {}
        self._gateways: dict[str, GatewayRow] = {}
        self._channels: dict[tuple[int, str], ChannelKeep] = {}
        self._dirty: dict[int, _Session] = {}
        self.reload()

    # --- counters ---
    def reload(self) -> None:
        """Read the counters back from the tables."""
        self._sessions.clear()
        self._channels.clear()
        self._dirty.clear()
        self._gateways = {row[0]: GatewayRow(*row) for row in self._rows("SELECT * FROM gateway ORDER BY rowid")}
        stored = dict(self._rows("SELECT session, total(size) FROM frame GROUP BY session"))
        for row in self._rows("SELECT * FROM session WHERE forgotten = 0 ORDER BY key"):
            session = _Session.of_row(row, int(stored.get(row[0], 0)))
            self._sessions[session.session_id] = session
        for row in self._rows("SELECT id, session, block, text FROM piece ORDER BY id"):
            if bounds.is_channel(row[2]):
                self._channel(row[1], row[2]).admit(row[0], json_size(row[3]))

    def settle(self) -> None:
        """Write the counters that this transaction changed, once for all its writes."""
        rows: list[tuple[Any, ...]] = []
        for s in self._dirty.values():
            own = s.seen(None)
            rows.append((s.last_seq, own.acked_seq, own.control_seq, s.bytes_kept, msgspec.json.encode(s.lost_ranges),
                         own.last_message_id, own.last_sync_ms, s.state, int(s.forgotten), s.policy, s.controller,
                         msgspec.json.encode(s.cursors), s.key))
        self._database.executemany(
            "UPDATE session SET last_seq = ?, acked_seq = ?, control_seq = ?, bytes_kept = ?, lost_ranges = ?,"
            " last_message_id = ?, last_sync_ms = ?, state = ?, forgotten = ?, policy = ?, controller = ?, cursors = ?"
            " WHERE key = ?", rows)
        for session in self._dirty.values():
            if session.forgotten:  # Read again on demand: closed sessions take no memory.
                self._sessions.pop(session.session_id, None)
        self._dirty.clear()

    def _rows(self, sql: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return self._database.execute(sql, values).fetchall()

    def _find(self, session_id: str) -> _Session | None:
        session = self._sessions.get(session_id)
        if session is None:
            rows = self._rows("SELECT * FROM session WHERE session_id = ?", (session_id,))
            if rows:
                session = _Session.of_row(rows[0], 0)
                for gateway_id in self._gateways:  # Those that arrived while it was forgotten.
                    session.join(gateway_id)
        return session

    def _known(self, session_id: str) -> _Session:
        session = self._find(session_id)
        if session is None:
            raise UnknownSession(f"The outbox has no session {session_id}; open it first.")
        return session

    def _channel(self, key: int, block: str) -> ChannelKeep:
        return self._channels.setdefault((key, block), ChannelKeep())

    def _touch(self, session: _Session) -> None:
        self._dirty[session.key] = session
        self._sessions[session.session_id] = session

    def _make(self, session_id: str, at_ms: int, state: bytes) -> _Session:
        self._database.execute(
            "INSERT INTO session VALUES (NULL, ?, 0, 0, 0, 0, x'5b5d', ?, '', 0, ?, 0, 'RING', '', x'7b7d')",
            (session_id, at_ms, state))
        session = _Session(self._database.last_insert_rowid(), session_id, at_ms, state)
        for gateway in self._gateways.values():
            session.observe(gateway, at_ms)
        self._sessions[session_id] = session
        self._touch(session)
        return session

    # --- writes ---
    def write(self, writes: Sequence[OutboxWrite], *, attached: Set[str] | None = None) -> list[StoredFrame]:
        """Apply in order. Raises InvalidFrame or UnknownSession before the first change."""
        made = {write.record.session_id: write.at_ms for write in writes if isinstance(write, StoreControl)}
        for write in writes:
            if not isinstance(write, Frame | StoreControl) and write.session_id not in made:
                self._known(write.session_id)
        named = {write.session_id for write in writes if isinstance(write, Frame)}
        last_seqs = {name: session.last_seq for name in named if name and (session := self._find(name))}
        stored = number_frames(writes, last_seqs, made.keys())
        numbered = iter(stored)
        for session_id, at_ms in made.items():
            if self._find(session_id) is None:
                self._make(session_id, at_ms, b"")
        for write in writes:
            match write:
                case Frame():
                    self._add_frame(next(numbered), attached)
                case TransientText():
                    self._add_piece(write)
                case CloseBlock():
                    self._close_block(write)
                case PutState():
                    self._put_state(write)
                case PutPolicy():
                    self._put_policy(write)
                case StoreControl():
                    self._add_control(write)
                case RefuseControl():
                    session = self._known(write.session_id)
                    session.cursor(write.gateway_id).refuse(write.refusal)
                    self._touch(session)
                case PutController():
                    self._put_controller(write)
        return stored

    def _add_frame(self, frame: StoredFrame, attached: Set[str] | None) -> None:
        session = self._known(frame.session_id)
        size = len(frame.raw)
        session.reach(frame.seq)
        session.revive()
        self._touch(session)
        detached = attached is not None and session.controller not in attached
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
        session.bytes_stored += size
        if session.bytes_kept > self._limit_bytes and session.policy == "RING":
            self._evict(session)
        session.note_peak()
        self._drop_places(session)

    def _evict(self, session: _Session) -> None:
        """Apply RING: delete the oldest content until the rest fits or nothing deletable is left (D-3)."""
        gone: list[tuple[int, int]] = []
        for seq, size in self._database.execute(
            "SELECT seq, size FROM frame WHERE session = ? AND content = 1 AND seq > ? ORDER BY seq",
            (session.key, session.seen(None).acked_seq),
        ):
            if session.bytes_kept <= self._limit_bytes:
                break
            session.bytes_kept -= size
            session.bytes_stored -= size
            bounds.add_lost(session.lost_ranges, seq)
            gone.append((session.key, seq))
        self._database.executemany("DELETE FROM frame WHERE session = ? AND seq = ?", gone)

    def _add_piece(self, piece: TransientText) -> None:
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
        session.put_state(put.state)
        self._touch(session)

    def _put_policy(self, put: PutPolicy) -> None:
        session = self._known(put.session_id)
        session.put_policy(put.policy)
        self._touch(session)

    def _add_control(self, control: StoreControl) -> None:
        record = control.record
        session = self._known(record.session_id)
        session.adopt(control.gateway_id)
        cursor = session.cursor(control.gateway_id)
        if record.seq <= cursor.control_seq:
            return
        self._database.execute(
            "INSERT INTO control VALUES (?, ?, ?, ?, ?, ?)",
            (session.key, control.gateway_id, record.seq, record.message_id, control.at_ms, record.body))
        self._database.execute("DELETE FROM control WHERE session = ? AND gateway_id = ? AND seq <= ?",
                               (session.key, control.gateway_id, record.seq - CONTROLS_KEPT))
        cursor.control_seq = record.seq
        session.revive()
        self._touch(session)

    # --- cursors of gateways (D-5) ---
    def _put_controller(self, put: PutController) -> None:
        session = self._known(put.session_id)
        session.hand_to(put.gateway_id)
        session.recount(self._size_after(session, session.seen(None).acked_seq))
        session.note_peak()
        self._trim(session)
        self._touch(session)

    def ack(self, session_id: str, seq: int, message_id: str, at_ms: int, gateway_id: str | None = None) -> None:
        session = self._known(session_id)
        cursor = session.cursor(gateway_id)
        if seq <= cursor.acked_seq:
            return
        if not message_id:
            found = self._rows("SELECT message_id FROM frame WHERE session = ? AND seq <= ? ORDER BY seq DESC LIMIT 1",
                               (session.key, seq))
            message_id = found[0][0] if found else cursor.last_message_id
        if cursor is session.seen(None):
            acked = self._rows("SELECT total(size) FROM frame WHERE session = ? AND seq > ? AND seq <= ?",
                               (session.key, cursor.acked_seq, seq))
            session.bytes_kept -= int(acked[0][0])
            session.trim_lost(seq)
        cursor.take_ack(seq, at_ms)
        cursor.last_message_id = message_id
        session.settle_peak(cursor)
        session.reach(seq)
        self._trim(session)
        self._touch(session)

    def _size_after(self, session: _Session, seq: int) -> int:
        return int(self._rows("SELECT total(size) FROM frame WHERE session = ? AND seq > ?", (session.key, seq))[0][0])

    def _trim(self, session: _Session) -> None:
        floor = session.floor()
        if floor <= session.trimmed:
            return
        freed = self._rows("SELECT total(size) FROM frame WHERE session = ? AND seq <= ?", (session.key, floor))
        self._database.execute("DELETE FROM frame WHERE session = ? AND seq <= ?", (session.key, floor))
        session.bytes_stored -= int(freed[0][0])
        session.trimmed = floor

    def _drop_places(self, session: _Session) -> None:
        """Drop the cursors of observers that are behind by more than the limit."""
        if session.bytes_stored <= self._limit_bytes:
            return
        for _, cursor in session.observers():
            if self._size_after(session, cursor.acked_seq) <= self._limit_bytes:
                break  # The following ones are less far behind.
            cursor.lose("bytes")
        self._trim(session)

    def confirm(self, session_id: str, gateway_id: str, message_ids: Sequence[str]) -> None:
        session = self._known(session_id)
        session.cursor(gateway_id).confirm(message_ids)
        self._touch(session)

    def join(self, gateway_id: str, link: str, *, adopt: bool) -> None:
        if adopt:
            self._database.execute(
                "UPDATE control SET gateway_id = ? WHERE gateway_id = '' AND session IN"
                " (SELECT key FROM session WHERE controller = '')", (gateway_id,))
        for session in self._sessions.values():
            if adopt:
                session.adopt(gateway_id)
            session.join(gateway_id)
            self._touch(session)
        self._put_gateway(GatewayRow(gateway_id, link, None))

    def leave(self, gateway_id: str, at_ms: int) -> None:
        known = self._gateways.get(gateway_id)
        if known is not None and known.left_ms is None:
            self._put_gateway(known._replace(left_ms=at_ms))

    def _put_gateway(self, gateway: GatewayRow) -> None:
        self._gateways[gateway.gateway_id] = gateway
        self._database.execute("INSERT INTO gateway VALUES (?, ?, ?) ON CONFLICT (gateway_id) DO UPDATE SET"
                               " link = excluded.link, left_ms = excluded.left_ms", gateway)

    def number_link(self, beyond: int) -> int:
        self._database.execute(
            "INSERT INTO counter VALUES ('link', ? + 1) ON CONFLICT (name) DO UPDATE SET value = max(value, ?) + 1",
            (beyond, beyond))
        return int(self._rows("SELECT value FROM counter WHERE name = 'link'")[0][0])

    def gateways(self) -> list[GatewayRow]:
        return list(self._gateways.values())

    def sweep(self, at_ms: int) -> list[tuple[str, str]]:
        gone = [one.gateway_id for one in self._gateways.values()
                if one.left_ms is not None and at_ms - one.left_ms >= OBSERVER_ABSENT_MS]
        lost: list[tuple[str, str]] = []
        for gateway_id in gone:
            for session in self._sessions.values():
                if session.leave(gateway_id):
                    lost.append((session.session_id, gateway_id))
                self._trim(session)
                self._touch(session)
        return lost

    def open_session(self, session_id: str, at_ms: int, state: bytes) -> SessionRow:
        session = self._find(session_id) or self._make(session_id, at_ms, state)
        session.reopen(state)
        self._touch(session)
        return session.row(None)

    def forget(self, session_id: str, handled: Mapping[str, int]) -> None:
        session = self._known(session_id)
        session.check_over(handled)
        for table in ("piece", "control"):
            self._database.execute(f"DELETE FROM {table} WHERE session = ?", (session.key,))
        for name in [name for name in self._channels if name[0] == session.key]:
            del self._channels[name]
        session.forget()
        self._touch(session)

    # --- reads ---
    def sessions(self, gateway_id: str | None = None) -> list[SessionRow]:
        return [session.row(gateway_id) for session in self._sessions.values() if not session.forgotten]

    def forgotten(self, since_ms: int, limit: int, gateway_id: str | None = None) -> list[SessionRow]:
        rows = self._rows("SELECT * FROM session WHERE forgotten = 1 AND last_sync_ms >= ?"
                          " ORDER BY last_sync_ms DESC LIMIT ?", (since_ms, limit))
        return [_Session.of_row(row, 0).row(gateway_id) for row in rows]

    def session(self, session_id: str, gateway_id: str | None = None) -> SessionRow | None:
        session = self._find(session_id)
        return session.row(gateway_id) if session else None

    def frames(self, session_id: str, after: int, limit_bytes: int) -> list[StoredFrame]:
        session = self._sessions.get(session_id)
        if session is None:
            return []
        page: list[StoredFrame] = []
        taken = 0
        for seq, message_id, frame_type, raw in self._database.execute(
            "SELECT seq, message_id, type, raw FROM frame WHERE session = ? AND seq > ? ORDER BY seq",
            (session.key, after),
        ):
            taken += len(raw)
            if page and taken > limit_bytes:
                break
            page.append(StoredFrame(session_id, seq, message_id, frame_type, raw))
        return page

    def answers(self, session_id: str, after: int) -> list[StoredFrame]:
        session = self._sessions.get(session_id)
        if session is None or session.last_seq <= after:
            return []
        rows = self._rows("SELECT seq, message_id, type, raw FROM frame WHERE session = ? AND seq > ?"
                          " AND type = 'session.error' ORDER BY seq DESC LIMIT ?", (session.key, after, ANSWERS_READ))
        return [StoredFrame(session_id, *row) for row in reversed(rows)]

    def pieces(self, session_id: str) -> list[TransientText]:
        session = self._sessions.get(session_id)
        if session is None:
            return []
        rows = self._database.execute("SELECT block, offset, text FROM piece WHERE session = ? ORDER BY id",
                                      (session.key,))
        return bounds.merge_pieces(TransientText(session_id, *row) for row in rows)

    def controls(self, session_id: str, after: int, gateway_id: str | None = None) -> list[ControlRecord]:
        session = self._sessions.get(session_id)
        if session is None:
            return []
        rows = self._rows(
            "SELECT seq, message_id, body FROM control WHERE session = ? AND gateway_id = ? AND seq > ? ORDER BY seq",
            (session.key, session.controller if gateway_id is None else gateway_id, after))
        return [ControlRecord(session_id=session_id, seq=seq, message_id=message_id, body=body)
                for seq, message_id, body in rows]

    def controlling(self, session_id: str) -> list[str]:
        session = self._find(session_id)
        return session.controlling() if session else []
