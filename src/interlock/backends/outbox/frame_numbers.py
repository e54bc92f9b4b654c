"""Numbering of durable frames (E-4): pure, so that a refused frame leaves no trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

import msgspec

from interlock.ports.outbox import OutboxWrite, StoredFrame, UnknownSession
from interlock.protocol.envelope import Frame
from interlock.protocol.frames import Class, encode, frame_class


def number_frames(writes: Sequence[OutboxWrite], last_seqs: Mapping[str, int], made: Set[str]) -> list[StoredFrame]:
    """Number and encode the frames among `writes`, in order; sessions in `made` start with this write.

    Raises UnknownSession, InvalidFrame (FRAME_TOO_LARGE), and ValueError for a frame that is not durable.
    """
    numbers: dict[str, int] = {}
    stored: list[StoredFrame] = []
    for frame in writes:
        if not isinstance(frame, Frame):
            continue
        session_id = frame.session_id or ""
        if session_id not in last_seqs and session_id not in made:
            raise UnknownSession(f"The outbox has no session {session_id or '(none named)'}; open it first.")
        if frame_class(frame.type) is not Class.DURABLE:
            raise ValueError(f"{frame.type} is not durable and never enters an outbox")
        seq = numbers.get(session_id, last_seqs.get(session_id, 0)) + 1
        raw = encode(msgspec.structs.replace(frame, seq=seq))
        numbers[session_id] = seq
        stored.append(StoredFrame(session_id, seq, frame.message_id, frame.type, raw))
    return stored
