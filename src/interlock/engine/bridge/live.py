"""Indexes of a lane's commands and messages, so that a decision need not iterate over them, and the values derived from
them and the approvals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from interlock.engine.bridge.lane_state import LaneState
from interlock.protocol.clock import parse_iso
from interlock.protocol.limits import PROGRESS_INTERVAL_MS, RECENT_MESSAGE_IDS
from interlock.protocol.records import ApprovalRecord, CommandRecord
from interlock.protocol.resources import SessionActivity

STALE_CLOCKS = 64
"""Outdated clocks that are kept in addition to the current ones before the heap is rebuilt."""


class LiveCommands(dict[str, CommandRecord]):
    """Records by command id, oldest first. They are changed by `keep` and `drop` only.

    A session may have hundreds of waiting commands, and each decision needs the nearest of their clocks and whether one
    of them interrupts: a scan each time would make the last of a long queue cost more.
    """

    def __init__(self, records: Iterable[CommandRecord] = ()) -> None:
        super().__init__()
        self._dues: dict[str, int] = {}
        self._clocks: list[tuple[int, str]] = []
        self.interrupting: set[str] = set()
        """The waiting commands that end the running one (C-3)."""
        for record in records:
            self.keep(record)

    def keep(self, record: CommandRecord) -> None:
        """Insert or replace."""
        command = record.command
        self[command.id] = record
        if command.on_busy == "interrupt":
            self.interrupting.add(command.id)
        due = due_ms(record)
        if due is None:
            self._dues.pop(command.id, None)
        elif self._dues.get(command.id) != due:
            self._dues[command.id] = due
            heappush(self._clocks, (due, command.id))
            if len(self._clocks) > 2 * len(self._dues) + STALE_CLOCKS:
                self._clocks = [(at, command_id) for command_id, at in self._dues.items()]
                heapify(self._clocks)

    def drop(self, command_id: str) -> None:
        """Remove a command that has ended, if present."""
        self.pop(command_id, None)
        self._dues.pop(command_id, None)
        self.interrupting.discard(command_id)

    @property
    def due_ms(self) -> int | None:
        """Return the nearest instant at which time alone triggers a decision about a command; None if nothing waits."""
        clocks, dues = self._clocks, self._dues
        while clocks and dues.get(clocks[0][1]) != clocks[0][0]:
            heappop(clocks)
        return clocks[0][0] if clocks else None


def due_ms(record: CommandRecord) -> int | None:
    """Return the next instant at which time alone triggers a decision about a command; None if nothing of it waits."""
    due = [at for at in (record.queue_deadline_ms, record.cancel_deadline_ms, record.detach_deadline_ms,
                         record.pause_deadline_ms) if at is not None]
    if record.running_since_ms is not None and record.remaining_ms is not None:
        due.append(record.running_since_ms + record.remaining_ms)
    return min(due, default=None)


def activity(state: LaneState, commands: LiveCommands, approvals: Iterable[ApprovalRecord]) -> SessionActivity:
    """Return the session's current state, for lists."""
    if any(r.approval.state == "pending" and (r.approval.door == "tool" or r.approval.budget is not None
                                               or r.approval.workspace_files) for r in approvals):
        return "waiting_approval"
    if state.active is not None:
        active = commands.get(state.active)
        return "paused" if active is not None and active.command.state == "paused" else "running"
    if state.compacting is not None or state.context.due in ("threshold", "overflow"):
        return "compacting"
    if state.controller and state.machine.phase == "turn":
        return "running"
    if commands:
        return "queued"
    return "idle" if state.opening == "open" else state.opening


def next_deadline(state: LaneState, commands: LiveCommands, approvals: Iterable[ApprovalRecord]) -> int | None:
    """Return the next instant at which time alone triggers a decision in a lane, in milliseconds on the line that
    clocks run by; None if nothing waits."""
    first = commands.due_ms
    due = [first] if first is not None else []
    if state.orphan is not None:
        due.append(state.orphan.deadline_ms)
    if state.close_deadline_ms is not None:
        due.append(state.close_deadline_ms)
    if state.reopen_deadline_ms is not None:
        due.append(state.reopen_deadline_ms)
    if state.stage and state.stage != state.stage_told:  # A stage whose report was delayed (S-5).
        record = commands.get(state.active or "")
        if record is not None and record.command.started_at is not None:
            due.append(state.percent_told_ms + PROGRESS_INTERVAL_MS)
    for record in approvals:
        if record.approval.state == "pending" or record.approval.verb is not None:
            due.append(record.expires_ms)
            if record.approval.budget is not None and record.approval.budget.resets_at is not None:
                due.append(parse_iso(record.approval.budget.resets_at))
    if state.context.pending is not None:
        due.append(state.context.pending.deadline_ms)
    return min(due, default=None)


UUID_CHARS, UUID_BYTES = 36, 16


class RecentIds:
    """The ids of the last RECENT_MESSAGE_IDS messages."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._order: deque[str | bytes] = deque(map(_short, ids))
        self._known = set(self._order)

    def seen(self, message_id: str) -> bool:
        """Add the id; returns whether it was known."""
        short = _short(message_id)
        if short in self._known:
            return True
        self._known.add(short)
        self._order.append(short)
        if len(self._order) > RECENT_MESSAGE_IDS:
            self._known.discard(self._order.popleft())
        return False

    def listed(self) -> list[str]:
        """Return the ids, oldest first. A UUID is returned in its usual form, whatever its case was."""
        return [_long(one) for one in self._order]


def _short(message_id: str) -> str | bytes:
    """Return a UUID as its 16 bytes, since every lane in memory holds thousands of them; any other form is returned
    unchanged."""
    if len(message_id) != UUID_CHARS or message_id[8:24:5] != "----":
        return message_id
    try:
        short = bytes.fromhex(message_id.replace("-", ""))
    except ValueError:
        return message_id
    return short if len(short) == UUID_BYTES else message_id


def _long(short: str | bytes) -> str:
    if isinstance(short, str):
        return short
    digits = short.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
