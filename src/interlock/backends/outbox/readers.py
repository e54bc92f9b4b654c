"""The gateways' cursors in a session, and what is kept for each (D-5): rules without storage, for every backend."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from interlock.backends.outbox import bounds
from interlock.backends.outbox.bounds import Ranges
from interlock.ports.outbox import GatewayRow, OutboxError, Policy, SessionRow, WhyLost
from interlock.protocol.limits import OBSERVER_ABSENT_MS
from interlock.protocol.payloads import RefusedControl

REFUSED_KEPT = 256
"""Refusals repeated to one gateway until it confirms them; if there are more, the newest."""


class ReaderCursor(msgspec.Struct):
    """A gateway's position in one session. `held`: unacknowledged frames are kept for it; if not, `why` is how it lost
    its cursor. For the controller everything is kept, within its policy."""

    acked_seq: int = 0
    control_seq: int = 0
    last_message_id: str = ""
    last_sync_ms: int = 0
    held: bool = True
    why: WhyLost = ""
    refused: list[RefusedControl] = []
    peak_bytes: int = 0
    """For the controller: the most bytes that were kept for it since its last acknowledgement (D-2)."""

    def refuse(self, refusal: RefusedControl) -> None:
        """Store a refusal until it is confirmed (D-7)."""
        self.refused = [*(one for one in self.refused if one.message_id != refusal.message_id), refusal][-REFUSED_KEPT:]

    def lose(self, why: WhyLost) -> None:
        """Stop keeping frames for the gateway."""
        self.held, self.why = False, why

    def confirm(self, message_ids: Sequence[str]) -> None:
        """Drop refusals that the gateway has received."""
        self.refused = [one for one in self.refused if one.message_id not in message_ids]

    def take_ack(self, seq: int, at_ms: int) -> None:
        """Record that the gateway has everything up to `seq`; it has a cursor again."""
        self.acked_seq, self.last_sync_ms = seq, at_ms
        self.held, self.why = True, ""


class OutboxCounts:
    """An outbox's counters of one session, independent of the storage.

    `bytes_kept` are the frames that the controller has not acknowledged, which its policy bounds. `bytes_stored` are
    all that are kept, for observers as well.
    """

    def __init__(self, session_id: str, created_ms: int, state: bytes, *, lost_ranges: Ranges | None = None,
                 cursors: dict[str, ReaderCursor] | None = None) -> None:
        self.session_id = session_id
        self.created_ms = created_ms
        self.state = state
        self.last_seq = self.bytes_kept = self.bytes_stored = 0
        self.lost_ranges: Ranges = lost_ranges or []
        self.policy: Policy = "RING"
        self.forgotten = False
        self.controller = ""
        self.cursors: dict[str, ReaderCursor] = cursors or {}

    def restore(self, last_seq: int, bytes_kept: int, bytes_stored: int, *, forgotten: bool, policy: Policy,
                controller: str) -> None:
        """Set the counters to their stored values."""
        self.last_seq, self.bytes_kept, self.bytes_stored = last_seq, bytes_kept, bytes_stored
        self.forgotten, self.policy, self.controller = forgotten, policy, controller

    def put_state(self, state: bytes) -> None:
        """Replace the session's state."""
        self.state = state

    def put_policy(self, policy: Policy) -> None:
        """Replace the policy for frames beyond the limit."""
        self.policy = policy

    def reopen(self, state: bytes) -> None:
        """Reopen the session, with this state if it has none."""
        self.forgotten, self.state = False, self.state or state

    def revive(self) -> None:
        """Mark the session as active: something was added to it."""
        self.forgotten = False

    def forget(self) -> None:
        """Remove the session from the open ones."""
        self.forgotten = True

    def reach(self, seq: int) -> None:
        """Record that the session's frames reach at least this number."""
        self.last_seq = max(self.last_seq, seq)

    def recount(self, bytes_kept: int) -> None:
        """Set the size of the frames that the controller has not acknowledged."""
        self.bytes_kept = bytes_kept

    def trim_lost(self, acked_seq: int) -> None:
        """Drop the lost frames up to `acked_seq`: the controller knows of them."""
        self.lost_ranges = bounds.trim_lost(self.lost_ranges, acked_seq)

    def cursor(self, gateway_id: str | None) -> ReaderCursor:
        """Return a gateway's cursor; None means the controller's."""
        return self.cursors.setdefault(self.controller if gateway_id is None else gateway_id, ReaderCursor())

    def seen(self, gateway_id: str | None) -> ReaderCursor:
        """Return the cursor without creating it: a gateway that never joined has one at the beginning."""
        return self.cursors.get(self.controller if gateway_id is None else gateway_id) or ReaderCursor()

    def observe(self, gateway: GatewayRow, at_ms: int) -> None:
        """Add a cursor for a known gateway to a new session, unless the gateway was absent for too long (D-5)."""
        absent = gateway.left_ms is not None and at_ms - gateway.left_ms >= OBSERVER_ABSENT_MS
        self.cursors.setdefault(gateway.gateway_id, ReaderCursor(held=not absent, why="absent" if absent else ""))

    def join(self, gateway_id: str) -> None:
        """Add a cursor for a gateway to an existing session; frames that are no longer kept were never its own."""
        if gateway_id not in self.cursors:
            self.cursors[gateway_id] = ReaderCursor(why="joined" if self.floor() else "")

    def adopt(self, gateway_id: str) -> None:
        """Make this gateway the controller of a session that has none, or one from before gateways had names."""
        if self.controller == "" and gateway_id:
            self.controller = gateway_id
            nameless = self.cursors.pop("", None)
            if nameless is not None and (nameless.acked_seq or nameless.control_seq):
                self.cursors[gateway_id] = nameless
            self.note_peak()

    def hand_to(self, gateway_id: str) -> None:
        """Make this gateway the controller; it gets a cursor, whatever it was before."""
        self.adopt(gateway_id)
        self.controller = gateway_id
        self.cursor(None).held = True

    def observers(self) -> list[tuple[str, ReaderCursor]]:
        """Return every other gateway that has a cursor, the one furthest behind first."""
        held = [(name, cursor) for name, cursor in self.cursors.items() if cursor.held and name != self.controller]
        return sorted(held, key=lambda one: one[1].acked_seq)

    def controlling(self) -> list[str]:
        """Return every gateway that ever sent it a control frame, the controller first."""
        others = [name for name, cursor in self.cursors.items() if cursor.control_seq and name != self.controller]
        return [self.controller, *others]

    def note_peak(self) -> None:
        """Update the high watermark after a frame was added and others may have been evicted (D-2)."""
        own = self.cursor(None)
        own.peak_bytes = max(own.peak_bytes, self.bytes_kept)

    def settle_peak(self, cursor: ReaderCursor) -> None:
        """Reset the watermark after an acknowledgement."""
        cursor.peak_bytes = self.bytes_kept if cursor is self.seen(None) else 0

    def floor(self) -> int:
        """Return the number up to which frames are no longer needed."""
        return min([self.seen(None).acked_seq, *(cursor.acked_seq for _, cursor in self.observers())])

    def settled(self) -> bool:
        """Return whether the controller, and every observer that has a cursor, has confirmed everything."""
        held = [self.seen(None), *(cursor for _, cursor in self.observers())]
        return all(cursor.acked_seq >= self.last_seq and not cursor.refused for cursor in held)

    def check_over(self, handled: Mapping[str, int]) -> None:
        """Raise OutboxError if it may not be forgotten yet."""
        if not self.settled():
            raise OutboxError(f"Session {self.session_id} still has frames that a gateway has not acknowledged.")
        if any(cursor.control_seq > handled.get(name, 0) for name, cursor in self.cursors.items()):
            raise OutboxError(f"Session {self.session_id} still has a control frame that waits to be acted on.")

    def leave(self, gateway_id: str) -> bool:
        """Remove the cursor of an observer that was absent for too long; returns whether frames were kept for it."""
        cursor = self.cursors.get(gateway_id)
        if cursor is None or not cursor.held or gateway_id == self.controller:
            return False
        behind = cursor.acked_seq < self.last_seq
        cursor.lose("absent")
        cursor.refused = []
        return behind

    def row(self, gateway_id: str | None) -> SessionRow:
        """Return the session from one gateway's point of view."""
        cursor = self.seen(gateway_id)
        return SessionRow(self.session_id, self.last_seq, cursor.acked_seq, cursor.control_seq, self.bytes_kept,
                          bounds.count_lost(self.lost_ranges), list(self.lost_ranges), self.created_ms,
                          cursor.last_message_id, cursor.last_sync_ms, self.state, self.policy, self.controller,
                          cursor.why, list(cursor.refused), self.settled(), cursor.peak_bytes)
